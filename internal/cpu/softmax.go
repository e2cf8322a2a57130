package cpu

import (
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
)

var softmaxOps = []entry{
	{op: "Softmax", prepare: prepareSoftmax(false)},
	{op: "LogSoftmax", prepare: prepareSoftmax(true)},
}

// softmax along an axis. Along the last one it works on rows; along another it
// works on columns, a strip of them at a time with one vector operation per
// position of the axis:
//
//	           ┌ strip ┐
//	     ┌─────┬───────┬───┐    max   = elementwise maximum over the rows
//	axis │     │ row k │   │    row k = exp(row k − max), sum += row k
//	     └─────┴───────┴───┘    row k = row k / sum
type softmax struct {
	outer, size, inner int
	log                bool
	strips             int
	ws, threads        int
}

// softmaxStrip is the width of a strip.
const softmaxStrip = 512

func prepareSoftmax(log bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		shape := p.in[0].shape
		if len(shape) == 0 {
			shape = []int{1}
		}
		axis, ok := p.axis(len(shape))
		if !ok || !p.allF32() {
			return nil, nil
		}
		k := &softmax{log: log, threads: p.threads}
		k.outer, k.size, k.inner = around(shape, axis)
		k.strips = ceilDiv(k.inner, softmaxStrip)
		if k.inner > 1 {
			k.ws = p.perWorker(3*softmaxStrip*4, k.outer*k.strips)
		}
		return k, nil
	}
}

// Run computes all rows or strips.
func (k *softmax) Run(c *ops.Call) error {
	switch {
	case k.inner > 1:
		runSmall(c, k.outer*k.strips, k.size*min(k.inner, softmaxStrip), k.threads, k)
	case k.log:
		vec.LogSoftmax(c.Done(), f32(c.Out[0]), f32(c.In[0]), k.outer, k.size, c.Threads)
	default:
		vec.Softmax(c.Done(), f32(c.Out[0]), f32(c.In[0]), k.outer, k.size, c.Threads)
	}
	return nil
}

// Choice says how it is computed.
func (k *softmax) Choice() backend.Choice {
	if k.inner > 1 {
		return backend.Choice{Algorithm: "strips of columns", Reason: "the axis is not the last one"}
	}
	return backend.Choice{Algorithm: "row by row", Reason: "the axis is the last one"}
}

func (k *softmax) tile(c *ops.Call, i, worker int) {
	first := i % k.strips * softmaxStrip
	n := min(softmaxStrip, k.inner-first)
	base := i/k.strips*k.size*k.inner + first
	dst, src := f32(c.Out[0]), f32(c.In[0])
	ws := scratchOf[float32](c, k.ws+worker*3*softmaxStrip*4, 3*softmaxStrip)
	top, sum, tmp := ws[:n], ws[softmaxStrip:][:n], ws[2*softmaxStrip:][:n]
	row := func(x []float32, r int) []float32 { return x[base+r*k.inner:][:n] }
	copy(top, row(src, 0))
	for r := 1; r < k.size; r++ {
		vec.Binary(simd.Max, top, top, row(src, r))
	}
	clear(sum)
	for r := range k.size {
		e := tmp
		if !k.log {
			e = row(dst, r)
		}
		vec.Binary(simd.Sub, e, row(src, r), top)
		vec.Unary(simd.Exp, e, e, 0, 0)
		vec.Binary(simd.Add, sum, sum, e)
	}
	if k.log {
		vec.Unary(simd.Log, sum, sum, 0, 0)
		vec.Binary(simd.Add, top, top, sum)
	}
	for r := range k.size {
		if k.log {
			vec.Binary(simd.Sub, row(dst, r), row(src, r), top)
		} else {
			vec.Binary(simd.Div, row(dst, r), row(dst, r), sum)
		}
	}
}
