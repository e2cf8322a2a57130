package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// CenterCropPad crops or zero-pads around the center:
// https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
//
// An odd difference leaves the extra element on the right.
var CenterCropPad = Op{
	Name: "CenterCropPad", Since: 18, Doc: "output_data = center of input_data at the sizes shape",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "axes", Kind: ssa.AttrInts}},
	Infer: inferCenterCropPad, Eval: evalCenterCropPad,
	Facts: Facts{Cost: moveCost},
}

func inferCenterCropPad(n *ssa.Node) ([]Inferred, error) {
	t := InType(n, 0)
	if !t.Ranked {
		return One(t), nil
	}
	axes, err := resizeAxes(n, len(t.Shape))
	if err != nil {
		return nil, err
	}
	want := ContentOf(n, 1)
	if want == nil {
		want = unknownDims(len(axes))
	}
	if len(want) != len(axes) {
		return nil, fmt.Errorf("%d sizes for %d axes", len(want), len(axes))
	}
	if err := checkDims(want); err != nil {
		return nil, err
	}
	dims := append([]ssa.Dim(nil), t.Shape...)
	for i, a := range axes {
		dims[a] = want[i]
	}
	return One(ssa.TensorOf(t.DType, dims...)), nil
}

func evalCenterCropPad(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	axes, err := resizeAxes(c.Node, a.Rank())
	if err != nil {
		return err
	}
	dims, err := needInts(c, 1)
	if err != nil {
		return err
	}
	if len(dims) != len(axes) {
		return fmt.Errorf("%d sizes for %d axes", len(dims), len(axes))
	}
	want, err := shapeOfInts(dims)
	if err != nil {
		return err
	}
	shape := append([]int(nil), a.Shape...)
	for i, k := range axes {
		shape[k] = want[i]
	}
	out, err := c.Output(0, a.DType, shape...)
	if err != nil {
		return err
	}
	clear(out.Data)
	clear(out.Str)
	b := block{shape: make([]int, len(shape)), dstr: Strides(shape), sstr: Strides(a.Shape)}
	for i, d := range a.Shape {
		b.shape[i] = min(d, shape[i])
		b.src += max(0, d-shape[i]) / 2 * b.sstr[i]
		b.dst += max(0, shape[i]-d) / 2 * b.dstr[i]
	}
	moveBlock(out, a, b)
	return nil
}
