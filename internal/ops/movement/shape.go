package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Shape is an operand's dimensions, or a range of them: https://onnx.ai/onnx/operators/onnx__Shape.html
//
// start and end count from the back when negative and are clamped to [0, rank].
var Shape = ops.Op{
	Name: "Shape", Since: 25, Form: kit.TypeForm(1, kit.ViewVersions...), Doc: "shape = dimensions start..end-1 of data",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("start", 0).From(15), ops.IntAttr("end").From(15)},
	Infer: kit.Rule(inferShape), Eval: kit.Kernel(evalShape),
	Facts: ops.Facts{Traits: ops.IgnoringTraits.But(ops.Measures, ops.FailsNever), Cost: kit.FreeCost},
}

// Size is the number of an operand's elements: https://onnx.ai/onnx/operators/onnx__Size.html
var Size = ops.Op{
	Name: "Size", Since: 25, Form: kit.TypeForm(1, kit.ViewVersions...), Doc: "size = number of elements of data",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(inferSize), Eval: kit.Kernel(evalSize),
	Facts: ops.Facts{Traits: ops.IgnoringTraits.But(ops.Measures, ops.FailsNever), Cost: kit.FreeCost},
}

// shapeRange returns the clamped range of dimensions a Shape node asks for.
func shapeRange(n *ssa.Node, rank int) (from, to int) {
	at := func(name string, def int64) int {
		k := ops.IntOr(n, name, def)
		if k < 0 {
			k += int64(rank)
		}
		return int(min(max(k, 0), int64(rank)))
	}
	from, to = at("start", 0), at("end", int64(rank))
	return from, max(from, to)
}

func inferShape(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(ssa.TensorOf(ndarray.Int64, ssa.Dim{}))
	}
	from, to := shapeRange(n, len(t.Shape))
	return kit.FactOf(ssa.StaticTensor(ndarray.Int64, to-from), append([]ssa.Dim{}, t.Shape[from:to]...))
}

func evalShape(c *ops.Call) {
	a := kit.Tensor(c, 0)
	from, to := shapeRange(c.Node, a.Rank())
	out := kit.Result(c, 0, ndarray.Int64, to-from)
	for i, d := range a.Shape[from:to] {
		out.SetInt(i, int64(d))
	}
}

func inferSize(n *ssa.Node) []ops.Inferred {
	return kit.FactOf(ssa.TensorOf(ndarray.Int64), []ssa.Dim{ops.InType(n, 0).NumElems()})
}

func evalSize(c *ops.Call) {
	a := kit.Tensor(c, 0)
	out := kit.Result(c, 0, ndarray.Int64)
	out.SetInt(0, int64(a.Len()))
}
