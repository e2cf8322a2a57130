package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// Squeeze drops dimensions of length 1, all of them without axes:
// https://onnx.ai/onnx/operators/onnx__Squeeze.html
var Squeeze = Op{
	Name: "Squeeze", Since: 25, Form: squeezeForm, Doc: "squeezed = data without the 1-dimensions at axes",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("axes").until(13)},
	Infer: rule(inferSqueeze), Eval: kernel(evalSqueeze),
	Facts: Facts{Traits: reshaping, Alias: wholeView, Cost: freeCost},
	Upgrades: []Upgrade{{Below: 13, Source: "https://onnx.ai/onnx/operators/onnx__Squeeze.html#squeeze-13",
		Apply: axesToInput}},
}

// Unsqueeze inserts dimensions of length 1: https://onnx.ai/onnx/operators/onnx__Unsqueeze.html
//
// axes are positions in the result.
var Unsqueeze = Op{
	Name: "Unsqueeze", Since: 25, Form: typeForm(13, 21, 23, 24, 25), Doc: "expanded = data with 1-dimensions inserted at axes",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("axes").required().until(13)},
	Infer: rule(inferUnsqueeze), Eval: kernel(evalUnsqueeze),
	Facts: Facts{Traits: reshaping, Alias: wholeView, Cost: freeCost},
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

func inferSqueeze(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	unranked := One(ssa.UnrankedTensor(t.DType))
	if n.Input(1) == nil {
		if !t.Ranked {
			return unranked
		}
		var dims []ssa.Dim
		for _, d := range t.Shape {
			if _, number := d.Const(); !number { // may be 1 or not
				return unranked
			}
			if !d.Is(1) {
				dims = append(dims, d)
			}
		}
		return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0))
	}
	axes, fixed := ConstInts(n, 1)
	if !t.Ranked || !fixed {
		if k := lenOf(n, 1); t.Ranked && k >= 0 {
			return One(tensorOfRank(t.DType, len(t.Shape)-k))
		}
		return unranked
	}
	drop := try(normAxes(axes, len(t.Shape)))
	var dims []ssa.Dim
	for i, d := range t.Shape {
		if !slices.Contains(drop, i) {
			dims = append(dims, d)
		} else if k, ok := d.Const(); ok && k != 1 {
			failf("dimension %d is %d, it can not be squeezed", i, k)
		}
	}
	return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0))
}

func evalSqueeze(c *Call) {
	a := tensor(c, 0)
	axes := optionalInts(c, 1)
	drop := try(normAxes(axes, a.Rank()))
	var shape []int
	for i, d := range a.Shape {
		switch listed := slices.Contains(drop, i); {
		case listed && d != 1:
			failf("dimension %d of %v can not be squeezed", i, a.Shape)
		case !listed && (c.Has(1) || d != 1):
			shape = append(shape, d)
		}
	}
	copyReshaped(c, a, shape)
}

func inferUnsqueeze(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	axes, fixed := ConstInts(n, 1)
	if !t.Ranked || !fixed {
		if k := lenOf(n, 1); t.Ranked && k >= 0 {
			return One(tensorOfRank(t.DType, len(t.Shape)+k))
		}
		return One(ssa.UnrankedTensor(t.DType))
	}
	dims := insertOnes(t.Shape, ssa.D(1), axes)
	return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0))
}

// insertOnes returns shape with one inserted at axes, which count in the result.
func insertOnes[T any](shape []T, one T, axes []int64) []T {
	rank := len(shape) + len(axes)
	at := try(normAxes(axes, rank))
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
	return out
}

func evalUnsqueeze(c *Call) {
	a := tensor(c, 0)
	axes := ints(c, 1)
	shape := insertOnes(a.Shape, 1, axes)
	copyReshaped(c, a, shape)
}
