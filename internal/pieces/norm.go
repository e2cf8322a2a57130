package pieces

import (
	"math"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// norm is a batch normalization in training form, of half types: a channel at a time, and of it an image's plane. Statistics are sums of float32 over some thousand elements, added up in float64.
type norm struct {
	images, channels, plane int
	epsilon, momentum       float64
	x                       ndarray.DType
	calls                   machine.FreeList[normCall]
}

// prepareNorm prepares such a node; nil for others.
func prepareNorm(n *ssa.Node) *norm {
	if n.Op != "BatchNormalization" || n.Domain != "" || ops.Int(n, "training_mode") == 0 {
		return nil
	}
	shape, ok := n.In[0].Type.Static()
	k := &norm{epsilon: float64(ops.Float(n, "epsilon")), momentum: float64(ops.Float(n, "momentum")), x: n.In[0].Type.DType}
	if !ok || len(shape) < 2 || n.In[0].Type.IsBlocked() || !k.x.IsHalf() || ndarray.Product(shape) == 0 {
		return nil
	}
	k.images, k.channels, k.plane = shape[0], shape[1], ndarray.Product(shape[2:])
	for _, v := range n.In {
		if v.Type.DType != k.x || v.Const != nil {
			return nil
		}
	}
	return k
}

// scratch is the workspace: a plane for each thread that has a channel.
func (k *norm) scratch(threads int) int64 {
	return int64(max(min(threads, k.channels), 1)) * align(4*int64(k.plane))
}

// Choice says how it is computed.
func (k *norm) Choice() backend.Choice {
	return backend.Choice{Algorithm: "channel by channel, in float32", Reason: "the workspace is a plane of each thread"}
}

// normCall is a run.
type normCall struct {
	*norm
	call *ops.Call
}

// Run computes all channels.
func (k *norm) Run(c *ops.Call) error {
	r := k.calls.Get()
	r.norm, r.call = k, c
	machine.Parallel(k.channels, c.Threads, r)
	k.calls.Release(r)
	return nil
}

// Run computes a channel.
func (r *normCall) Run(channel, worker int) {
	k, c := r.norm, r.call
	wide := floats(c.Scratch[int64(worker)*align(4*int64(k.plane)):], k.plane)
	x, y := ndarray.Slice[uint16](c.Array(0)), ndarray.Slice[uint16](c.Out[0].(*ndarray.Array))
	widen, narrow := widen(k.x), narrow(k.x)
	each := func(f func(at int)) {
		for i := range k.images {
			at := (i*k.channels + channel) * k.plane
			widen(wide, x[at:][:k.plane])
			f(at)
		}
	}
	count := float64(k.images * k.plane)
	mean, variance := 0.0, 0.0
	each(func(int) { mean += sumOf(wide, vec.Sum) })
	mean /= count
	center := float32(mean)
	each(func(int) {
		vec.ScaleShift(wide, wide, 1, -center)
		variance += sumOf(wide, func(x []float32) float32 { return vec.Dot(x, x) })
	})
	variance /= count
	factor, bias := float32(c.Array(1).Float(channel)/math.Sqrt(variance+k.epsilon)), float32(c.Array(2).Float(channel))
	for i, now := range []float64{mean, variance} {
		if c.Wants(1 + i) {
			c.Out[1+i].(*ndarray.Array).SetFloat(channel, c.Array(3+i).Float(channel)*k.momentum+now*(1-k.momentum))
		}
	}
	each(func(at int) {
		vec.ScaleShift(wide, wide, 1, -center)
		vec.ScaleShift(wide, wide, factor, bias)
		narrow(y[at:][:k.plane], wide)
	})
}

// sumOf adds up in float64 what is given in float32 for some thousand elements at a time.
func sumOf(x []float32, of func(x []float32) float32) (sum float64) {
	for len(x) > 0 {
		n := min(len(x), 4096)
		sum += float64(of(x[:n]))
		x = x[n:]
	}
	return sum
}
