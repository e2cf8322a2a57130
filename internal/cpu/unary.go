package cpu

import (
	"cmp"
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Elementwise functions of one operand. On float32 the vector kernels of package vec
// compute those it has; all others, and those on float64, are computed element by
// element in float64.

// unary is a function with up to two parameters.
type unary struct {
	f32    simd.UnaryOp // noUnary: f64 serves float32, too
	f64    func(x, p0, p1 float64) float64
	p0, p1 float64
}

// noUnary says that package vec does not have the function.
const noUnary = simd.UnaryOp(255)

var unaryOps = []entry{
	{op: "Neg", prepare: signed(plain(simd.Neg, func(x float64) float64 { return -x }), intNeg)},
	{op: "Abs", prepare: signed(plain(simd.Abs, math.Abs), intAbs)},
	{op: "Sign", prepare: signed(plain(noUnary, sign64), intSign)},
	{op: "Relu", prepare: signed(plain(simd.Relu, relu64), intRelu)},
	{op: "Sqrt", prepare: plain(simd.Sqrt, math.Sqrt)},
	{op: "Reciprocal", prepare: plain(simd.Recip, func(x float64) float64 { return 1 / x })},
	{op: "Floor", prepare: plain(simd.Floor, math.Floor)},
	{op: "Ceil", prepare: plain(simd.Ceil, math.Ceil)},
	{op: "Round", prepare: plain(simd.Round, math.RoundToEven)},
	{op: "Exp", prepare: plain(simd.Exp, kit.Exp)},
	{op: "Log", prepare: plain(simd.Log, kit.Log)},
	{op: "Tanh", prepare: plain(simd.Tanh, math.Tanh)},
	{op: "Sigmoid", prepare: plain(simd.Sigmoid, kit.Sigmoid)},
	{op: "Erf", prepare: plain(simd.Erf, math.Erf)},
	{op: "HardSwish", prepare: plain(simd.HardSwish, func(x float64) float64 { return x * simd.ClampNaN(x/6+0.5, 0, 1) })},
	{op: "Softplus", prepare: plain(simd.Softplus, kit.Softplus)},
	{op: "Softsign", prepare: plain(simd.Softsign, func(x float64) float64 { return x / (1 + math.Abs(x)) })},
	{op: "Mish", prepare: plain(simd.Mish, func(x float64) float64 { return x * math.Tanh(kit.Softplus(x)) })},
	{op: "Sin", prepare: plain(noUnary, math.Sin)},
	{op: "Cos", prepare: plain(noUnary, math.Cos)},
	{op: "Tan", prepare: plain(noUnary, math.Tan)},
	{op: "Asin", prepare: plain(noUnary, math.Asin)},
	{op: "Acos", prepare: plain(noUnary, math.Acos)},
	{op: "Atan", prepare: plain(noUnary, math.Atan)},
	{op: "Sinh", prepare: plain(noUnary, kit.Sinh)},
	{op: "Cosh", prepare: plain(noUnary, kit.Cosh)},
	{op: "Asinh", prepare: plain(noUnary, math.Asinh)},
	{op: "Acosh", prepare: plain(noUnary, math.Acosh)},
	{op: "Atanh", prepare: plain(noUnary, math.Atanh)},
	{op: "LeakyRelu", prepare: withParams(simd.LeakyRelu, leakyRelu64, "alpha", "")},
	{op: "HardSigmoid", prepare: withParams(simd.HardSigmoid, hardSigmoid64, "alpha", "beta")},
	{op: "Elu", prepare: withParams(simd.Elu, elu64, "alpha", "")},
	{op: "Swish", prepare: withParams(simd.Silu, swish64, "alpha", "")},
	{op: "Celu", prepare: withParams(noUnary, celu64, "alpha", "")},
	{op: "Selu", prepare: withParams(noUnary, selu64, "alpha", "gamma")},
	{op: "ThresholdedRelu", prepare: withParams(noUnary, thresholdedRelu64, "alpha", "")},
	{op: "Shrink", prepare: withParams(noUnary, kit.Shrunk, "lambd", "bias")},
	{op: "Gelu", prepare: prepareGelu},
	{domain: microsoft, op: "Gelu", prepare: plain(simd.Gelu, kit.Gelu)},
	{domain: microsoft, op: "QuickGelu", prepare: withParams(simd.Silu, swish64, "alpha", "")},
	{op: "Clip", prepare: prepareClip},
	{op: "Not", prepare: prepareNot},
	{op: "BitwiseNot", prepare: prepareBitwiseNot},
	{op: "IsNaN", prepare: prepareIsNaN},
	{op: "IsInf", prepare: prepareIsInf},
}

// microsoft is the domain of the operators that ONNX Runtime adds.
const microsoft = "com.microsoft"

// plain prepares a function without parameters.
//
//go:noinline
func plain(op simd.UnaryOp, f func(float64) float64) func(*prep) (ops.Kernel, error) {
	u := unary{f32: op, f64: func(x, _, _ float64) float64 { return f(x) }}
	return func(p *prep) (ops.Kernel, error) { return newUnary(p, u), nil }
}

// withParams prepares a function with parameters from float attributes.
//
//go:noinline
func withParams(op simd.UnaryOp, f func(x, p0, p1 float64) float64, a0, a1 string) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		return newUnary(p, unary{op, f, float64(ops.Float(p.node, a0)), float64(ops.Float(p.node, a1))}), nil
	}
}

func prepareGelu(p *prep) (ops.Kernel, error) {
	switch ops.Str(p.node, "approximate") {
	case "none":
		return plain(simd.Gelu, kit.Gelu)(p)
	case "tanh":
		return plain(simd.GeluTanh, kit.GeluTanh)(p)
	}
	return nil, nil
}

// newUnary chooses the element type; nil if it is no float of 32 or 64 bits.
func newUnary(p *prep, u unary) ops.Kernel {
	if p.in[0].dt != p.out[0].dt || p.in[0].n != p.out[0].n {
		return nil
	}
	switch {
	case p.in[0].dt == ndarray.Float32 && u.f32 != noUnary:
		p0, p1 := float32(u.p0), float32(u.p1)
		return elementwise(p.in[0].n, TileElems, func(c *ops.Call, lo, hi int) {
			vec.Unary(u.f32, f32(c.Out[0])[lo:hi], f32(c.In[0])[lo:hi], p0, p1)
		})
	case p.in[0].dt == ndarray.Float32:
		return unaryScalar[float32](p, u)
	case p.in[0].dt == ndarray.Float64:
		return unaryScalar[float64](p, u)
	}
	return nil
}

// unaryScalar computes a Go function element by element.
func unaryScalar[T float32 | float64](p *prep, u unary) ops.Kernel {
	return elementwise(p.in[0].n, TileElems, func(c *ops.Call, lo, hi int) {
		dst := elems[T](c.Out[0])[lo:hi]
		for i, x := range elems[T](c.In[0])[lo:hi] {
			dst[i] = T(u.f64(float64(x), u.p0, u.p1))
		}
	})
}

func relu64(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

func sign64(x float64) float64 {
	if x != x {
		return x
	}
	return float64(cmp.Compare(x, 0))
}

func leakyRelu64(x, alpha, _ float64) float64 {
	if x < 0 {
		return alpha * x
	}
	return x
}

func hardSigmoid64(x, alpha, beta float64) float64 { return simd.ClampNaN(alpha*x+beta, 0, 1) }

func elu64(x, alpha, _ float64) float64 {
	if x < 0 {
		return alpha * math.Expm1(x)
	}
	return x
}

func swish64(x, alpha, _ float64) float64 { return x * kit.Sigmoid(alpha*x) }

func celu64(x, alpha, _ float64) float64 {
	return math.Max(0, x) + math.Min(0, alpha*math.Expm1(x/alpha))
}

func selu64(x, alpha, gamma float64) float64 {
	if x > 0 {
		return gamma * x
	}
	return gamma * alpha * math.Expm1(x)
}

func thresholdedRelu64(x, alpha, _ float64) float64 {
	if x > alpha {
		return x
	}
	return 0
}
