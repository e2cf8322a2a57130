package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Shape is an operand's dimensions, or a range of them: https://onnx.ai/onnx/operators/onnx__Shape.html
//
// start and end count from the back when negative and are clamped to [0, rank].
var Shape = Op{
	Name: "Shape", Since: 25, Form: typeForm(1, viewVersions...), Doc: "shape = dimensions start..end-1 of data",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("start", 0).since(15), intAttr("end").since(15)},
	Infer: rule(inferShape), Eval: kernel(evalShape),
	Facts: Facts{Traits: ignoring.but(FailsNever), Cost: freeCost},
}

// Size is the number of an operand's elements: https://onnx.ai/onnx/operators/onnx__Size.html
var Size = Op{
	Name: "Size", Since: 25, Form: typeForm(1, viewVersions...), Doc: "size = number of elements of data",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: rule(inferSize), Eval: kernel(evalSize),
	Facts: Facts{Traits: ignoring.but(FailsNever), Cost: freeCost},
}

// shapeRange returns the clamped range of dimensions a Shape node asks for.
func shapeRange(n *ssa.Node, rank int) (from, to int) {
	at := func(name string, def int64) int {
		k := IntOr(n, name, def)
		if k < 0 {
			k += int64(rank)
		}
		return int(min(max(k, 0), int64(rank)))
	}
	from, to = at("start", 0), at("end", int64(rank))
	return from, max(from, to)
}

func inferShape(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(ssa.TensorOf(ndarray.Int64, ssa.Dim{}))
	}
	from, to := shapeRange(n, len(t.Shape))
	return factOf(ssa.StaticTensor(ndarray.Int64, to-from), append([]ssa.Dim{}, t.Shape[from:to]...))
}

func evalShape(c *Call) {
	a := tensor(c, 0)
	from, to := shapeRange(c.Node, a.Rank())
	out := result(c, 0, ndarray.Int64, to-from)
	for i, d := range a.Shape[from:to] {
		out.SetInt(i, int64(d))
	}
}

func inferSize(n *ssa.Node) []Inferred {
	return factOf(ssa.TensorOf(ndarray.Int64), []ssa.Dim{InType(n, 0).NumElems()})
}

func evalSize(c *Call) {
	a := tensor(c, 0)
	out := result(c, 0, ndarray.Int64)
	out.SetInt(0, int64(a.Len()))
}
