package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// Squeeze drops dimensions of length 1, all of them without axes:
// https://onnx.ai/onnx/operators/onnx__Squeeze.html
var Squeeze = Op{
	Name: "Squeeze", Since: 25, Form: squeezeForm, Doc: "squeezed = data without the 1-dimensions at axes",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: inferSqueeze, Eval: evalSqueeze,
	Facts: Facts{Alias: wholeView, Cost: freeCost},
	Upgrades: []Upgrade{{Below: 13, Source: "https://onnx.ai/onnx/operators/onnx__Squeeze.html#squeeze-13",
		Apply: axesToInput}},
}

// Unsqueeze inserts dimensions of length 1: https://onnx.ai/onnx/operators/onnx__Unsqueeze.html
//
// axes are positions in the result.
var Unsqueeze = Op{
	Name: "Unsqueeze", Since: 25, Form: typeForm(13, 21, 23, 24, 25), Doc: "expanded = data with 1-dimensions inserted at axes",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: inferUnsqueeze, Eval: evalUnsqueeze,
	Facts: Facts{Alias: wholeView, Cost: freeCost},
	Upgrades: []Upgrade{{Below: 13, Source: "https://onnx.ai/onnx/operators/onnx__Unsqueeze.html#unsqueeze-13",
		Apply: axesToInput}},
}

func axesToInput(u *Upgrader, n *ssa.Node) error {
	u.AttrToInput(n, "axes", 1)
	return nil
}

func squeezeForm(n *ssa.Node) int {
	base := 13
	if n.Input(1) == nil {
		base = 1
	}
	return typeForm(base, 13, 21, 23, 24, 25)(n)
}

func inferSqueeze(n *ssa.Node) ([]Inferred, error) {
	t := InType(n, 0)
	unranked := One(ssa.UnrankedTensor(t.DType))
	if n.Input(1) == nil {
		if !t.Ranked {
			return unranked, nil
		}
		var dims []ssa.Dim
		for _, d := range t.Shape {
			if _, number := d.Const(); !number { // may be 1 or not
				return unranked, nil
			}
			if !d.Is(1) {
				dims = append(dims, d)
			}
		}
		return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0)), nil
	}
	axes, fixed := ConstInts(n, 1)
	if !t.Ranked || !fixed {
		if k := lenOf(n, 1); t.Ranked && k >= 0 {
			return One(tensorOfRank(t.DType, len(t.Shape)-k)), nil
		}
		return unranked, nil
	}
	drop, err := normAxes(axes, len(t.Shape))
	if err != nil {
		return nil, err
	}
	var dims []ssa.Dim
	for i, d := range t.Shape {
		if !slices.Contains(drop, i) {
			dims = append(dims, d)
		} else if k, ok := d.Const(); ok && k != 1 {
			return nil, fmt.Errorf("dimension %d is %d, it can not be squeezed", i, k)
		}
	}
	return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0)), nil
}

func evalSqueeze(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	axes, err := optInts(c, 1)
	if err != nil {
		return err
	}
	drop, err := normAxes(axes, a.Rank())
	if err != nil {
		return err
	}
	var shape []int
	for i, d := range a.Shape {
		switch listed := slices.Contains(drop, i); {
		case listed && d != 1:
			return fmt.Errorf("dimension %d of %v can not be squeezed", i, a.Shape)
		case !listed && (c.Has(1) || d != 1):
			shape = append(shape, d)
		}
	}
	return copyReshaped(c, a, shape)
}

func inferUnsqueeze(n *ssa.Node) ([]Inferred, error) {
	t := InType(n, 0)
	axes, fixed := ConstInts(n, 1)
	if !t.Ranked || !fixed {
		if k := lenOf(n, 1); t.Ranked && k >= 0 {
			return One(tensorOfRank(t.DType, len(t.Shape)+k)), nil
		}
		return One(ssa.UnrankedTensor(t.DType)), nil
	}
	dims, err := insertOnes(t.Shape, ssa.D(1), axes)
	if err != nil {
		return nil, err
	}
	return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0)), nil
}

// insertOnes returns shape with one inserted at axes, which count in the result.
func insertOnes[T any](shape []T, one T, axes []int64) ([]T, error) {
	rank := len(shape) + len(axes)
	at, err := normAxes(axes, rank)
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, rank)
	rest := shape
	for i := range rank {
		if slices.Contains(at, i) {
			out = append(out, one)
		} else {
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return out, nil
}

func evalUnsqueeze(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	axes, err := needInts(c, 1)
	if err != nil {
		return err
	}
	shape, err := insertOnes(a.Shape, 1, axes)
	if err != nil {
		return err
	}
	return copyReshaped(c, a, shape)
}
