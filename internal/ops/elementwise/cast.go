package elementwise

import (
	"fmt"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Cast converts elements to another type: https://onnx.ai/onnx/operators/onnx__Cast.html
//
//	to int    floats are cut off towards 0, as ndarray.Truncated says; integers keep their low bits
//	to float  rounded to nearest, ties to even, once
//	float8    out of range: the largest value (saturate=1) or NaN/∞ (saturate=0)
//	e8m0      to a power of two, by round_mode up, down or nearest
//	bool      everything but 0 is true, NaN too
//	string    shortest decimal text that reads back the same; INF, -INF, NaN
var Cast = ops.Op{
	Name: "Cast", Since: 28, Doc: "Y = X converted to type to", Form: castForm,
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("to").Mandatory().Before(6), ops.IntAttr("to").Mandatory().From(6),
		ops.IntAttr("saturate", 1).From(19), ops.StrAttr("round_mode", "up", "down", "nearest").From(24)},
	Infer:    kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferCast(n, targetType(n)) }),
	Eval:     kit.Kernel(func(c *ops.Call) { evalCast(c, targetType(c.Node)) }),
	Facts:    ops.Facts{Traits: ops.ElementwiseTraits},
	Upgrades: []ops.Upgrade{{Below: 6, Source: kit.Changelog("Cast", 6), Apply: upgradeCast}},

	Downgrades: []ops.Downgrade{{Below: 6, Form: kit.TypeForm(1, 13), Apply: downgradeCast}},
}

// CastLike converts to the element type of operand 1, whose elements do not
// matter: https://onnx.ai/onnx/operators/onnx__CastLike.html
var CastLike = ops.Op{
	Name: "CastLike", Since: 25, Doc: "Y = X converted to the type of target_type", Form: kit.TypeForm(15, 19, 21, 23, 24, 25),
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("saturate", 1).From(19), ops.StrAttr("round_mode", "up", "down", "nearest").From(24)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferCast(n, ops.InType(n, 1).DType) }),
	Eval:  kit.Kernel(func(c *ops.Call) { evalCast(c, kit.Tensor(c, 1).DType) }),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Smaller: kit.NarrowingFirst},
}

func castForm(n *ssa.Node) int {
	return max(kit.TypeForm(6, 13, 19, 21, 23, 24, 25, 28)(n), kit.SinceTypes(6, 9, ndarray.String)(n))
}

// typeNames are what operator sets 1 to 5 called the types.
var typeNames = map[string]ndarray.DType{
	"FLOAT": ndarray.Float32, "UINT8": ndarray.Uint8, "INT8": ndarray.Int8, "UINT16": ndarray.Uint16,
	"INT16": ndarray.Int16, "INT32": ndarray.Int32, "INT64": ndarray.Int64, "BOOL": ndarray.Bool,
	"FLOAT16": ndarray.Float16, "DOUBLE": ndarray.Float64, "UINT32": ndarray.Uint32, "UINT64": ndarray.Uint64,
}

// downgradeCast writes the type's name.
func downgradeCast(_ *ops.Upgrader, n *ssa.Node) error {
	to := ndarray.DType(n.Attr("to").I)
	for name, dt := range typeNames {
		if dt == to {
			n.SetAttr(ssa.StringAttr("to", name))
			return nil
		}
	}
	return fmt.Errorf("has no name for the element type %s", to)
}

// upgradeCast reads the type name that operator sets 1 to 5 used.
func upgradeCast(_ *ops.Upgrader, n *ssa.Node) error {
	name := ops.Str(n, "to")
	dt, ok := typeNames[strings.ToUpper(name)]
	if !ok {
		return kit.BadAttr("to", name, "the name of a numeric type")
	}
	n.SetAttr(ssa.IntAttr("to", int64(dt)))
	return nil
}

// targetType reads the required attribute to.
func targetType(n *ssa.Node) ndarray.DType {
	to := kit.Try(kit.DtypeAttr(n, "to", ndarray.Undefined))
	if to == ndarray.Undefined {
		kit.Check(kit.BadAttr("to", ops.Int(n, "to"), "an element type"))
	}
	return to
}

func inferCast(n *ssa.Node, to ndarray.DType) []ops.Inferred {
	t := ops.InType(n, 0)
	t.Kind, t.DType = ssa.KindTensor, to
	return kit.FactOf(t, castContent(kit.Known(n, 0), to))
}

// castContent keeps contents that the target type holds exactly.
func castContent(x []ssa.Dim, to ndarray.DType) []ssa.Dim {
	if x == nil || !kit.TracksContent(to) {
		return nil
	}
	out := make([]ssa.Dim, len(x))
	for i, d := range x {
		k, ok := d.Const()
		switch {
		case to == ndarray.Bool && ok:
			out[i] = truth(k != 0)
		case to == ndarray.Bool:
		case ok && to == ndarray.Int32 && int64(int32(k)) != k:
		case ok && to == ndarray.Float32 && int64(float32(k)) != k:
		default:
			out[i] = d
		}
	}
	return out
}

func evalCast(c *ops.Call, to ndarray.DType) {
	a := kit.Tensor(c, 0)
	if a.DType.IsComplex() || to.IsComplex() {
		kit.Check(kit.UnsupportedType(max(a.DType, to)))
	}
	out := kit.Result(c, 0, to, a.Shape...)
	convertArray(c, out, a, conversion{saturate: ops.Int(c.Node, "saturate") != 0, mode: ops.Str(c.Node, "round_mode")})
}

// conversion says how to round to the smallest float types.
type conversion struct {
	saturate bool
	mode     string
}

// convertArray converts every element; out may lie on a where the widths agree.
func convertArray(c *ops.Call, out, a *ndarray.Array, how conversion) {
	from, to := a.DType, out.DType
	switch {
	case to == from:
		kit.CopyWhole(c, out, a)
	case from == ndarray.String:
		parseStrings(c, out, a, how)
	case to == ndarray.String:
		formatStrings(c, out, a)
	case to == ndarray.Bool:
		kit.Convert(c, ndarray.Slice[bool](out), kit.Elements[float64](c, a), func(v float64) bool { return v != 0 })
	case !from.IsFloat() && !to.IsFloat():
		kit.WriteInts(c, out, kit.Elements[int64](c, a))
	case !to.IsFloat():
		kit.StoreTruncated(c, out, kit.Elements[float64](c, a))
	case to == ndarray.Float32 && from == ndarray.Uint64:
		kit.Convert(c, ndarray.Slice[float32](out), kit.Elements[uint64](c, a), func(v uint64) float32 { return float32(v) })
	case to == ndarray.Float32 && !from.IsFloat():
		kit.Convert(c, ndarray.Slice[float32](out), kit.Elements[int64](c, a), func(v int64) float32 { return float32(v) })
	default:
		w := kit.Watching(c)
		for i, v := range kit.Elements[float64](c, a) {
			w.Did(1)
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
		out.SetFloat(i, float64(kit.OddFloat32(v)))
	case ndarray.Float8E8M0:
		out.Data[i] = ndarray.F32ToE8M0(kit.OddFloat32(v), how.mode, how.saturate)
	default:
		out.Data[i] = ndarray.F32ToF8(dt, kit.OddFloat32(v), how.saturate)
	}
}
