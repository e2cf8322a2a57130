package vec

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Weighted makes elements along an axis sums of weighted ones: those of a resized image, for example. Rows behind the axis are summed as a
// whole. Where they are short, or single elements, many of them lie side by side for that, which two transpositions in the cache bring about:
//
//	outer × in × inner ──▶ in × inner × outer ──sums of rows──▶ out × inner × outer ──▶ outer × out × inner
//
// The order of a sum is that of its taps, however many there are of anything.
type Weighted struct {
	In, Out int
	First   []int32 // position of the first tap of every result index; one more at the end
	At      []int32 // operand index of every tap
	Weight  []float32
}

const (
	// narrowRow is the length of rows up to which calls of vector kernels take longer than their work.
	narrowRow = 20
	// sideBySide is the most outer indices that are summed together, and fewSide up to how many are not worth it.
	sideBySide, fewSide = 128, 4
	// sideElems bounds the elements of both transposed images.
	sideElems = 16 << 10
	// weightedStrip is the most columns that are summed together.
	weightedStrip = 32 << 10
	// weightedLook is about how many elements are computed between two looks at the end of a run.
	weightedLook = 1 << 20
)

// side is how many outer indices are summed together; 0 where rows are long, or too few.
func (w *Weighted) side(outer, inner int) int {
	if n := min(outer, sideBySide, sideElems/max(1, (w.In+w.Out)*inner)); n > fewSide && inner <= narrowRow {
		return n
	}
	return 0
}

// Scratch is the floats of workspace that Run needs for outer × in × inner elements.
func (w *Weighted) Scratch(outer, inner int) int {
	n := w.side(outer, inner)
	return n*(w.In+w.Out)*inner + min(weightedStrip, max(1, n)*inner)
}

// Run computes outer × out × inner elements from outer × in × inner. It ends early when done is closed.
func (w *Weighted) Run(done <-chan struct{}, dst, src []float32, outer, inner int, tmp []float32) {
	in, out, most := w.In*inner, w.Out*inner, w.side(outer, inner)
	for n := 0; outer > 0 && !machine.Closed(done); outer -= n {
		if n = min(most, outer); n > fewSide {
			y := tmp[in*n:]
			transpose(tmp, src, n, in)
			w.across(done, y, tmp, inner*n, y[out*n:])
			transpose(dst, y, out, n)
		} else if n = 1; inner == 1 {
			w.row(done, dst, src)
		} else {
			w.across(done, dst, src, inner, tmp)
		}
		dst, src = dst[out*n:], src[in*n:]
	}
}

// transpose writes cols × rows elements from rows × cols.
//
//go:noinline
func transpose(dst, src []float32, rows, cols int) {
	t := simd.Active()
	for r := 0; r < rows; r += t.Tw {
		t.Transpose(machine.F32p(dst, r), machine.F32p(src, r*cols), cols, 4*rows, 4*cols, min(t.Tw, rows-r))
	}
}

// row sums within a row.
func (w *Weighted) row(done <-chan struct{}, y, x []float32) {
	for i := range w.Out {
		if i%weightedLook == weightedLook-1 && machine.Closed(done) {
			return
		}
		sum := float32(0)
		for t := w.First[i]; t < w.First[i+1]; t++ {
			sum += w.Weight[t] * x[w.At[t]]
		}
		y[i] = sum
	}
}

// across makes every row a weighted sum of rows, a strip of columns at a time.
//
//go:noinline
func (w *Weighted) across(done <-chan struct{}, y, x []float32, inner int, tmp []float32) {
	seen := 0
	for from := 0; from < inner; from += weightedStrip {
		n := min(weightedStrip, inner-from)
		for r := range w.Out {
			if seen += n; seen > weightedLook {
				if seen = 0; machine.Closed(done) {
					return
				}
			}
			row := y[r*inner+from:][:n]
			first, last := w.First[r], w.First[r+1]
			if first == last {
				clear(row)
			}
			part := row
			for t := first; t < last; t++ {
				BinaryScalar(simd.Mul, part, x[int(w.At[t])*inner+from:][:n], w.Weight[t])
				if t > first {
					Binary(simd.Add, row, row, part)
				}
				part = tmp[:n]
			}
		}
	}
}
