package kit

import "github.com/berth-onnx/berth/ops"

// Reference kernels end early when the context of their call does. A loop over elements counts what it has done
// and looks at the context after every piece:
//
//	w := kit.Watching(c)
//	for i, v := range x {
//		w.Did(1)
//		y[i] = f(v)
//	}
//
// A loop that does more in an iteration says so: w.Did(n) for n elements or products. The loops of this
// package count on their own. An element takes up to 100 ns or so, a piece a millisecond or two.

// piece is how many elements are computed between two looks.
const piece = 1 << 14

// Watch counts the work of a kernel. One of a nil call never ends.
type Watch struct {
	c    *ops.Call
	left int // until the next look
}

// Watching looks at the context and returns a count that starts. It is called in so many places that they take 15 kB of a program where it
// is inlined.
//
//go:noinline
func Watching(c *ops.Call) Watch {
	CheckEnded(c)
	return Watch{c, piece}
}

// Did counts n elements and fails if the call is to end early.
func (w *Watch) Did(n int) {
	if w.left -= n; w.left < 0 {
		w.look()
	}
}

//go:noinline
func (w *Watch) look() {
	w.left = piece
	CheckEnded(w.c)
}

// Pieces yields the bounds of pieces of n elements, and counts them, for loops of which many are short.
func (w *Watch) Pieces(n int) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from := 0; from < n; from += piece {
			to := min(from+piece, n)
			w.Did(to - from)
			if !yield(from, to) {
				return
			}
		}
	}
}

// Pieces yields the bounds of pieces of n elements, and counts them: for loops that have no room for a count.
func Pieces(c *ops.Call, n int) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from := 0; from < n; from += piece {
			CheckEnded(c)
			if !yield(from, min(from+piece, n)) {
				return
			}
		}
	}
}
