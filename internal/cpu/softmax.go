package cpu

import (
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
)

var softmaxOps = []entry{
	{op: "Softmax", prepare: prepareSoftmax(false)},
	{op: "LogSoftmax", prepare: prepareSoftmax(true)},
}

// softmax along an axis: by rows along the last one, along another by strips of columns.
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
	from := i/k.strips*k.size*k.inner + first
	to := from + (k.size-1)*k.inner + n
	ws := scratchOf[float32](c, k.ws+worker*3*softmaxStrip*4, 3*softmaxStrip)
	vec.SoftmaxColumns(f32(c.Out[0])[from:to], f32(c.In[0])[from:to], k.inner, n, k.log, ws)
}
