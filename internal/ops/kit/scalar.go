package kit

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Sigmoid is 1/(1+e⁻ˣ). For large -x the exponential overflows to infinity and
// the quotient is 0, as it should be.
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Clamp01 limits x to [0, 1]; NaN stays.
func Clamp01(x float64) float64 { return max(0, min(1, x)) }

// Softplus is ln(1+eˣ), arranged so that nothing overflows:
// max(x, 0) + ln(1 + e^-|x|).
func Softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// Exp is eˣ. [math.Exp] has assembly that is infinite from 709.44 on, where e⁷⁰⁹·⁷ is finite; so have Sinh and Cosh, which use it.
func Exp(x float64) float64 {
	if x > 709 {
		return math.Exp(x-1) * math.E
	}
	return math.Exp(x)
}

// Sinh is (eˣ - e⁻ˣ) / 2.
func Sinh(x float64) float64 {
	if math.Abs(x) > 709 {
		return math.Copysign(Cosh(x), x)
	}
	return math.Sinh(x)
}

// Cosh is (eˣ + e⁻ˣ) / 2, and eˣ / 2 where the other term is nothing beside it.
func Cosh(x float64) float64 {
	if x = math.Abs(x); x > 709 {
		return math.Exp(x-2) * (math.E * math.E / 2)
	}
	return math.Cosh(x)
}

// Log is ln(x). [math.Log] has assembly that takes the exponent of a subnormal number for that of the smallest normal one.
func Log(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// Gelu uses erfc, which keeps its digits where 1+erf would cancel.
func Gelu(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }

// GeluTanh is the approximation of gelu by tanh.
func GeluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// Btoi is 1 for true and 0 for false.
func Btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// RoundTo rounds values to a narrower float type; no-op where T is no wider.
func RoundTo[T RealNum](c *ops.Call, v []T, dt ndarray.DType) {
	var f func(float32) float32
	switch {
	case dt == ndarray.Float16:
		f = func(x float32) float32 { return ndarray.F16ToF32(ndarray.F32ToF16(x)) }
	case dt == ndarray.BFloat16:
		f = func(x float32) float32 { return ndarray.BF16ToF32(ndarray.F32ToBF16(x)) }
	case dt == ndarray.Float32 && ndarray.DTypeOf(T(0)) == ndarray.Float64:
		f = func(x float32) float32 { return x }
	default:
		return
	}
	w := Watching(c)
	for i, x := range v {
		w.Did(1)
		v[i] = T(f(float32(x)))
	}
}

// Shrunk is x moved towards 0 by bias, 0 where it is no further from there than lambd.
func Shrunk(x, lambd, bias float64) float64 {
	switch {
	case x < -lambd:
		return x + bias
	case x > lambd:
		return x - bias
	}
	return 0
}

// Reflected folds a coordinate back at the borders lo and hi until it is inside.
func Reflected(v, lo, hi float64) float64 {
	span := hi - lo
	if span <= 0 {
		return lo
	}
	d := math.Mod(math.Abs(v-lo), 2*span)
	return lo + min(d, 2*span-d)
}

// OddFloat32 rounds to float32 "to odd": an inexact result gets an odd last bit,
// so that rounding it again to a narrower type gives what rounding v directly
// would. Source: S. Boldo, G. Melquiond, "Emulation of a FMA and correctly
// rounded sums: proved algorithms using rounding to odd", 2008.
func OddFloat32(v float64) float32 {
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
