package ops

import "github.com/berth-onnx/berth/ssa"

// CenterCropPad crops or zero-pads around the center:
// https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
//
// An odd difference leaves the extra element on the right.
var CenterCropPad = Op{
	Name: "CenterCropPad", Since: 18, Doc: "output_data = center of input_data at the sizes shape",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("axes")},
	Infer: rule(inferCenterCropPad), Eval: kernel(evalCenterCropPad),
	Facts: Facts{Traits: general, Cost: moveCost},
}

func inferCenterCropPad(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(t)
	}
	axes := resizeAxes(n, len(t.Shape))
	want := ContentOf(n, 1)
	if want == nil {
		want = unknownDims(len(axes))
	}
	if len(want) != len(axes) {
		failf("%d sizes for %d axes", len(want), len(axes))
	}
	checkDims(want)
	dims := append([]ssa.Dim(nil), t.Shape...)
	for i, a := range axes {
		dims[a] = want[i]
	}
	return One(ssa.TensorOf(t.DType, dims...))
}

func evalCenterCropPad(c *Call) {
	a := tensor(c, 0)
	axes := resizeAxes(c.Node, a.Rank())
	dims := ints(c, 1)
	if len(dims) != len(axes) {
		failf("%d sizes for %d axes", len(dims), len(axes))
	}
	want := shapeOfInts(dims)
	shape := append([]int(nil), a.Shape...)
	for i, k := range axes {
		shape[k] = want[i]
	}
	out := result(c, 0, a.DType, shape...)
	clear(out.Data)
	clear(out.Str)
	b := block{shape: make([]int, len(shape)), dstr: Strides(shape), sstr: Strides(a.Shape)}
	for i, d := range a.Shape {
		b.shape[i] = min(d, shape[i])
		b.src += max(0, d-shape[i]) / 2 * b.sstr[i]
		b.dst += max(0, shape[i]-d) / 2 * b.dstr[i]
	}
	moveBlock(out, a, b)
}
