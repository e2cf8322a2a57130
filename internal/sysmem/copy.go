package sysmem

import "context"

// copyPiece is how many bytes are copied between two looks at a context.
const copyPiece = 1 << 20

// Copy is copy, which ends with the error of a context; nil never ends it.
func Copy(ctx context.Context, dst, src []byte) error {
	for len(src) > copyPiece && len(dst) > copyPiece {
		if ctx != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		copy(dst, src[:copyPiece])
		dst, src = dst[copyPiece:], src[copyPiece:]
	}
	copy(dst, src)
	return nil
}
