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
	in, out := w.In*inner, w.Out*inner
	for most := w.side(outer, inner); most > 0 && outer > fewSide && !machine.Closed(done); {
		n := min(most, outer)
		x, y, rest := tmp[:in*n], tmp[in*n:][:out*n], tmp[(in+out)*most:]
		transpose(x, src, n, in)
		w.across(done, y, x, inner*n, rest)
		transpose(dst, y, out, n)
		dst, src, outer = dst[out*n:], src[in*n:], outer-n
	}
	for ; outer > 0 && !machine.Closed(done); outer-- {
		if inner == 1 {
			w.row(done, dst[:out], src[:in])
		} else {
			w.across(done, dst[:out], src[:in], inner, tmp)
		}
		dst, src = dst[out:], src[in:]
	}
}

// transpose writes cols × rows elements from rows × cols.
func transpose(dst, src []float32, rows, cols int) {
	t := simd.Active()
	for r := 0; r < rows; r += t.Tw {
		t.Transpose(machine.F32p(dst, r), machine.F32p(src, r*cols), cols, 4*rows, 4*cols, min(t.Tw, rows-r))
	}
}

// row sums within a row.
func (w *Weighted) row(done <-chan struct{}, y, x []float32) {
	for i := range y {
		if i%weightedLook == weightedLook-1 && machine.Closed(done) {
			return
		}
		sum, at := float32(0), w.At[w.First[i]:w.First[i+1]]
		for t, v := range w.Weight[w.First[i]:][:len(at)] {
			sum += v * x[at[t]]
		}
		y[i] = sum
	}
}

// across makes every row a weighted sum of rows, a strip of columns at a time.
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
			at := w.At[w.First[r]:w.First[r+1]]
			w.sum(y[r*inner+from:][:n], x[from:], inner, at, w.Weight[w.First[r]:], tmp)
		}
	}
}

// sum is the weighted sum of rows that lie step elements apart.
func (w *Weighted) sum(row, x []float32, step int, at []int32, weight, tmp []float32) {
	n := len(row)
	switch {
	case len(at) == 0:
		clear(row)
	case len(at) == 2 && n <= narrowRow:
		mixRows(row, x[int(at[0])*step:], x[int(at[1])*step:], weight[0], weight[1])
	default:
		BinaryScalar(simd.Mul, row, x[int(at[0])*step:][:n], weight[0])
		for t := 1; t < len(at); t++ {
			BinaryScalar(simd.Mul, tmp[:n], x[int(at[t])*step:][:n], weight[t])
			Binary(simd.Add, row, row, tmp[:n])
		}
	}
}

// mixRows is the weighted sum of two rows.
func mixRows(y, a, b []float32, v, w float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = v*a[i] + float32(w*b[i])
	}
}
