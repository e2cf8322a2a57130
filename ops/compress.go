package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Compress keeps the slices a condition selects: https://onnx.ai/onnx/operators/onnx__Compress.html
//
// Without axis the operand is flattened first. Slices past the end of the
// condition are dropped.
var Compress = Op{
	Name: "Compress", Since: 28, Form: compressForm, Doc: "output = slices of input along axis where condition is true",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis")},
	Facts: Facts{Traits: passing.but(ExtentBounded)}, Infer: rule(inferCompress), Eval: kernel(evalCompress),
}

func compressForm(n *ssa.Node) int {
	if Int(n, "axis") < 0 {
		return typeForm(11, 28)(n)
	}
	return typeForm(9, 28)(n)
}

func inferCompress(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !n.Has("axis") {
		return One(ssa.TensorOf(t.DType, ssa.Dim{}))
	}
	if !t.Ranked {
		return One(t)
	}
	axis := try(NormAxis(Int(n, "axis"), len(t.Shape)))
	dims := append([]ssa.Dim(nil), t.Shape...)
	dims[axis] = ssa.Dim{}
	return One(ssa.TensorOf(t.DType, dims...))
}

// axisOrFlat returns the tensor and the axis that the attribute names; without the
// attribute, the tensor as one row and axis 0.
func axisOrFlat(n *ssa.Node, a *ndarray.Array) (*ndarray.Array, int) {
	if !n.Has("axis") {
		return a.Reshaped(a.Len()), 0
	}
	axis := try(NormAxis(Int(n, "axis"), a.Rank()))
	return a, axis
}

func evalCompress(c *Call) {
	a := tensor(c, 0)
	cond := tensor(c, 1)
	a, axis := axisOrFlat(c.Node, a)
	if cond.DType != ndarray.Bool || cond.Rank() != 1 {
		failf("the condition is %s, it must be one row of booleans", cond)
	}
	var keep []int
	for i := range min(cond.Len(), a.Shape[axis]) {
		if cond.Data[i] != 0 {
			keep = append(keep, i)
		}
	}
	shape := append([]int(nil), a.Shape...)
	shape[axis] = len(keep)
	out := result(c, 0, a.DType, shape...)
	takeAlong(out, a, axis, keep)
}
