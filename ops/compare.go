package ops

import (
	"cmp"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// relation says for which outcomes of comparing two elements a comparison holds.
// Unordered elements (NaN) never hold.
type relation struct{ lt, eq, gt bool }

// holds takes the sign of x-y.
func (r relation) holds(order int) bool {
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

// compareContent decides a comparison where the difference of both sides is a
// number, or where one side is a negative number and the other can not be.
func compareContent(r relation) func(x, y ssa.Dim) ssa.Dim {
	truth := func(b bool) ssa.Dim {
		if b {
			return ssa.D(1)
		}
		return ssa.D(0)
	}
	return func(x, y ssa.Dim) ssa.Dim {
		if k, ok := x.Sub(y).Const(); ok {
			return truth(r.holds(int(max(-1, min(1, k)))))
		}
		if k, ok := y.Const(); ok && k < 0 && x.NonNegative() {
			return truth(r.gt)
		}
		if k, ok := x.Const(); ok && k < 0 && y.NonNegative() {
			return truth(r.lt)
		}
		return ssa.Dim{}
	}
}

// comparison fills in what the comparisons have in common.
func comparison(name string, since int, doc string, r relation, form func(*ssa.Node) int) Op {
	o := binaryOp(name, since, doc, func(c *Call) { evalComparison(c, r) }, nil, form).broadcasting().but(ZeroSignIgnored)
	o.Infer = rule(func(n *ssa.Node) []Inferred { return inferTruth(n, compareContent(r)) })
	return o
}

func evalComparison(c *Call, r relation) {
	a, b, shape := alike(c)
	out := result(c, 0, ndarray.Bool, shape...)
	switch dt := a.DType; {
	case dt.IsFloat():
		compare(out, a, b, elements[float64](a), elements[float64](b), r)
	case dt == ndarray.Uint64:
		compare(out, a, b, elements[uint64](a), elements[uint64](b), r)
	case dt.IsInteger() || dt == ndarray.Bool:
		compare(out, a, b, elements[int64](a), elements[int64](b), r)
	case dt == ndarray.String:
		compare(out, a, b, a.Str, b.Str, r)
	case dt.IsComplex() && r == relEqual:
		z, x, y := ndarray.Slice[bool](out), elements[complex128](a), elements[complex128](b)
		EachBroadcast(shape, a.Shape, b.Shape, func(o, i, j int) { z[o] = x[i] == y[j] })
	default:
		check(unsupportedType(dt))
	}
}

// compare stores whether the relation holds for every pair of elements.
func compare[T cmp.Ordered](out, a, b *ndarray.Array, x, y []T, r relation) {
	z := ndarray.Slice[bool](out)
	EachBroadcast(out.Shape, a.Shape, b.Shape, func(o, i, j int) {
		z[o] = r.lt && x[i] < y[j] || r.eq && x[i] == y[j] || r.gt && x[i] > y[j]
	})
}

// Equal is elementwise equality: https://onnx.ai/onnx/operators/onnx__Equal.html
// NaN equals nothing.
var Equal = comparison("Equal", 19, "C = A == B", relEqual, formBy(
	typeStep{7, boolType | typesOf(ndarray.Int32, ndarray.Int64)}, typeStep{11, floatTypes | integerTypes},
	typeStep{13, bfloatType}, typeStep{19, stringType})).but(Commutative)

// Less is elementwise less-than: https://onnx.ai/onnx/operators/onnx__Less.html
var Less = comparison("Less", 13, "C = A < B", relLess, formBy(typeStep{7, floatTypes}, typeStep{9, integerTypes}, typeStep{13, anyType}))

// Greater is elementwise greater-than: https://onnx.ai/onnx/operators/onnx__Greater.html
var Greater = comparison("Greater", 13, "C = A > B", relGreater, formBy(typeStep{7, floatTypes}, typeStep{9, integerTypes}, typeStep{13, anyType}))

// LessOrEqual is elementwise at-most: https://onnx.ai/onnx/operators/onnx__LessOrEqual.html
var LessOrEqual = comparison("LessOrEqual", 16, "C = A <= B", relLessOrEqual, formBy(typeStep{12, floatTypes | integerTypes}, typeStep{16, anyType}))

// GreaterOrEqual is elementwise at-least: https://onnx.ai/onnx/operators/onnx__GreaterOrEqual.html
var GreaterOrEqual = comparison("GreaterOrEqual", 16, "C = A >= B", relGreaterOrEqual, formBy(typeStep{12, floatTypes | integerTypes}, typeStep{16, anyType}))
