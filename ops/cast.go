package ops

import (
	"math"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Cast converts elements to another type: https://onnx.ai/onnx/operators/onnx__Cast.html
//
//	to int    floats are cut off towards 0; integers keep their low bits
//	to float  rounded to nearest, ties to even, once
//	float8    out of range: the largest value (saturate=1) or NaN/∞ (saturate=0)
//	e8m0      to a power of two, by round_mode up, down or nearest
//	bool      everything but 0 is true, NaN too
//	string    shortest decimal text that reads back the same; INF, -INF, NaN
//
// What the standard leaves open: floats beyond int64 saturate there, NaN gives 0.
var Cast = Op{
	Name: "Cast", Since: 28, Doc: "Y = X converted to type to", Form: castForm,
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{strAttr("to").required().until(6), intAttr("to").required().since(6),
		intAttr("saturate", 1).since(19), strAttr("round_mode", "up", "down", "nearest").since(24)},
	Infer: rule(inferCast), Eval: kernel(evalCast),
	Facts:    Facts{Traits: elementwise},
	Upgrades: []Upgrade{{Below: 6, Source: changelog("Cast", 6), Apply: upgradeCast}},
}

// CastLike converts to the element type of operand 1, whose elements do not
// matter: https://onnx.ai/onnx/operators/onnx__CastLike.html
var CastLike = Op{
	Name: "CastLike", Since: 25, Doc: "Y = X converted to the type of target_type", Form: typeForm(15, 19, 21, 23, 24, 25),
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("saturate", 1).since(19), strAttr("round_mode", "up", "down", "nearest").since(24)},
	Infer: rule(inferCastLike), Eval: kernel(evalCastLike),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Smaller: narrowingFirst},
}

func castForm(n *ssa.Node) int {
	form := typeForm(6, 13, 19, 21, 23, 24, 25, 28)(n)
	for _, v := range []*ssa.Value{n.Input(0), n.Output(0)} {
		if v != nil && v.Type.DType == ndarray.String {
			form = max(form, 9)
		}
	}
	return form
}

// upgradeCast reads the type name that operator sets 1 to 5 used.
func upgradeCast(_ *Upgrader, n *ssa.Node) error {
	names := map[string]ndarray.DType{
		"FLOAT": ndarray.Float32, "UINT8": ndarray.Uint8, "INT8": ndarray.Int8, "UINT16": ndarray.Uint16,
		"INT16": ndarray.Int16, "INT32": ndarray.Int32, "INT64": ndarray.Int64, "BOOL": ndarray.Bool,
		"FLOAT16": ndarray.Float16, "DOUBLE": ndarray.Float64, "UINT32": ndarray.Uint32, "UINT64": ndarray.Uint64,
	}
	name := Str(n, "to")
	dt, ok := names[strings.ToUpper(name)]
	if !ok {
		return badAttr("to", name, "the name of a numeric type")
	}
	n.SetAttr(ssa.IntAttr("to", int64(dt)))
	return nil
}

// targetType reads the required attribute to.
func targetType(n *ssa.Node) ndarray.DType {
	to := try(dtypeAttr(n, "to", ndarray.Undefined))
	if to == ndarray.Undefined {
		check(badAttr("to", Int(n, "to"), "an element type"))
	}
	return to
}

func inferCast(n *ssa.Node) []Inferred {
	to := targetType(n)
	return castFacts(n, to)
}

func inferCastLike(n *ssa.Node) []Inferred { return castFacts(n, InType(n, 1).DType) }

func castFacts(n *ssa.Node, to ndarray.DType) []Inferred {
	t := InType(n, 0)
	t.Kind, t.DType = ssa.KindTensor, to
	return factOf(t, castContent(known(n, 0), to))
}

// castContent keeps contents that the target type holds exactly.
func castContent(x []ssa.Dim, to ndarray.DType) []ssa.Dim {
	if x == nil || !followed(to) {
		return nil
	}
	out := make([]ssa.Dim, len(x))
	for i, d := range x {
		k, ok := d.Const()
		switch {
		case to == ndarray.Bool && ok && k != 0:
			out[i] = ssa.D(1)
		case to == ndarray.Bool && ok:
			out[i] = ssa.D(0)
		case to == ndarray.Bool:
		case ok && to == ndarray.Int32 && int64(int32(k)) != k:
		case ok && to == ndarray.Float32 && int64(float32(k)) != k:
		default:
			out[i] = d
		}
	}
	return out
}

func evalCast(c *Call) {
	to := targetType(c.Node)
	evalCastTo(c, to)
}

func evalCastLike(c *Call) {
	like := tensor(c, 1)
	evalCastTo(c, like.DType)
}

func evalCastTo(c *Call, to ndarray.DType) {
	a := tensor(c, 0)
	mode := Str(c.Node, "round_mode")
	if a.DType.IsComplex() || to.IsComplex() {
		check(unsupportedType(max(a.DType, to)))
	}
	out := result(c, 0, to, a.Shape...)
	convertArray(out, a, conversion{saturate: Int(c.Node, "saturate") != 0, mode: mode})
}

// conversion says how to round to the smallest float types.
type conversion struct {
	saturate bool
	mode     string
}

// convertArray converts every element; out may lie on a where the widths agree.
func convertArray(out, a *ndarray.Array, how conversion) {
	from, to := a.DType, out.DType
	switch {
	case to == from:
		copyWhole(out, a)
	case from == ndarray.String:
		parseStrings(out, a, how)
	case to == ndarray.String:
		formatStrings(out, a)
	case to == ndarray.Bool:
		convert(ndarray.Slice[bool](out), elements[float64](a), func(v float64) bool { return v != 0 })
	case !from.IsFloat() && !to.IsFloat():
		writeInts(out, elements[int64](a))
	case !to.IsFloat():
		storeTruncated(out, elements[float64](a))
	case to == ndarray.Float32 && from == ndarray.Uint64:
		convert(ndarray.Slice[float32](out), elements[uint64](a), func(v uint64) float32 { return float32(v) })
	case to == ndarray.Float32 && !from.IsFloat():
		convert(ndarray.Slice[float32](out), elements[int64](a), func(v int64) float32 { return float32(v) })
	default:
		for i, v := range elements[float64](a) {
			how.put(out, i, v)
		}
	}
}

// put stores a float64 as element i of a float type with one rounding.
func (how conversion) put(out *ndarray.Array, i int, v float64) {
	switch dt := out.DType; dt {
	case ndarray.Float32, ndarray.Float64:
		out.SetFloat(i, v)
	case ndarray.Float16, ndarray.BFloat16:
		out.SetFloat(i, float64(oddFloat32(v)))
	case ndarray.Float8E8M0:
		out.Data[i] = ndarray.F32ToE8M0(oddFloat32(v), how.mode, how.saturate)
	default:
		out.Data[i] = ndarray.F32ToF8(dt, oddFloat32(v), how.saturate)
	}
}

// oddFloat32 rounds to float32 "to odd": an inexact result gets an odd last bit,
// so that rounding it again to a narrower type gives what rounding v directly
// would. Source: S. Boldo, G. Melquiond, "Emulation of a FMA and correctly
// rounded sums: proved algorithms using rounding to odd", 2008.
func oddFloat32(v float64) float32 {
	f := float32(v)
	if float64(f) == v || v != v || math.IsInf(v, 0) {
		return f
	}
	bits := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		bits-- // towards zero; from infinity to the largest finite value
	}
	return math.Float32frombits(bits | 1)
}
