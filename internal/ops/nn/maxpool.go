package nn

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MaxPool is the maximum over sliding windows: https://onnx.ai/onnx/operators/onnx__MaxPool.html
//
//	Y[n,c,o] = max over k of X[n,c, o*stride + k*dilation - pad]
//
// Padding never wins. Result 1 is the position of the (first) maximum in X as a
// flat index; with storage_order=1 the spatial part of it counts column-major.
// NaN in a window wins.
var MaxPool = ops.Op{
	Name: "MaxPool", Since: 22, Form: maxPoolForm, Doc: "Y = max over sliding windows",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("ceil_mode", 0).From(10), ops.IntsAttr("dilations").AtLeast(1).From(10), ops.IntsAttr("kernel_shape").AtLeast(1).Mandatory(),
		ops.IntAttr("storage_order", 0).Between(0, 1).From(8)}, PoolAttrs...),
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		out := InferPool(n)
		return append(out, ops.Inferred{Type: kit.Retyped(out[0].Type, ndarray.Int64)})
	}),
	Eval:  kit.Kernel(evalMaxPool),
	Facts: ops.Facts{Traits: ops.PassingTraits, Smaller: pooledPlanes, Cost: PoolCost, Disputed: disputedPool},
}

func maxPoolForm(n *ssa.Node) int {
	switch {
	case kit.UsesType(n, ndarray.BFloat16):
		return 22
	case kit.UsesType(n, ndarray.Int8, ndarray.Uint8):
		return 12
	case n.Output(1) != nil:
		return 8
	}
	return 1
}

func evalMaxPool(c *ops.Call) {
	w, shape := poolWindow(c)
	x := c.Array(0)
	var arg []int64
	if c.Wants(1) {
		a := kit.Result(c, 1, ndarray.Int64, shape...)
		arg = ndarray.Slice[int64](a)
	}
	switch {
	case kit.ByteInts.Has(x.DType):
		lo, _ := kit.IntegerRange(x.DType)
		storeMaxPool(c, &w, shape, lo, arg)
	case x.DType == ndarray.Float64:
		storeMaxPool(c, &w, shape, math.Inf(-1), arg)
	case x.DType.IsFloat():
		storeMaxPool(c, &w, shape, float32(math.Inf(-1)), arg)
	default:
		kit.Check(kit.UnsupportedType(x.DType))
	}
	flatIndices(c.Node, &w, arg)
}

func storeMaxPool[T poolNum](c *ops.Call, w *Window, shape []int, least T, arg []int64) {
	x := c.Array(0)
	y := kit.NewResult[T](c, 0, x.DType, shape...)
	PoolMax(c, w, shape[0]*shape[1], kit.Elements[T](c, x), least, y.V, arg)
	y.Store()
}

// flatIndices turns row-major indices into the ones storage_order asks for.
func flatIndices(n *ssa.Node, w *Window, arg []int64) {
	if ops.Int(n, "storage_order") == 0 {
		return
	}
	plane := int64(kit.SizeOf(w.In))
	for i, flat := range arg {
		if flat < 0 {
			continue
		}
		rest, step := flat%plane, plane
		col := int64(0)
		for d := len(w.In) - 1; d >= 0; d-- { // the last dimension moves slowest
			size := int64(w.In[d])
			step /= size
			col += rest % size * step
			rest /= size
		}
		arg[i] = flat - flat%plane + col
	}
}
