package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// GatherElements picks one element per index: https://onnx.ai/onnx/operators/onnx__GatherElements.html
//
//	output[i, j, k] = data[i, indices[i, j, k], k]     axis = 1
var GatherElements = Op{
	Name: "GatherElements", Since: 13, Form: typeForm(11, 13), Doc: "output[…i…] = data[…indices[…i…]…] along axis",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "axis", Kind: ssa.AttrInt}},
	Infer: func(n *ssa.Node) ([]Inferred, error) {
		t := InType(n, 1)
		return One(ssa.Type{Kind: ssa.KindTensor, DType: InType(n, 0).DType, Ranked: t.Ranked, Shape: t.Shape}), nil
	},
	Eval:  evalGatherElements,
	Facts: Facts{Cost: moveCost},
}

// alongAxis prepares walking positions of a box in data with one axis replaced:
// the strides (0 at axis) and the stride of the axis. The box must fit data in
// the other dimensions.
func alongAxis(data, box []int, axis int) (strides []int, step int, err error) {
	if len(box) != len(data) {
		return nil, 0, fmt.Errorf("shapes %v and %v have different ranks", data, box)
	}
	for i, d := range box {
		if i != axis && d > data[i] {
			return nil, 0, fmt.Errorf("shape %v reaches out of %v in dimension %d", box, data, i)
		}
	}
	strides = Strides(data)
	step, strides[axis] = strides[axis], 0
	return strides, step, nil
}

func evalGatherElements(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	ix, err := needTensor(c, 1)
	if err != nil {
		return err
	}
	axis, err := NormAxis(c.Node.Int("axis", 0), a.Rank())
	if err != nil {
		return err
	}
	strides, step, err := alongAxis(a.Shape, ix.Shape, axis)
	if err != nil {
		return err
	}
	picks, err := wrapIndices(ix, a.Shape[axis])
	if err != nil {
		return err
	}
	out, err := c.Output(0, a.DType, ix.Shape...)
	if err != nil {
		return err
	}
	from := picks
	_ = eachOffset(ix.Shape, strides, func(i, at int) error {
		from[i] = at + picks[i]*step
		return nil
	})
	pickElems(out, a, from)
	return nil
}

// pickElems sets dst[i] = src[from[i]].
func pickElems(dst, src *ndarray.Array, from []int) {
	moveMapped(dst.Reshaped(len(from)), src.Reshaped(src.Len()), [][]int{from})
}
