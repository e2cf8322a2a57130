package sysmem

import "context"

// copyPiece is how many bytes are copied between two looks at a context.
const copyPiece = 1 << 20

// Copy is copy, which ends with the error of a context; nil never ends it. The goroutine can be preempted between pieces. While memory
// is copied it can not: a collection would wait for all of it, and everybody for the collection.
func Copy(ctx context.Context, dst, src []byte) error {
	for len(src) > copyPiece && len(dst) > copyPiece {
		if ctx != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		CopyPiece(dst, src[:copyPiece])
		dst, src = dst[copyPiece:], src[copyPiece:]
	}
	copy(dst, src)
	return nil
}

// CopyPiece is copy, for loops. A call preempts the goroutine if the scheduler has asked for that; [runtime.Gosched] would let all others
// run first, for 10 ms each where they compute.
//
//go:noinline
func CopyPiece[T any](dst, src []T) int { return copy(dst, src) }
