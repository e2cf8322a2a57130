package oracle

import (
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// broadcastForms are operand shapes with a special path each, and some without.
var broadcastForms = [][2][]int{
	{{3, 5}, {3, 5}},
	{{7, 37}, {}},
	{{}, {7, 37}},
	{{4, 33}, {33}},
	{{4, 33}, {4, 1}},
	{{4, 1}, {1, 33}},
	{{2, 3, 17}, {3, 1}},
	{{2, 3, 4, 5}, {1, 3, 1, 1}},
	{{2, 3, 4, 5}, {2, 1, 4, 1}},
	{{2, 1, 4, 1}, {1, 3, 1, 5}},
	{{3, 40000}, {3, 1}},
	{{300, 200}, {200}},
	{{2, 5000, 3}, {2, 1, 3}},
	{{1}, {1}},
}

func TestBinary(t *testing.T) {
	for _, f := range broadcastForms {
		a, b := f32s(f[0]...), f32s(f[1]...)
		runCases(t, []opCase{
			{op: "Add", in: []arg{a.odd(), b.odd()}},
			{op: "Sub", in: []arg{a, b}},
			{op: "Mul", in: []arg{a, b.odd()}},
			{op: "Div", in: []arg{a.odd(), b}, tol: 1e-6},
			{op: "Max", in: []arg{a.odd(), b.odd()}},
			{op: "Min", in: []arg{a.odd(), b.odd()}},
			{op: "Add", in: []arg{tensor(ndarray.Int64, f[0]...), tensor(ndarray.Int64, f[1]...)}},
			{op: "Less", in: []arg{a.odd(), b.odd()}},
			{op: "And", in: []arg{boolean(f[0]...), boolean(f[1]...)}},
		})
	}
	for _, dt := range []ndarray.DType{ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Int16, ndarray.Int8, ndarray.Uint64, ndarray.Uint32, ndarray.Uint16, ndarray.Uint8} {
		x, y := tensor(dt, 3, 1, 5), tensor(dt, 1, 4, 5)
		positive := y.between(1, 100)
		runCases(t, []opCase{
			{op: "Add", in: []arg{x, y}}, {op: "Sub", in: []arg{x, y}}, {op: "Mul", in: []arg{x, y}},
			{op: "Div", in: []arg{x, positive}}, {op: "Max", in: []arg{x, y}}, {op: "Min", in: []arg{x, y}},
			{op: "Mod", in: []arg{x, positive}, attrs: []ssa.Attr{ssa.IntAttr("fmod", 1)}},
			{op: "Mod", in: []arg{x, positive}}, {op: "PRelu", in: []arg{tensor(dt, 3, 5), tensor(dt, 5)}},
			{op: "Equal", in: []arg{x.between(0, 3), y.between(0, 3)}}, {op: "Greater", in: []arg{x, y}},
			{op: "GreaterOrEqual", in: []arg{x.between(0, 3), y.between(0, 3)}}, {op: "LessOrEqual", in: []arg{x.between(0, 3), y}},
		})
		if dt.IsSigned() && dt.IsInteger() {
			runCases(t, []opCase{
				{op: "BitShift", name: "counts below 0", in: []arg{x, y.between(-70, 70)}, attrs: []ssa.Attr{ssa.StringAttr("direction", "LEFT")}},
				{op: "BitShift", name: "counts below 0", in: []arg{x, y.between(-70, 70)}, attrs: []ssa.Attr{ssa.StringAttr("direction", "RIGHT")}},
			})
		}
		if dt.IsInteger() {
			runCases(t, []opCase{
				{op: "BitwiseAnd", in: []arg{x, y}}, {op: "BitwiseOr", in: []arg{x, y}}, {op: "BitwiseXor", in: []arg{x, y}}, {op: "BitwiseNot", in: []arg{x}},
				{op: "BitShift", in: []arg{x, y.between(0, 70)}, attrs: []ssa.Attr{ssa.StringAttr("direction", "LEFT")}},
				{op: "BitShift", in: []arg{x, y.between(0, 70)}, attrs: []ssa.Attr{ssa.StringAttr("direction", "RIGHT")}},
				{op: "Div", name: "by zero", in: []arg{x, scalarOf(dt, 0)}, fails: true},
			})
		}
	}
	runCases(t, []opCase{
		{op: "Mod", in: []arg{f32s(4, 5), f32s(5)}},
		{op: "Mod", in: []arg{f32s(4, 5), f32s(5)}, attrs: []ssa.Attr{ssa.IntAttr("fmod", 1)}},
		{op: "Or", in: []arg{boolean(4, 5), boolean(5)}}, {op: "Xor", in: []arg{boolean(4, 5), boolean(4, 1)}},
		{op: "PRelu", in: []arg{f32s(2, 3, 8, 9).odd(), f32s(3, 1, 1).c()}},
		{op: "Add", name: "constant", in: []arg{f32s(2, 3, 8, 9), f32s(3, 1, 1).c()}},
		{op: "Add", name: "splat", in: []arg{f32s(20, 30), f32s(20, 30).asSplat()}},
		{op: "Add", name: "half", in: []arg{tensor(ndarray.Float16, 3), tensor(ndarray.Float16, 3)}},
		{op: "Equal", in: []arg{boolean(9), boolean(9)}},
	})
}

func TestBinaryRandom(t *testing.T) {
	runRandom(t, 150, func(r *rand.Rand) opCase {
		out := randomShape(r, 1+r.Intn(5), 5)
		drop := func() []int {
			s := append([]int(nil), out[r.Intn(len(out)+1):]...)
			for i := range s {
				if r.Intn(3) == 0 {
					s[i] = 1
				}
			}
			return s
		}
		dt := pick(r, ndarray.Float32, ndarray.Float32, ndarray.Int32, ndarray.Float64)
		return opCase{op: pick(r, "Add", "Sub", "Mul", "Max", "Greater"), in: []arg{tensor(dt, drop()...), tensor(dt, drop()...)}}
	})
}

func TestPow(t *testing.T) {
	x := f32s(3, 50).between(0.1, 3)
	runCases(t, []opCase{
		{op: "Pow", in: []arg{x, f32s(50)}, tol: 1e-6},
		{op: "Pow", in: []arg{f32s(90).odd(), f32s(90).odd()}, tol: 1e-6},
		{op: "Pow", in: []arg{tensor(ndarray.Float64, 4, 5), scalarOf(ndarray.Float64, 2)}},
		{op: "Pow", in: []arg{f32s(4, 5), scalarOf(ndarray.Int64, 2)}, tol: 1e-6},
		{op: "Pow", in: []arg{x, scalarOf(ndarray.Float32, 1.7)}, tol: 1e-6},
	})
	for _, e := range []float64{0, 0.5, 1, 2, 3, -1, -0.5} {
		runCases(t, []opCase{{op: "Pow", in: []arg{f32s(4, 50).odd(), scalarOf(ndarray.Float32, e)}, tol: 1e-6}})
	}
}

func TestUnary(t *testing.T) {
	unit := f32s(200).between(-1, 1)
	for _, op := range []string{"Neg", "Abs", "Sign", "Relu", "Reciprocal", "Floor", "Ceil", "Round", "Exp", "Tanh", "Sigmoid", "Erf",
		"HardSwish", "Softplus", "Softsign", "Mish", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "LeakyRelu", "HardSigmoid", "Elu",
		"Swish", "Celu", "Selu", "ThresholdedRelu", "Shrink", "Gelu"} {
		runCases(t, []opCase{
			{op: op, in: []arg{f32s(3, 41)}, tol: 2e-6},
			{op: op, in: []arg{f32s(40000).between(-6, 6)}, tol: 2e-6},
			{op: op, name: "odd", in: []arg{f32s(77).odd()}, tol: 2e-6},
			{op: op, in: []arg{tensor(ndarray.Float64, 7)}, tol: 1e-12},
		})
	}
	for _, op := range []string{"Asin", "Acos", "Atanh"} {
		runCases(t, []opCase{{op: op, in: []arg{unit}, tol: 2e-6}})
	}
	for _, op := range []string{"Sqrt", "Log", "Acosh"} {
		runCases(t, []opCase{{op: op, in: []arg{f32s(300).between(-1, 4)}, tol: 2e-6}})
	}
	for _, dt := range []ndarray.DType{ndarray.Int64, ndarray.Int32, ndarray.Int16, ndarray.Int8} {
		for _, op := range []string{"Neg", "Abs", "Sign", "Relu"} {
			runCases(t, []opCase{{op: op, in: []arg{tensor(dt, 50)}}})
		}
	}
	attr := func(k string, v float32) ssa.Attr { return ssa.FloatAttr(k, v) }
	runCases(t, []opCase{
		{op: "LeakyRelu", in: []arg{f32s(50)}, attrs: []ssa.Attr{attr("alpha", 0.3)}},
		{op: "Elu", in: []arg{f32s(50)}, attrs: []ssa.Attr{attr("alpha", 0.3)}, tol: 1e-6},
		{op: "HardSigmoid", in: []arg{f32s(50)}, attrs: []ssa.Attr{attr("alpha", 0.3), attr("beta", 0.1)}, tol: 1e-6},
		{op: "Swish", in: []arg{f32s(50)}, attrs: []ssa.Attr{attr("alpha", 1.3)}, tol: 1e-6},
		{op: "Gelu", in: []arg{f32s(50)}, attrs: []ssa.Attr{ssa.StringAttr("approximate", "tanh")}, tol: 1e-6},
		{op: "Gelu", domain: microsoft, in: []arg{f32s(50)}, tol: 1e-6},
		{op: "QuickGelu", domain: microsoft, in: []arg{f32s(50)}, tol: 1e-6},
		{op: "Not", in: []arg{boolean(50)}},
		{op: "IsNaN", in: []arg{f32s(50).odd()}},
		{op: "IsInf", in: []arg{f32s(50).odd()}},
		{op: "IsInf", in: []arg{tensor(ndarray.Float64, 50).odd()}, attrs: []ssa.Attr{ssa.IntAttr("detect_negative", 0)}},
	})
}

func TestClip(t *testing.T) {
	f := ndarray.Float32
	runCases(t, []opCase{
		{op: "Clip", in: []arg{f32s(100).odd(), scalarOf(f, -0.5), scalarOf(f, 0.25)}},
		{op: "Clip", in: []arg{f32s(100).odd(), scalarOf(f, 0.5), scalarOf(f, 0.25)}},
		{op: "Clip", in: []arg{f32s(100), f32s(), absent}},
		{op: "Clip", in: []arg{f32s(100), absent, f32s()}},
		{op: "Clip", in: []arg{f32s(100).odd()}},
		{op: "Clip", in: []arg{tensor(ndarray.Int64, 100), scalarOf(ndarray.Int64, -5), absent}},
		{op: "Clip", in: []arg{tensor(ndarray.Uint8, 100), scalarOf(ndarray.Uint8, 9), scalarOf(ndarray.Uint8, 99)}},
		{op: "Clip", in: []arg{tensor(ndarray.Float64, 100).odd(), scalarOf(ndarray.Float64, 0), absent}},
	})
}

func TestWhere(t *testing.T) {
	runCases(t, []opCase{
		{op: "Where", in: []arg{boolean(3, 5), f32s(3, 5).odd(), f32s(3, 5)}},
		{op: "Where", in: []arg{boolean(2, 1, 9, 9), f32s(2, 4, 9, 9), scalarOf(ndarray.Float32, -1e9)}},
		{op: "Where", in: []arg{boolean(3, 1), f32s(), f32s(1, 5)}},
		{op: "Where", in: []arg{boolean(), f32s(1, 5), f32s(4, 1)}},
		{op: "Where", in: []arg{boolean(3, 1), boolean(3, 5), boolean(5)}},
		{op: "Where", in: []arg{boolean(3, 5), tensor(ndarray.Int64, 5), tensor(ndarray.Int64, 3, 1)}},
		{op: "Where", in: []arg{boolean(70000), tensor(ndarray.Float16, 1), tensor(ndarray.Float16, 70000)}},
		{op: "Where", in: []arg{boolean(5), tensor(ndarray.Complex128, 5), tensor(ndarray.Complex128, 5)}},
	})
}

func TestCast(t *testing.T) {
	types := []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Int16, ndarray.Int8,
		ndarray.Uint64, ndarray.Uint32, ndarray.Uint16, ndarray.Uint8, ndarray.Bool}
	to := func(dt ndarray.DType) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("to", int64(dt))} }
	for _, from := range types {
		for _, dt := range types {
			if from.IsFloat() && dt == ndarray.Uint64 {
				continue
			}
			x := tensor(from, 40)
			if from.IsFloat() {
				x = x.between(-300, 300)
			}
			runCases(t, []opCase{{op: "Cast", in: []arg{x}, attrs: to(dt)}})
		}
	}
	for _, half := range []ndarray.DType{ndarray.Float16, ndarray.BFloat16} {
		runCases(t, []opCase{
			{op: "Cast", in: []arg{f32s(100).odd()}, attrs: to(half)},
			{op: "Cast", in: []arg{f32s(100).between(-1e6, 1e6)}, attrs: to(half)},
			{op: "Cast", in: []arg{tensor(half, 100).odd()}, attrs: to(ndarray.Float32)},
		})
	}
	runCases(t, []opCase{
		{op: "Cast", in: []arg{f32s(100).odd()}, attrs: to(ndarray.Int64)},
		{op: "Cast", in: []arg{f32s(100).odd()}, attrs: to(ndarray.Bool)},
		{op: "CastLike", in: []arg{f32s(100), tensor(ndarray.Int32, 1)}},
	})
}

func TestVariadic(t *testing.T) {
	for _, op := range []string{"Sum", "Mean", "Max", "Min"} {
		runCases(t, []opCase{
			{op: op, in: []arg{f32s(3, 5)}},
			{op: op, in: []arg{f32s(3, 5), f32s(3, 5)}, tol: 1e-6},
			{op: op, in: []arg{f32s(3, 5), f32s(3, 5), f32s(3, 5), f32s(3, 5)}, tol: 1e-6},
			{op: op, in: []arg{f32s(5), f32s(3, 1), f32s(), f32s(2, 3, 5)}, tol: 1e-6},
			{op: op, in: []arg{f32s(70, 500), f32s(70, 1), f32s(500)}, tol: 1e-6},
			{op: op, in: []arg{f32s(3, 3000), f32s(3, 1), f32s(3000)}, tol: 1e-6},
		})
	}
}
