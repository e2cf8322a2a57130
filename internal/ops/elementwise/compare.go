package elementwise

import (
	"cmp"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// relation says for which outcomes of comparing two elements a comparison holds.
// Unordered elements (NaN) never hold.
type relation struct{ lt, eq, gt bool }

// holds takes the difference x-y.
func (r relation) holds(order int64) bool {
	switch {
	case order < 0:
		return r.lt
	case order > 0:
		return r.gt
	}
	return r.eq
}

var (
	relEqual          = relation{eq: true}
	relLess           = relation{lt: true}
	relGreater        = relation{gt: true}
	relLessOrEqual    = relation{lt: true, eq: true}
	relGreaterOrEqual = relation{gt: true, eq: true}
)

// comparison fills in what the comparisons have in common. Types that were there from the first version on are first.
func comparison(name string, since int, doc string, r relation, first kit.TypeSet, later ...kit.TypeStep) ops.Op {
	form := func(version int) func(*ssa.Node) int {
		return kit.FormBy(append([]kit.TypeStep{kit.From(version, first)}, later...)...)
	}
	o := broadcasting(binaryOp(name, since, doc, func(c *ops.Call) { evalComparison(c, r) }, nil, form(7))).But(ops.ZeroSignIgnored)
	o.Infer = kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferTruth(n, compareContent(r)) })
	o.Downgrades[0].Form = form(1)
	return o
}

// orEqual is a comparison that operator set 12 brought.
func orEqual(name, doc string, r relation) ops.Op {
	o := comparison(name, 16, doc, r, 0, kit.From(12, kit.FloatTypes|kit.IntegerTypes), kit.From(16, kit.AnyType))
	o.Upgrades, o.Downgrades = nil, nil
	return o
}

func evalComparison(c *ops.Call, r relation) {
	a, b, shape := operandPair(c)
	out := kit.Result(c, 0, ndarray.Bool, shape...)
	switch dt := a.DType; {
	case dt.IsFloat():
		compare(c, out, a, b, kit.Elements[float64](c, a), kit.Elements[float64](c, b), r)
	case dt == ndarray.Uint64:
		compare(c, out, a, b, kit.Elements[uint64](c, a), kit.Elements[uint64](c, b), r)
	case dt.IsInteger() || dt == ndarray.Bool:
		compare(c, out, a, b, kit.Elements[int64](c, a), kit.Elements[int64](c, b), r)
	case dt == ndarray.String:
		compare(c, out, a, b, a.Str, b.Str, r)
	case dt.IsComplex() && r == relEqual:
		z, x, y := ndarray.Slice[bool](out), kit.Elements[complex128](c, a), kit.Elements[complex128](c, b)
		kit.EachBroadcast(c, shape, a.Shape, b.Shape, func(o, i, j int) { z[o] = x[i] == y[j] })
	default:
		kit.Check(kit.UnsupportedType(dt))
	}
}

// compare stores whether the relation holds for every pair of elements.
func compare[T cmp.Ordered](c *ops.Call, out, a, b *ndarray.Array, x, y []T, r relation) {
	z := ndarray.Slice[bool](out)
	kit.EachBroadcast(c, out.Shape, a.Shape, b.Shape, func(o, i, j int) {
		z[o] = r.lt && x[i] < y[j] || r.eq && x[i] == y[j] || r.gt && x[i] > y[j]
	})
}

// Equal is elementwise equality: https://onnx.ai/onnx/operators/onnx__Equal.html
// NaN equals nothing.
var Equal = comparison("Equal", 19, "C = A == B", relEqual, kit.BoolType|kit.TypesOf(ndarray.Int32, ndarray.Int64),
	kit.From(11, kit.FloatTypes|kit.IntegerTypes), kit.From(13, kit.BfloatType), kit.From(19, kit.StringType)).But(ops.Commutative)

// Less is elementwise less-than: https://onnx.ai/onnx/operators/onnx__Less.html
var Less = comparison("Less", 13, "C = A < B", relLess, kit.FloatTypes, kit.From(9, kit.IntegerTypes), kit.From(13, kit.AnyType))

// Greater is elementwise greater-than: https://onnx.ai/onnx/operators/onnx__Greater.html
var Greater = comparison("Greater", 13, "C = A > B", relGreater, kit.FloatTypes, kit.From(9, kit.IntegerTypes), kit.From(13, kit.AnyType))

// LessOrEqual is elementwise at-most: https://onnx.ai/onnx/operators/onnx__LessOrEqual.html
var LessOrEqual = orEqual("LessOrEqual", "C = A <= B", relLessOrEqual)

// GreaterOrEqual is elementwise at-least: https://onnx.ai/onnx/operators/onnx__GreaterOrEqual.html
var GreaterOrEqual = orEqual("GreaterOrEqual", "C = A >= B", relGreaterOrEqual)
