package nn

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Convolutions of float64 in which many output channels read the same inputs are products: what some outputs read is copied to a matrix of a row for each channel and tap, zeros
// where a tap lies in the padding, and the weights are multiplied with it.
//
//	          outputs o … o+127
//	channel 0, tap 0   x x x x …
//	channel 0, tap 1   x x x x …       y[m, o…] = bias[m] + w[m, ·] · matrix
//	…
//
// Each sum is added up in the order of channels, then taps. Weights that are not finite are left to the plain loops, since their products with zeros of the padding are none.

// fewOutputs are the output channels of a group below which copying is not worth it.
const fewOutputs = 4

// EvalConv64 is the reference kernel of [Conv] for float64 in blocks.
func EvalConv64(c *ops.Call) error {
	return kit.Attempt(func() {
		s := ConvShapeOf(c.Node, kit.Tensor(c, 0).Shape, kit.Tensor(c, 1).Shape)
		kit.WantLen("bias", c.Array(2), s.M)
		y := kit.NewResult[float64](c, 0, ndarray.Float64, s.YShape()...)
		x, w, bias := kit.Elements[float64](c, c.Array(0)), kit.Elements[float64](c, c.Array(1)), kit.Elements[float64](c, c.Array(2))
		if !convolve64(c, &s, x, w, bias, y.V) {
			Convolve(c, &s, x, w, bias, y.V)
		}
		y.Store()
	})
}

// convolve64 is [Convolve] for float64; it reports false where that is to be used.
func convolve64(call *ops.Call, s *ConvShape, x, w, bias, y []float64) bool {
	mg := s.M / s.group
	if mg < fewOutputs {
		return false
	}
	watch := kit.Watching(call)
	for _, v := range w {
		watch.Did(1)
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return false
		}
	}
	outs, in, depth := kit.SizeOf(s.Win.Out), kit.SizeOf(s.Win.In), s.C/s.group*s.Win.taps()
	fillBias(call, y, bias, s.M, outs)
	blocks, k := (outs+kit.Columns64-1)/kit.Columns64, min(depth, kit.Depth64)
	perTask := kit.Columns64 * k
	room := kit.Make[float64](call, max(call.Threads, 1)*perTask)
	free := make(chan []float64, max(call.Threads, 1))
	for i := range cap(free) {
		free <- room[i*perTask:][:perTask]
	}
	kit.Share(call, float64(s.N)*float64(s.M)*float64(outs)*float64(depth), s.N*s.group*blocks, func(task int) {
		cols := <-free
		defer func() { free <- cols }()
		image, o := task/blocks, task%blocks*kit.Columns64 // image and group
		n := min(kit.Columns64, outs-o)
		for p := 0; p < depth; p += k {
			rows := min(k, depth-p)
			s.Win.gather(call, cols, x[image*(s.C/s.group)*in:], p, rows, o, n)
			g := image % s.group
			kit.Block64(call, mg, n, rows, w[g*mg*depth+p:], depth, cols, n, y[image*mg*outs+o:], outs)
		}
	})
	return true
}

// gather copies what outputs [o, o+n) read by rows [from, from+rows) of channels and taps.
func (w *Window) gather(call *ops.Call, cols, x []float64, from, rows, o, n int) {
	watch := kit.Watching(call)
	taps, in := w.taps(), kit.SizeOf(w.In)
	tap := make([]int, len(w.kernel))
	for r := range rows {
		watch.Did(n)
		rest := (from + r) % taps
		for i := len(tap) - 1; i >= 0; i-- {
			tap[i], rest = rest%w.kernel[i], rest/w.kernel[i]
		}
		w.gatherRow(cols[r*n:][:n], x[(from+r)/taps*in:][:in], tap, o)
	}
}

// gatherRow copies what outputs from o on read of one channel by one tap.
func (w *Window) gatherRow(row, x []float64, tap []int, o int) {
	last := len(tap) - 1
	width, stride := w.Out[last], w.strides[last]
	lo, hi := w.run(last, tap[last])
	first := tap[last]*w.dilations[last] - w.begin[last]
	for len(row) > 0 {
		line, at := o/width, o%width
		n := min(len(row), width-at)
		part := row[:n]
		row, o = row[n:], o+n
		from, to := min(max(lo-at, 0), n), min(max(hi-at, 0), n)
		base, ok := w.lineOf(line, tap)
		if !ok || from >= to {
			clear(part)
			continue
		}
		clear(part[:from])
		clear(part[to:])
		src := x[base+(at+from)*stride+first:]
		if stride == 1 {
			copy(part[from:to], src)
			continue
		}
		for j := range part[from:to] {
			part[from+j] = src[j*stride]
		}
	}
}

// lineOf is where the line begins that a line of outputs reads by a tap, not ok in the padding.
func (w *Window) lineOf(line int, tap []int) (at int, ok bool) {
	size := w.In[len(tap)-1]
	for i := len(tap) - 2; i >= 0; i-- {
		pos := line%w.Out[i]*w.strides[i] + tap[i]*w.dilations[i] - w.begin[i]
		line /= w.Out[i]
		if pos < 0 || pos >= w.In[i] {
			return 0, false
		}
		at += pos * size
		size *= w.In[i]
	}
	return at, true
}
