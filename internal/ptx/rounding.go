package ptx

import "math"

// Rounding to the formats that Go has no arithmetic for, and in the directions it has none for.
//
// An exact result is first brought into a float64 that is rounded to odd: cut, its last bit set if anything was lost. Rounding that
// to a format with at least two bits less gives, in any direction, what rounding the exact result would (Boldo, Melquiond:
// Emulation of FMA and correctly rounded sums, 2008).

// mode is a direction of rounding.
type mode string

const (
	toNearest mode = "rn" // ties to even
	toZero    mode = "rz"
	downwards mode = "rm"
	upwards   mode = "rp"
	tiesAway  mode = "rna"
)

// sumOdd is a+b rounded to odd. The error of the sum is Knuth's TwoSum.
func sumOdd(a, b float64) float64 {
	s := a + b
	if math.IsInf(s, 0) || math.IsNaN(s) {
		return s
	}
	t := s - a
	return odd(s, (a-(s-t))+(b-t))
}

// odd moves a value rounded to nearest to the odd neighbour, in the direction of what rounding lost.
func odd(s, lost float64) float64 {
	u := math.Float64bits(s)
	if lost == 0 || u&1 == 1 || math.IsInf(s, 0) || math.IsNaN(lost) {
		return s
	}
	if (lost > 0) == (s > 0) {
		return math.Float64frombits(u + 1)
	}
	return math.Float64frombits(u - 1)
}

// quotientOdd is a/b rounded to odd.
func quotientOdd(a, b float64) float64 {
	q := a / b
	if q == 0 || math.IsInf(q, 0) || math.IsNaN(q) {
		return q
	}
	lost := math.FMA(-q, b, a)
	if b < 0 {
		lost = -lost
	}
	return odd(q, lost)
}

// rootOdd is the square root of a, rounded to odd.
func rootOdd(a float64) float64 {
	r := math.Sqrt(a)
	return odd(r, math.FMA(-r, r, a))
}

// format is a binary floating-point format.
type format struct {
	mantissa  int // bits behind the point
	exponents int // bits
	smallest  int // exponent of the smallest normal number
}

var (
	half   = format{10, 5, -14}
	brain  = format{7, 8, -126}
	single = format{23, 8, -126}
	tensor = format{10, 8, -126}
	double = format{52, 11, -1022}
)

// formats are those of the types with arithmetic.
var formats = map[Type]format{F16: half, BF16: brain, F32: single, F64: double, F16x2: half, BF16x2: brain, TF32: tensor}

// round brings a value into the format; the result is exact as a float64.
func (f format) round(v float64, m mode) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	_, e := math.Frexp(v)
	unit := max(e-1, f.smallest) - f.mantissa
	r := math.Copysign(math.Ldexp(roundWhole(math.Ldexp(v, -unit), m), unit), v)
	most := math.Ldexp(2-math.Ldexp(1, -f.mantissa), 1<<(f.exponents-1)-1)
	if math.Abs(r) > most {
		if m == toZero || m == downwards && v > 0 || m == upwards && v < 0 {
			return math.Copysign(most, v)
		}
		return math.Inf(int(math.Copysign(1, v)))
	}
	return r
}

// round32 rounds a value that was rounded to odd to float32: to nearest, as Go does, and then to the neighbour if that is in the
// direction asked for.
func round32(v float64, m mode) float32 {
	r := float32(v)
	switch at := float64(r); {
	case at > v && (m == downwards || m == toZero && v > 0):
		return math.Nextafter32(r, float32(math.Inf(-1)))
	case at < v && (m == upwards || m == toZero && v < 0):
		return math.Nextafter32(r, float32(math.Inf(1)))
	}
	return r
}

// roundWhole rounds to a whole number.
func roundWhole(v float64, m mode) float64 {
	switch m {
	case toZero:
		return math.Trunc(v)
	case downwards:
		return math.Floor(v)
	case upwards:
		return math.Ceil(v)
	case tiesAway:
		return math.Round(v)
	}
	return math.RoundToEven(v)
}

// encode gives the bits of a value that the format holds, or of not-a-number, which is all ones without the sign.
func (f format) encode(v float64) uint64 {
	top := uint64(1)<<f.exponents - 1
	sign := math.Float64bits(v) >> 63 << (f.mantissa + f.exponents)
	switch {
	case math.IsNaN(v):
		return uint64(1)<<(f.mantissa+f.exponents) - 1
	case math.IsInf(v, 0):
		return sign | top<<f.mantissa
	case v == 0:
		return sign
	}
	_, e := math.Frexp(v)
	unit := max(e-1, f.smallest) - f.mantissa
	digits := uint64(math.Abs(math.Ldexp(v, -unit)))
	if e-1 < f.smallest {
		return sign | digits
	}
	return sign | uint64(e-f.smallest)<<f.mantissa | digits&(1<<f.mantissa-1)
}

// decode gives the value of bits of the format.
func (f format) decode(u uint64) float64 {
	top := uint64(1)<<f.exponents - 1
	e, digits := u>>f.mantissa&top, u&(1<<f.mantissa-1)
	v := 0.0
	switch {
	case e == top && digits != 0:
		return math.NaN()
	case e == top:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(float64(digits), f.smallest-f.mantissa)
	default:
		v = math.Ldexp(float64(digits|1<<f.mantissa), int(e)-1+f.smallest-f.mantissa)
	}
	if u>>(f.mantissa+f.exponents)&1 != 0 {
		return -v
	}
	return v
}

// canonicalNaN is the not-a-number of results in 32 bits.
const canonicalNaN = 0x7fffffff

// bits32 are the bits of a result in 32 bits.
func bits32(v float32) uint64 {
	if v != v {
		return canonicalNaN
	}
	return uint64(math.Float32bits(v))
}

func float32Of(u uint64) float32 { return math.Float32frombits(uint32(u)) }

// flushed replaces a denormal number by zero of its sign.
func flushed(u uint64) uint64 {
	if u&0x7f800000 == 0 {
		return u & (1 << 31)
	}
	return u
}

// fma32 is a*b+c rounded once.
func fma32(a, b, c float32) float32 { return float32(sumOdd(float64(a)*float64(b), float64(c))) }

// mayRoundTwice reports that the float32 r of a float64 s, itself the rounded sum of an exact product and a float32, may not be the
// sum rounded once: that s lies just between two float32s, or r in their denormal range.
func mayRoundTwice(s float64, r float32) bool {
	return math.Float64bits(s)&(1<<29-1) == 1<<28 || r > -0x1p-126 && r < 0x1p-126
}
