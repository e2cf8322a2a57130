package nn

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// PoolCost counts one operation per tap and output.
func PoolCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	kernel, err := KernelAttr(n)
	if err != nil || n.Output(0) == nil {
		return c
	}
	if outs, ok := n.Out[0].Type.NumElems().Const(); ok {
		c.FLOPs = outs * int64(kit.SizeOf(kernel))
	}
	return c
}

// pooledPlanes pairs the result of a pooling with its operand if planes halve at
// least and, within a plane, windows move on by more than they reach back. Then
// row r of a result plane ends before the first row that later windows read, and
// result planes n … 2n-1 end before plane n of the operand.
func pooledPlanes(n *ssa.Node) []ops.Pair {
	x := n.Input(0)
	if !ops.Halves(x, n.Output(0)) || n.Output(1) != nil || x.Type.Rank() < 3 {
		return nil
	}
	kernel, err := KernelAttr(n)
	if err != nil || len(kernel) != x.Type.Rank()-2 {
		return nil
	}
	w, err := WindowOf(n, kernel)
	shape, ok := x.Type.Static()
	if err != nil || !ok || w.Bind(shape[2:]) != nil {
		return nil
	}
	for i := range kernel {
		if w.strides[i] <= w.begin[i] || w.Out[i] > w.In[i] {
			return nil
		}
	}
	return []ops.Pair{{In: 0, Out: 0}}
}

// disputedPool reports that ceil_mode adds a window that would start behind the input,
// which is left out: onnx infers a length with it.
//
//	[x0 x1 x2 x3 x4] .        kernel 2, stride 2, a pad at both ends: 3 windows run, onnx infers 4
func disputedPool(n *ssa.Node) bool {
	kernel, err := KernelAttr(n)
	x := n.Input(0)
	if err != nil || x == nil || x.Type.Rank() != len(kernel)+2 {
		return false
	}
	w, err := WindowOf(n, kernel)
	if err != nil || !w.ceil || w.auto == "VALID" || w.isSame() {
		return false
	}
	for i, in := range x.Type.Shape[2:] {
		all := in.AddN(int64(w.begin[i] + w.end[i] - w.extent(i))).CeilDiv(ssa.D(int64(w.strides[i]))).AddN(1)
		ours, known := w.outDim(i, in).Const()
		if known && !all.Is(ours) {
			return true
		}
	}
	return false
}

// globalPlanes pairs the result of a global pooling, one element per plane, with
// its operand.
func globalPlanes(n *ssa.Node) []ops.Pair {
	if !ops.Halves(n.Input(0), n.Output(0)) {
		return nil
	}
	return []ops.Pair{{In: 0, Out: 0}}
}

// PoolAttrs are the attributes all pooling operators have.
var PoolAttrs = []*ops.AttrSpec{AutoPad, ops.IntsAttr("pads"), ops.IntsAttr("strides").AtLeast(1)}

// InferPool is the type rule of pooling: batch and channels stay, the spatial
// dimensions become windows.
func InferPool(n *ssa.Node) []ops.Inferred { return InferPoolAt(n, 2) }

// InferPoolAt is the type rule of pooling where the spatial dimensions begin at axis
// first, and all others stay.
func InferPoolAt(n *ssa.Node, first int) []ops.Inferred {
	x := ops.InType(n, 0)
	kernel := kit.Try(KernelAttr(n))
	if x.Ranked && x.Rank() != len(kernel)+2 {
		kit.Failf("kernel_shape %v does not fit an operand %s", kernel, x)
	}
	win := kit.Try(WindowOf(n, kernel))
	out := make([]ssa.Dim, len(kernel)+2)
	if x.Ranked {
		copy(out, x.Shape)
		win.outDims(out[first:], x.Shape[first:first+len(kernel)])
	}
	return ops.One(ssa.TensorOf(x.DType, out...))
}

// PoolWindow is a pooling node's window over spatial dimensions of known sizes.
func PoolWindow(n *ssa.Node, spatial []int) Window {
	w := kit.Try(WindowOf(n, kit.Try(KernelAttr(n))))
	kit.Check(w.Bind(spatial))
	return w
}

// poolWindow is the window over operand 0, and the result's shape.
func poolWindow(c *ops.Call) (Window, []int) {
	x := c.Array(0)
	if x == nil || x.Rank() < 3 {
		kit.Failf("operand 0 is no tensor with batch, channel and spatial dimensions")
	}
	w := PoolWindow(c.Node, x.Shape[2:])
	return w, append([]int{x.Shape[0], x.Shape[1]}, w.Out...)
}

// PoolSum adds f(x) over every window of every plane to y, which is cleared.
func PoolSum[T kit.RealNum](c *ops.Call, w *Window, planes int, x, y []T, f func(T) T) {
	kit.ClearSlice(c, y)
	watch := kit.Watching(c)
	in, out := kit.SizeOf(w.In), kit.SizeOf(w.Out)
	stride := w.lastStride()
	w.eachRun(c, func(_, o, at, n int) {
		for p := range planes {
			watch.Did(n)
			dst, src := y[p*out+o:][:n], x[p*in+at:]
			for j := range dst {
				dst[j] += f(src[j*stride])
			}
		}
	})
}

// coverage returns, for one dimension, how many taps of each output lie inside
// the input, or inside the padded input if padded is set. A window that ceil_mode
// adds may reach beyond even the padding.
func (w *Window) coverage(c *ops.Call, i int, padded bool) []int {
	lo, hi := 0, w.In[i]
	if padded {
		lo, hi = -w.begin[i], w.In[i]+w.end[i]
	}
	counts, watch := kit.Make[int](c, w.Out[i]), kit.Watching(c)
	for o := range counts {
		for k := range w.kernel[i] {
			watch.Did(1)
			if pos := o*w.strides[i] + k*w.dilations[i] - w.begin[i]; pos >= lo && pos < hi {
				counts[o]++
			}
		}
	}
	return counts
}

// EachCoverage calls f with every output position and its number of covered taps.
func (w *Window) EachCoverage(c *ops.Call, padded bool, f func(o, count int)) {
	counts := make([][]int, len(w.kernel))
	for i := range counts {
		counts[i] = w.coverage(c, i, padded)
	}
	o := 0
	kit.EachIndex(c, w.Out, func(idx []int) {
		n := 1
		for i, at := range idx {
			n *= counts[i][at]
		}
		f(o, n)
		o++
	})
}

// InferGlobalPool is the type rule of global pooling: spatial dimensions become 1.
func InferGlobalPool(n *ssa.Node) []ops.Inferred {
	x := ops.InType(n, 0)
	if !x.Ranked {
		return ops.One(ssa.UnrankedTensor(x.DType))
	}
	if x.Rank() < 2 {
		kit.Failf("operand %s has no batch and channel dimension", x)
	}
	out := slices.Repeat([]ssa.Dim{ssa.D(1)}, x.Rank())
	copy(out, x.Shape[:2])
	return ops.One(ssa.TensorOf(x.DType, out...))
}

// globalPool computes f over every plane of operand 0.
func globalPool[T kit.RealNum](c *ops.Call, f func(w *kit.Watch, plane []T) T) {
	x := c.Array(0)
	if x.Rank() < 2 {
		kit.Failf("operand 0 has shape %v, without batch and channel dimensions", x.Shape)
	}
	shape := slices.Repeat([]int{1}, x.Rank())
	copy(shape, x.Shape[:2])
	y := kit.NewResult[T](c, 0, x.DType, shape...)
	v, plane := kit.Elements[T](c, x), kit.SizeOf(x.Shape[2:])
	w := kit.Watching(c)
	for i := range y.V {
		w.Did(1)
		y.V[i] = f(&w, v[i*plane:(i+1)*plane])
	}
	y.Store()
}

// bf16Since22 is the Form of operators that took bfloat16 in operator set 22.
func bf16Since22(base int) func(*ssa.Node) int { return kit.SinceTypes(base, 22, ndarray.BFloat16) }

// poolNum is what maxima are taken of.
type poolNum interface{ float32 | float64 | int64 }

// PoolMax computes maxima and their flat row-major indices; arg may be nil. A window
// wholly in the padding gives least and index -1.
func PoolMax[T poolNum](c *ops.Call, w *Window, planes int, x []T, least T, y []T, arg []int64) {
	if arg == nil {
		arg = kit.Make[int64](c, len(y))
	}
	watch := kit.Watching(c)
	for i := range y {
		watch.Did(1)
		y[i], arg[i] = least, -1
	}
	in, out, stride := kit.SizeOf(w.In), kit.SizeOf(w.Out), w.lastStride()
	w.eachRun(c, func(_, o, at, n int) {
		for p := range planes {
			watch.Did(n)
			for j := range n {
				from, to := p*in+at+j*stride, p*out+o+j
				if v := x[from]; v > y[to] || arg[to] < 0 || v != v && y[to] == y[to] {
					y[to], arg[to] = v, int64(from)
				}
			}
		}
	})
}
