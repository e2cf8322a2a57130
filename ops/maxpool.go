package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// MaxPool is the maximum over sliding windows: https://onnx.ai/onnx/operators/onnx__MaxPool.html
//
//	Y[n,c,o] = max over k of X[n,c, o*stride + k*dilation - pad]
//
// Padding never wins. Result 1 is the position of the (first) maximum in X as a
// flat index; with storage_order=1 the spatial part of it counts column-major.
// NaN in a window wins.
var MaxPool = Op{
	Name: "MaxPool", Since: 22, Form: maxPoolForm, Doc: "Y = max over sliding windows",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
	Attrs: append([]AttrSpec{intAttr("ceil_mode", 0).since(10), intsAttr("dilations").atLeast(1).since(10), intsAttr("kernel_shape").atLeast(1).required(),
		intAttr("storage_order", 0).since(8)}, poolAttrs...),
	Infer: rule(func(n *ssa.Node) []Inferred {
		out := inferPool(n)
		t := out[0].Type
		t.DType = ndarray.Int64
		return append(out, Inferred{Type: t})
	}),
	Eval:  kernel(evalMaxPool),
	Facts: Facts{Traits: passing, Smaller: pooledPlanes, Cost: poolCost},
}

func maxPoolForm(n *ssa.Node) int {
	switch {
	case usesType(n, ndarray.BFloat16):
		return 22
	case usesType(n, ndarray.Int8, ndarray.Uint8):
		return 12
	case n.Output(1) != nil:
		return 8
	}
	return 1
}

func evalMaxPool(c *Call) {
	w, shape := poolWindow(c)
	x := c.Array(0)
	var arg []int64
	if c.Wants(1) {
		a := result(c, 1, ndarray.Int64, shape...)
		arg = ndarray.Slice[int64](a)
	}
	switch {
	case byteInts.has(x.DType):
		lo, _ := integerRange(x.DType)
		storeMaxPool(c, &w, shape, lo, arg)
	case x.DType == ndarray.Float64:
		storeMaxPool(c, &w, shape, math.Inf(-1), arg)
	case x.DType.IsFloat():
		storeMaxPool(c, &w, shape, float32(math.Inf(-1)), arg)
	default:
		check(unsupportedType(x.DType))
	}
	flatIndices(c.Node, &w, arg)
}

func storeMaxPool[T poolNum](c *Call, w *window, shape []int, least T, arg []int64) {
	x := c.Array(0)
	y := newResult[T](c, 0, x.DType, shape...)
	maxPool(w, shape[0]*shape[1], elements[T](x), least, y.V, arg)
	y.store()
}

// flatIndices turns row-major indices into the ones storage_order asks for.
func flatIndices(n *ssa.Node, w *window, arg []int64) {
	switch order := Int(n, "storage_order"); order {
	case 0:
		return
	case 1:
	default:
		failf("storage_order=%d is neither 0 nor 1", order)
	}
	plane := int64(sizeOf(w.in))
	for i, flat := range arg {
		if flat < 0 {
			continue
		}
		rest, step := flat%plane, plane
		col := int64(0)
		for d := len(w.in) - 1; d >= 0; d-- { // the last dimension moves slowest
			size := int64(w.in[d])
			step /= size
			col += rest % size * step
			rest /= size
		}
		arg[i] = flat - flat%plane + col
	}
}
