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

// comparison fills in what the comparisons have in common.
func comparison(name string, since int, doc string, r relation, form func(*ssa.Node) int) Op {
	return Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Infer:    rule(func(n *ssa.Node) []Inferred { return inferComparison(n, r) }),
		Eval:     kernel(func(c *Call) { evalComparison(c, r) }),
		Facts:    Facts{Elementwise: true},
		Upgrades: legacyBroadcast(name),
	}
}

func inferComparison(n *ssa.Node, r relation) []Inferred {
	_ = sameDType(n, 0, 1)
	t := try(BroadcastTypes(ndarray.Bool, InType(n, 0), InType(n, 1)))
	return factOf(t, zipContent(n, t, compareContent(r)))
}

func evalComparison(c *Call, r relation) {
	a, b, shape := alike(c)
	out := try(c.Output(0, ndarray.Bool, shape...))
	compareArrays(out, a, b, r)
}

func compareArrays(out, a, b *ndarray.Array, r relation) {
	switch dt := a.DType; dt {
	case ndarray.Float32:
		binary(out, a, b, ordered[float32](r))
	case ndarray.Float64:
		binary(out, a, b, ordered[float64](r))
	case ndarray.Int8, ndarray.Int4, ndarray.Int2:
		binary(out, a, b, ordered[int8](r))
	case ndarray.Uint8, ndarray.Uint4, ndarray.Uint2, ndarray.Bool:
		binary(out, a, b, ordered[uint8](r))
	case ndarray.Int16:
		binary(out, a, b, ordered[int16](r))
	case ndarray.Uint16:
		binary(out, a, b, ordered[uint16](r))
	case ndarray.Int32:
		binary(out, a, b, ordered[int32](r))
	case ndarray.Uint32:
		binary(out, a, b, ordered[uint32](r))
	case ndarray.Int64:
		binary(out, a, b, ordered[int64](r))
	case ndarray.Uint64:
		binary(out, a, b, ordered[uint64](r))
	case ndarray.Float16, ndarray.BFloat16:
		binary(out, a, b, decoded(halfCodec(dt), r))
	case ndarray.Complex64, ndarray.Complex128, ndarray.String:
		compareUnusual(out, a, b, r)
		return
	default:
		if !dt.IsFloat() {
			check(unsupportedType(dt))
		}
		binary(out, a, b, decoded(byteCodec(dt), r))
	}
}

// ordered compares two elements of an ordered Go type.
func ordered[T cmp.Ordered](r relation) func(x, y T) bool {
	return func(x, y T) bool { return r.lt && x < y || r.eq && x == y || r.gt && x > y }
}

// decoded compares two stored patterns by their values.
func decoded[T ndarray.Elem](c codec[T], r relation) func(x, y T) bool {
	f := ordered[float32](r)
	return func(x, y T) bool { return f(c.load(x), c.load(y)) }
}

// compareUnusual compares strings, and complex numbers for equality.
func compareUnusual(out, a, b *ndarray.Array, r relation) {
	o := ndarray.Slice[bool](out)
	switch {
	case a.DType == ndarray.String:
		f := ordered[string](r)
		EachBroadcast(out.Shape, a.Shape, b.Shape, func(k, i, j int) { o[k] = f(a.Str[i], b.Str[j]) })
	case r != relEqual:
		check(unsupportedType(a.DType))
	case a.DType == ndarray.Complex64:
		binary(out, a, b, func(x, y complex64) bool { return x == y })
	default:
		binary(out, a, b, func(x, y complex128) bool { return x == y })
	}
}

// Equal is elementwise equality: https://onnx.ai/onnx/operators/onnx__Equal.html
// NaN equals nothing.
var Equal = func() Op {
	o := comparison("Equal", 19, "C = A == B", relEqual, formBy(
		typeStep{7, boolType | typesOf(ndarray.Int32, ndarray.Int64)}, typeStep{11, floatTypes | integerTypes},
		typeStep{13, bfloatType}, typeStep{19, stringType}))
	o.Facts.Commutative = true
	return o
}()

// Less is elementwise less-than: https://onnx.ai/onnx/operators/onnx__Less.html
var Less = comparison("Less", 13, "C = A < B", relLess, formBy(typeStep{7, floatTypes}, typeStep{9, integerTypes}, typeStep{13, anyType}))

// Greater is elementwise greater-than: https://onnx.ai/onnx/operators/onnx__Greater.html
var Greater = comparison("Greater", 13, "C = A > B", relGreater, formBy(typeStep{7, floatTypes}, typeStep{9, integerTypes}, typeStep{13, anyType}))

// LessOrEqual is elementwise at-most: https://onnx.ai/onnx/operators/onnx__LessOrEqual.html
var LessOrEqual = comparison("LessOrEqual", 16, "C = A <= B", relLessOrEqual, formBy(typeStep{12, floatTypes | integerTypes}, typeStep{16, anyType}))

// GreaterOrEqual is elementwise at-least: https://onnx.ai/onnx/operators/onnx__GreaterOrEqual.html
var GreaterOrEqual = comparison("GreaterOrEqual", 16, "C = A >= B", relGreaterOrEqual, formBy(typeStep{12, floatTypes | integerTypes}, typeStep{16, anyType}))
