package simd

import (
	"math"
	"unsafe"
)

// Elementwise functions in plain Go. Transcendental functions are computed in
// float64 and rounded once, so this file is also the reference that the vector
// kernels are measured against.

// UnaryGeneric applies op to every element; in place allowed.
func UnaryGeneric(op UnaryOp, dst, src []float32, p0, p1 float32) {
	dst = dst[:len(src)]
	switch op {
	case Identity:
		copy(dst, src)
	case Relu:
		clipGeneric(dst, src, 0, float32(math.Inf(1)))
	case Clip:
		clipGeneric(dst, src, p0, p1)
	case LeakyRelu:
		for i, x := range src {
			if x < 0 {
				x *= p0
			}
			dst[i] = x
		}
	case Neg:
		for i, x := range src {
			dst[i] = -x
		}
	case Abs:
		for i, x := range src {
			dst[i] = math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
		}
	case Sqrt:
		for i, x := range src {
			dst[i] = float32(math.Sqrt(float64(x)))
		}
	case Recip:
		for i, x := range src {
			dst[i] = 1 / x
		}
	case Square:
		for i, x := range src {
			dst[i] = x * x
		}
	case HardSigmoid:
		for i, x := range src {
			dst[i] = ClampNaN(p0*x+p1, 0, 1)
		}
	case HardSwish:
		for i, x := range src {
			dst[i] = x * ClampNaN(x*(1.0/6)+0.5, 0, 1)
		}
	case Softsign:
		for i, x := range src {
			dst[i] = softsign(x)
		}
	default:
		f := Unary64[op]
		for i, x := range src {
			dst[i] = float32(f(float64(x), float64(p0)))
		}
	}
}

func clipGeneric(dst, src []float32, lo, hi float32) {
	for i, x := range src {
		dst[i] = ClampNaN(x, lo, hi)
	}
}

func softsign(x float32) float32 {
	return x / (1 + float32(math.Abs(float64(x))))
}

// Unary64 holds the functions computed in float64.
var Unary64 = [NumUnary]func(x, p float64) float64{
	Floor:   func(x, _ float64) float64 { return math.Floor(x) },
	Ceil:    func(x, _ float64) float64 { return math.Ceil(x) },
	Round:   func(x, _ float64) float64 { return math.RoundToEven(x) },
	Exp:     func(x, _ float64) float64 { return math.Exp(x) },
	Log:     func(x, _ float64) float64 { return math.Log(x) },
	Tanh:    func(x, _ float64) float64 { return math.Tanh(x) },
	Sigmoid: func(x, _ float64) float64 { return sigmoid64(x) },
	Erf:     func(x, _ float64) float64 { return math.Erf(x) },
	Gelu:    gelu64,
	GeluTanh: func(x, _ float64) float64 {
		// (1 + tanh u)/2 is sigmoid(2u), which does not cancel.
		u := math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x)
		return x * sigmoid64(2*u)
	},
	Silu:     func(x, p float64) float64 { return x * sigmoid64(p*x) },
	Softplus: softplus64,
	Elu: func(x, p float64) float64 {
		if x < 0 {
			return p * math.Expm1(x)
		}
		return x
	},
	Mish: func(x, _ float64) float64 { return x * math.Tanh(softplus64(x, 0)) },
}

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func gelu64(x, _ float64) float64 { return x * (0.5 * math.Erfc(-x/math.Sqrt2)) }

func softplus64(x, _ float64) float64 {
	return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
}

// binaryGeneric is dst = a op b; in place allowed.
func binaryGeneric(op BinaryOp, dst, a, b []float32) {
	dst, b = dst[:len(a)], b[:len(a)]
	switch op {
	case Add:
		for i, x := range a {
			dst[i] = x + b[i]
		}
	case Sub:
		for i, x := range a {
			dst[i] = x - b[i]
		}
	case Mul:
		for i, x := range a {
			dst[i] = x * b[i]
		}
	case Div:
		for i, x := range a {
			dst[i] = x / b[i]
		}
	default:
		for i, x := range a {
			dst[i] = Binary1(op, x, b[i])
		}
	}
}

// binaryScalarGeneric is dst = a op s; in place allowed.
func binaryScalarGeneric(op BinaryOp, dst, a []float32, s float32) {
	for i, x := range a {
		dst[i] = Binary1(op, x, s)
	}
}

// scalarBinaryGeneric is dst = s op b; in place allowed.
func scalarBinaryGeneric(op BinaryOp, dst []float32, s float32, b []float32) {
	for i, x := range b {
		dst[i] = Binary1(op, s, x)
	}
}

// Binary1 is one operation.
func Binary1(op BinaryOp, a, b float32) float32 {
	switch op {
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	case Div:
		return a / b
	case Max:
		return max(a, b)
	case Min:
		return min(a, b)
	case PRelu:
		if a < 0 {
			return a * b
		}
	}
	return a
}

func subSubGeneric(dst, src *float32, n int, p0, p1 float32) {
	d, s := unsafe.Slice(dst, n), unsafe.Slice(src, n)
	for i, x := range s {
		d[i] = x - p0 - p1
	}
}

func subMulGeneric(dst, src *float32, n int, p0, p1 float32) {
	d, s := unsafe.Slice(dst, n), unsafe.Slice(src, n)
	for i, x := range s {
		d[i] = (x - p0) * p1
	}
}

func mulAddGeneric(dst, src *float32, n int, p0, p1 float32) {
	d, s := unsafe.Slice(dst, n), unsafe.Slice(src, n)
	for i, x := range s {
		d[i] = x*p0 + p1
	}
}

func mulAddRowsGeneric(dst, a, b, c *float32, n int) {
	d, x, y, z := unsafe.Slice(dst, n), unsafe.Slice(a, n), unsafe.Slice(b, n), unsafe.Slice(c, n)
	for i := range d {
		d[i] = x[i]*y[i] + z[i]
	}
}

func repeatEachGeneric(dst, src *float32, n, times int) {
	d := unsafe.Slice(dst, n*times)
	for i, x := range unsafe.Slice(src, n) {
		for j := range times {
			d[i*times+j] = x
		}
	}
}
