package oracle

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var elementwiseDrawers = []drawer{
	{"Neg Abs Sign Relu", func(d *dice, _ string) opCase {
		return opCase{in: []arg{tensor(pick(d.Rand, ndarray.Float32, ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Int8), d.shape(0, 4)...)}}
	}},
	{"Reciprocal Floor Ceil Round Tanh Sigmoid Erf HardSwish Softplus Softsign Mish Sin Cos Atan Asinh IsNaN " +
		"Sqrt Log Acosh Asin Acos Atanh Exp Selu ms:Gelu ms:QuickGelu", func(d *dice, _ string) opCase {
		return opCase{in: []arg{d.wild(d.shape(0, 4))}, tol: 2e-6}
	}},
	{"Tan Sinh Cosh", func(d *dice, _ string) opCase {
		return opCase{in: []arg{f32s(d.shape(0, 4)...).between(-1.4, 1.4)}, tol: 2e-5}
	}},
	{"IsInf", func(d *dice, _ string) opCase {
		return opCase{in: []arg{d.wild(d.shape(0, 4))}, attrs: d.some(d.flag("detect_negative"), d.flag("detect_positive"))}
	}},
	{"LeakyRelu Elu Celu ThresholdedRelu Swish", func(d *dice, _ string) opCase {
		return opCase{in: []arg{d.wild(d.shape(0, 4))}, attrs: d.some(ssa.FloatAttr("alpha", pick[float32](d.Rand, 0.1, 0.5, 1.5))), tol: 2e-6}
	}},
	{"HardSigmoid", func(d *dice, _ string) opCase {
		return opCase{in: []arg{d.wild(d.shape(0, 4))}, attrs: d.some(ssa.FloatAttr("alpha", 0.3), ssa.FloatAttr("beta", 0.4)), tol: 2e-6}
	}},
	{"Shrink", func(d *dice, _ string) opCase {
		return opCase{in: []arg{d.wild(d.shape(0, 4))}, attrs: d.some(ssa.FloatAttr("lambd", 0.7), ssa.FloatAttr("bias", 0.3)), tol: 2e-6}
	}},
	{"Gelu", func(d *dice, _ string) opCase {
		return opCase{in: []arg{d.wild(d.shape(0, 4))}, attrs: d.some(ssa.StringAttr("approximate", "tanh")), tol: 2e-6}
	}},
	{"Not", func(d *dice, _ string) opCase { return opCase{in: []arg{boolean(d.shape(0, 4)...)}} }},
	{"Add Sub Mul Max Min", func(d *dice, _ string) opCase {
		a, b := d.pair()
		dt := d.number()
		x, y := tensor(dt, a...), d.fixed(tensor(dt, b...))
		if dt == ndarray.Float32 && d.chance(0.5) {
			x = x.odd()
		}
		return opCase{in: []arg{x, y}}
	}},
	{"Div Mod", func(d *dice, op string) opCase {
		a, b := d.pair()
		dt := d.number()
		k := opCase{in: []arg{tensor(dt, a...), d.fixed(tensor(dt, b...).between(1, 100))}, tol: 1e-6}
		if op == "Mod" && (dt.IsFloat() || d.chance(0.5)) {
			k.attrs = []ssa.Attr{ssa.IntAttr("fmod", 1)}
		}
		return k
	}},
	{"Pow", func(d *dice, _ string) opCase {
		a, b := d.pair()
		y := tensor(pick(d.Rand, ndarray.Float32, ndarray.Float32, ndarray.Int64), b...).between(-2, 3)
		if d.chance(0.4) {
			y = scalarOf(ndarray.Float32, pick(d.Rand, 0, 0.5, 1, 2, 3, -1, -0.5))
		}
		return opCase{in: []arg{f32s(a...).between(0.1, 3), y}, tol: 2e-6}
	}},
	{"PRelu", func(d *dice, _ string) opCase {
		s := d.shape(0, 4)
		dt := pick(d.Rand, ndarray.Float32, ndarray.Float64, ndarray.Int32)
		return opCase{in: []arg{tensor(dt, s...), d.fixed(tensor(dt, d.partner(s)...))}}
	}},
	{"Less Greater LessOrEqual GreaterOrEqual Equal", func(d *dice, _ string) opCase {
		a, b := d.pair()
		dt := d.number()
		x, y := tensor(dt, a...).between(0, 4), tensor(dt, b...).between(0, 4)
		if dt == ndarray.Float32 && d.chance(0.5) {
			x, y = x.odd(), y.odd()
		}
		return opCase{in: []arg{x, d.fixed(y)}}
	}},
	{"And Or Xor", func(d *dice, _ string) opCase {
		a, b := d.pair()
		return opCase{in: []arg{boolean(a...), d.fixed(boolean(b...))}}
	}},
	{"BitwiseAnd BitwiseOr BitwiseXor", func(d *dice, _ string) opCase {
		a, b := d.pair()
		dt := d.integer()
		return opCase{in: []arg{tensor(dt, a...), d.fixed(tensor(dt, b...))}}
	}},
	{"BitwiseNot", func(d *dice, _ string) opCase { return opCase{in: []arg{tensor(d.integer(), d.shape(0, 4)...)}} }},
	{"BitShift", func(d *dice, _ string) opCase {
		a, b := d.pair()
		dt := pick(d.Rand, ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64)
		return opCase{in: []arg{tensor(dt, a...), d.fixed(tensor(dt, b...).between(0, 70))}, attrs: strs("direction", pick(d.Rand, "LEFT", "RIGHT"))}
	}},
	{"Sum Mean", func(d *dice, _ string) opCase { return d.several(1e-6) }},
	{"Where", func(d *dice, _ string) opCase {
		s := d.shape(0, 4)
		dt := d.anything()
		return opCase{in: []arg{boolean(d.partner(s)...), tensor(dt, s...), d.fixed(tensor(dt, d.partner(s)...))}}
	}},
	{"Clip", func(d *dice, _ string) opCase {
		dt := pick(d.Rand, ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Uint8, ndarray.Int8)
		x := tensor(dt, d.shape(0, 4)...)
		if dt.IsFloat() {
			x = x.odd()
		}
		bound := func(v float64) arg {
			if d.chance(0.3) {
				return absent
			}
			return d.fixed(tensor(dt).between(v, v+1))
		}
		return opCase{in: []arg{x, bound(1), bound(4)}}
	}},
	{"Cast", func(d *dice, _ string) opCase {
		from, to := d.number(), d.number()
		return opCase{in: []arg{castable(d, from)}, attrs: []ssa.Attr{ssa.IntAttr("to", int64(to))}}
	}},
	{"CastLike", func(d *dice, _ string) opCase {
		return opCase{in: []arg{castable(d, d.number()), tensor(d.number(), 1)}}
	}},
}

// castable is a tensor whose elements every type can hold.
func castable(d *dice, dt ndarray.DType) arg { return tensor(dt, d.shape(0, 3)...).between(0, 100) }

func (d *dice) integer() ndarray.DType {
	for {
		if dt := d.number(); dt.IsInteger() {
			return dt
		}
	}
}

// several makes one to four operands that broadcast.
func (d *dice) several(tol float64) opCase {
	s := d.shape(0, 4)
	k := opCase{in: []arg{f32s(s...)}, tol: tol}
	for range d.Intn(4) {
		k.in = append(k.in, d.fixed(f32s(d.partner(s)...)))
	}
	d.Shuffle(len(k.in), func(i, j int) { k.in[i], k.in[j] = k.in[j], k.in[i] })
	return k
}

// ints64 are the dimensions as int64.
func ints64(s []int) []int64 {
	out := make([]int64, len(s))
	for i, n := range s {
		out[i] = int64(n)
	}
	return slices.Clip(out)
}
