package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// CenterCropPad crops or zero-pads around the center:
// https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
//
// An odd difference leaves the extra element on the right.
var CenterCropPad = ops.Op{
	Name: "CenterCropPad", Since: 18, Doc: "output_data = center of input_data at the sizes shape",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("axes")},
	Infer: kit.Rule(inferCenterCropPad), Eval: kit.Kernel(evalCenterCropPad),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MoveCost},
}

func inferCenterCropPad(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(t)
	}
	axes := kit.ListedAxes(n, len(t.Shape))
	want := ops.ContentOf(n, 1)
	if want == nil {
		want = kit.UnknownDims(len(axes))
	}
	if len(want) != len(axes) {
		kit.Failf("%d sizes for %d axes", len(want), len(axes))
	}
	kit.CheckDims(want)
	dims := append([]ssa.Dim(nil), t.Shape...)
	for i, a := range axes {
		dims[a] = want[i]
	}
	return ops.One(ssa.TensorOf(t.DType, dims...))
}

func evalCenterCropPad(c *ops.Call) {
	a := kit.Tensor(c, 0)
	axes := kit.ListedAxes(c.Node, a.Rank())
	dims := kit.Ints(c, 1)
	if len(dims) != len(axes) {
		kit.Failf("%d sizes for %d axes", len(dims), len(axes))
	}
	want := kit.ShapeOfInts(dims)
	shape := append([]int(nil), a.Shape...)
	for i, k := range axes {
		shape[k] = want[i]
	}
	out := kit.Result(c, 0, a.DType, shape...)
	kit.ClearSlice(c, out.Data)
	kit.ClearSlice(c, out.Str)
	b := kit.Block{Shape: make([]int, len(shape)), Dstr: ops.Strides(shape), Sstr: ops.Strides(a.Shape)}
	for i, d := range a.Shape {
		b.Shape[i] = min(d, shape[i])
		b.Src += max(0, d-shape[i]) / 2 * b.Sstr[i]
		b.Dst += max(0, shape[i]-d) / 2 * b.Dstr[i]
	}
	kit.MoveBlock(c, out, a, b)
}
