package cpu

import (
	"math"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/ops"
)

// Kernels of package backward, which only programs that train link.

// LinkTraining adds the kernels of the backward pass of training steps to the table, for float32 and half types ([ndarray.DType.InFloat32]), and lets
// convolutions take weights that change by the algorithms of constant ones. It is called
// while a program starts.
func LinkTraining() {
	convolve.LinkGivenWeights()
	for op, prepare := range map[string]func(p *prep) (ops.Kernel, error){"ConvWeights": prepareConvWeights, "MaxPoolGradient": prepareMaxPoolGradient, "Accumulate": prepareGemm} {
		key := ops.Key{Domain: ops.Private, Name: op}
		table[key], widens[key] = entry{domain: ops.Private, op: op, prepare: prepare}, true
	}
}

// convWeights is the kernel of ConvWeights.
type convWeights struct {
	*convolve.Weights
	ws int
}

func prepareConvWeights(p *prep) (ops.Kernel, error) {
	x, d, y := p.in[0], p.in[1], p.out[0]
	if !p.allF32() || len(y.shape) < 3 || len(y.shape) > 4 || len(x.shape) != len(y.shape) || len(d.shape) != len(y.shape) {
		return nil, nil
	}
	w, ok := p.windowOf(y.shape[2:], x.shape[2:], d.shape[2:])
	group := int(ops.Int(p.node, "group"))
	if !ok || group < 1 || d.shape[1]%group != 0 {
		return nil, nil
	}
	k, err := convolve.NewWeights(convolve.WeightsSpec{Images: x.shape[0], Groups: group, Channels: y.shape[1], Filters: d.shape[1] / group,
		In: pair(w.in), Out: pair(w.out), Kernel: pair(w.kernel), Stride: pair(w.stride), Dilation: pair(w.dilation), Begin: pair(w.begin)}, p.threads)
	if err != nil {
		return nil, err
	}
	return allTiles(k.Tasks(), &convWeights{k, p.workspace(k.TaskBytes() * min(p.threads, k.Tasks()))}), nil
}

// pair is the last two of three dimensions.
func pair(v [3]int) [2]int { return [2]int{v[1], v[2]} }

// Choice says how it is computed.
func (k *convWeights) Choice() backend.Choice {
	if k.ByPixels() {
		return backend.Choice{Algorithm: "products of pixels", Reason: "few channels and filters: a tap is a product of the same pixels from another one on"}
	}
	return backend.Choice{Algorithm: "products over blocks of pixels", Reason: "patches of a block stay in the second cache"}
}

func (k *convWeights) tile(c *ops.Call, i, worker int) {
	bytes := k.TaskBytes()
	if err := k.Task(c.Done(), i, f32(c.In[0]), f32(c.In[1]), f32(c.Out[0]), c.Scratch[k.ws+worker*bytes:][:bytes]); err != nil {
		panic(err) // the operands are those that it was prepared for
	}
}

// poolGradient is the kernel of MaxPoolGradient.
type poolGradient struct {
	*convolve.PoolGradient
	in, out int
}

func prepareMaxPoolGradient(p *prep) (ops.Kernel, error) {
	x, d := p.in[0], p.in[1]
	if !p.allF32() || len(x.shape) < 3 || len(x.shape) > 4 || len(d.shape) != len(x.shape) {
		return nil, nil
	}
	kernel := make([]int, len(x.shape)-2)
	if !p.list("kernel_shape", kernel, 0) {
		return nil, nil
	}
	w, ok := p.windowOf(kernel, x.shape[2:], d.shape[2:])
	if !ok {
		return nil, nil
	}
	s := convolve.PoolSpec{In: pair(w.in), Kernel: pair(w.kernel), Stride: pair(w.stride), Dilation: pair(w.dilation), PadBegin: pair(w.begin), PadEnd: pair(w.end)}
	k := &poolGradient{convolve.NewPoolGradient(s, pair(w.out)), sizeOf(w.in[:]), sizeOf(w.out[:])}
	return smallTiles(x.shape[0]*x.shape[1], k.out*sizeOf(w.kernel[:]), math.MaxInt, k), nil
}

// Choice says how it is computed.
func (*poolGradient) Choice() backend.Choice {
	return backend.Choice{Algorithm: "window by window", Reason: "maxima are found again: their positions would take more than what they are found in"}
}

func (k *poolGradient) tile(c *ops.Call, i, _ int) {
	k.Plane(f32(c.In[0])[i*k.in:][:k.in], f32(c.In[1])[i*k.out:][:k.out], f32(c.Out[0])[i*k.in:][:k.in])
}
