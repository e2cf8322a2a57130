package vec

import "github.com/berth-onnx/berth/internal/cpu/kern/simd"

// Softmax along columns, a strip of them at a time with a vector operation for each row:
//
//	┌ strip ┐
//	│ row k │   max   = elementwise maximum over the rows
//	│       │   row k = exp(row k − max), sum += row k
//	└───────┘   row k = row k / sum
//
// Where rows are complete and several fit into the workspace, they are one row of the computation: what they have in
// maximum and sum is brought together once, behind the last of them.

// columns are rows of n elements, step apart, joined of which are computed as one.
type columns struct {
	dst, src     []float32
	step, n      int
	joined       int
	top, sum, at []float32
}

// SoftmaxColumns computes softmax along columns, or its logarithm: of rows of n elements, each step behind the one before,
// the last of which ends dst and src. ws has room for three rows.
func SoftmaxColumns(dst, src []float32, step, n int, log bool, ws []float32) {
	c := columns{dst: dst, src: src, step: step, n: n, joined: 1}
	size := len(ws) / 3
	if step == n {
		c.joined = max(1, min(size/n, len(src)/n))
	}
	width := n * c.joined
	c.step *= c.joined
	c.top, c.sum, c.at = ws[:width], ws[size:][:width], ws[2*size:][:width]
	copy(c.top, src)
	c.maxima()
	c.sums(log)
	if log {
		Unary(simd.Log, c.sum, c.sum, 0, 0)
		c.each(func(x, y []float32) {
			Binary(simd.Sub, y, x, c.top[:len(x)])
			Binary(simd.Sub, y, y, c.sum[:len(x)])
		})
		return
	}
	c.each(func(x, y []float32) { Binary(simd.Div, y, y, c.sum[:len(x)]) })
}

// each calls f with every row of the computation; the last one may be shorter.
func (c *columns) each(f func(x, y []float32)) {
	for from := 0; from < len(c.src); from += c.step {
		to := min(from+len(c.top), len(c.src))
		f(c.src[from:to], c.dst[from:to])
	}
}

func (c *columns) maxima() {
	c.each(func(x, _ []float32) { Binary(simd.Max, c.top[:len(x)], c.top[:len(x)], x) })
	c.join(simd.Max, c.top)
}

func (c *columns) sums(log bool) {
	clear(c.sum)
	c.each(func(x, y []float32) {
		if log {
			y = c.at[:len(x)]
		}
		Binary(simd.Sub, y, x, c.top[:len(x)])
		Unary(simd.Exp, y, y, 0, 0)
		Binary(simd.Add, c.sum[:len(x)], c.sum[:len(x)], y)
	})
	c.join(simd.Add, c.sum)
}

// join brings rows that were computed as one together and leaves the result in all of them.
func (c *columns) join(op simd.BinaryOp, x []float32) {
	for r := 1; r < c.joined; r++ {
		Binary(op, x[:c.n], x[:c.n], x[r*c.n:][:c.n])
	}
	for r := 1; r < c.joined; r++ {
		copy(x[r*c.n:][:c.n], x[:c.n])
	}
}
