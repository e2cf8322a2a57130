package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Compress keeps the slices a condition selects: https://onnx.ai/onnx/operators/onnx__Compress.html
//
// Without axis the operand is flattened first. Slices past the end of the
// condition are dropped.
var Compress = ops.Op{
	Name: "Compress", Since: 28, Form: compressForm, Doc: "output = slices of input along axis where condition is true",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis")},
	Facts: ops.Facts{Traits: ops.PassingTraits.But(ops.ExtentBounded)}, Infer: kit.Rule(inferCompress), Eval: kit.Kernel(evalCompress),

	Downgrades: []ops.Downgrade{kit.PositiveAxes(0, kit.TypeForm(9, 28))},
}

func compressForm(n *ssa.Node) int {
	if ops.Int(n, "axis") < 0 {
		return kit.TypeForm(11, 28)(n)
	}
	return kit.TypeForm(9, 28)(n)
}

func inferCompress(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !n.Has("axis") {
		return ops.One(ssa.TensorOf(t.DType, ssa.Dim{}))
	}
	if !t.Ranked {
		return ops.One(t)
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
	return ops.One(ssa.TensorOf(t.DType, kit.WithDim(t.Shape, axis, ssa.Dim{})...))
}

// axisOrFlat returns the tensor and the axis that the attribute names; without the
// attribute, the tensor as one row and axis 0.
func axisOrFlat(n *ssa.Node, a *ndarray.Array) (*ndarray.Array, int) {
	if !n.Has("axis") {
		return a.Reshaped(a.Len()), 0
	}
	return a, kit.Try(ops.NormAxis(ops.Int(n, "axis"), a.Rank()))
}

func evalCompress(c *ops.Call) {
	a, axis := axisOrFlat(c.Node, kit.Tensor(c, 0))
	cond := kit.Tensor(c, 1)
	if cond.DType != ndarray.Bool || cond.Rank() != 1 {
		kit.Failf("the condition is %s, it must be one row of booleans", cond)
	}
	var keep []int
	w := kit.Watching(c)
	for i := range min(cond.Len(), a.Shape[axis]) {
		w.Did(1)
		if cond.Data[i] != 0 {
			keep = kit.Append(c, keep, i)
		}
	}
	out := kit.Result(c, 0, a.DType, kit.WithDim(a.Shape, axis, len(keep))...)
	kit.TakeAlong(c, out, a, axis, keep)
}
