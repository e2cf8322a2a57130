package sysmem

import (
	"context"
	"runtime"
)

// copyPiece is how many bytes are copied between two looks at a context.
const copyPiece = 1 << 20

// Copy is copy, which ends with the error of a context; nil never ends it. The scheduler is let in between pieces: it does not interrupt
// the copying of memory, so that a collection would wait for all of it, and everybody for the collection.
func Copy(ctx context.Context, dst, src []byte) error {
	for len(src) > copyPiece && len(dst) > copyPiece {
		if ctx != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		copy(dst, src[:copyPiece])
		runtime.Gosched()
		dst, src = dst[copyPiece:], src[copyPiece:]
	}
	copy(dst, src)
	return nil
}
