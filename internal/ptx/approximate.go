package ptx

import "math"

// Errors of approximate instructions. The PTX ISA states how wrong a result may be, and each GPU is wrong in its own way. A program that is compiled
// with [Options].Errors gives results that are as wrong as that: an operand has the error upwards or downwards, always the same, by a hash.
//
//	      exact - error      exact      exact + error
//	───────┤····|····|····|····┼····|····|····|····├──── floats
//	            ▲ downwards                   ▲ upwards, the last float within
//
// Where a result has no error by the ISA's tables of special operands, it has none here: zeros, infinities, not-a-number, and two to the power of 0.

// Options are what a program is compiled with.
type Options struct {
	Errors uint64 // 0: results of approximate instructions are rounded once; else they are wrong, in directions that are drawn by this number
}

// errorOf is how wrong y, the approximate function of x, may be. PTX ISA 8.1, and later editions where these state more, in the sections of the
// instructions. For div, x is the quotient.
func errorOf(name string, t Type, x, y float64) float64 {
	_, exponent := math.Frexp(x) // x is below 2 to this power, and at least half of that
	switch name {
	case "div": // 2 units in the last place
		_, exponent = math.Frexp(y)
		return math.Ldexp(2, exponent-24)
	case "rcp": // 2^-23 where operands are from 1 to 2
		return math.Ldexp(0x1p-23, 1-exponent)
	case "sqrt":
		return 0x1p-23 * math.Abs(y)
	case "rsqrt": // 2^-22.9 where operands are from 1 to 4
		return math.Exp2(-22.9) * math.Ldexp(1, -((exponent-1)>>1))
	case "lg2":
		return 0x1p-22 * max(1, math.Abs(y))
	case "sin", "cos": // for operands of up to 2π; the ISA states nothing for others
		return math.Exp2(-20.5) * max(1, math.Abs(x)/(2*math.Pi))
	}
	relative := map[string]map[Type]float64{
		"ex2":  {F32: 0x1p-22, F16: math.Exp2(-9.9), BF16: 0x1p-7},
		"tanh": {F32: 0x1p-11, F16: math.Exp2(-10.987), BF16: 0x1p-8},
	}[name]
	return relative[t.part()] * math.Abs(y)
}

// part is the type of an element of a packed type.
func (t Type) part() Type {
	switch t {
	case F16x2:
		return F16
	case BF16x2:
		return BF16
	}
	return t
}

// isUpwards draws a direction.
func (o Options) isUpwards(name string, a, b float64) bool {
	const prime = 0x9e3779b97f4a7c15
	h := o.Errors
	for _, v := range []uint64{uint64(len(name))<<8 | uint64(name[0]), math.Float64bits(a), math.Float64bits(b)} {
		h = (h ^ v) * prime
		h ^= h >> 32
	}
	return h>>63 != 0
}

// wrong is an approximate function of one operand, or the quotient of two, with its error.
func (o Options) wrong(name string, t Type, f func(a, b, c float64) float64) func(a, b, c float64) float64 {
	round := formats[t.part()].round
	if t == F32 {
		round = func(v float64, m mode) float64 { return float64(round32(v, m)) }
	}
	return func(a, b, c float64) float64 {
		y := f(a, b, c)
		isExact := a == 0 && name != "lg2" || y == 0 || math.IsInf(y, 0) || math.IsNaN(y) || math.IsInf(a, 0) || name == "div" && math.IsInf(b, 0)
		if isExact {
			return y
		}
		if e := errorOf(name, t, a, y); o.isUpwards(name, a, b) {
			return max(round(y+e, downwards), round(y, toNearest))
		} else {
			return min(round(y-e, upwards), round(y, toNearest))
		}
	}
}

// wrongHalf is the upper half of a float64, as rcp and rsqrt with .approx.ftz give it, with an error of one unit.
func (o Options) wrongHalf(name string, a, y uint64) uint64 {
	const exponent = 0x7ff << 52
	if v := math.Float64frombits(a); v == 0 || math.IsInf(v, 0) || y&exponent == exponent || y&exponent == 0 {
		return y
	}
	if o.isUpwards(name, math.Float64frombits(a), 0) {
		return y + 1<<32
	}
	return y - 1<<32
}
