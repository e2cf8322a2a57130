package ptx

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instruction is a row: operations on registers %a, %b and %c of a type, a result %d of another, and the formula.
type instruction struct {
	text    string
	in, out Type
	want    func(a, b, c uint64) uint64
}

// kernelOf writes a kernel that applies a text to every element of three arrays of 64 bits.
func kernelOf(text string, in, out Type) string {
	bitsOf := func(t Type) string { return fmt.Sprintf("b%d", 8*t.Size()) }
	return fmt.Sprintf(`.version 8.1
.target sm_80
.address_size 64
.visible .entry test(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{
	.reg .%[2]s %%a, %%b, %%c;
	.reg .%[3]s %%d;
	.reg .pred %%p, %%q;
	.reg .b64 %%x<9>;
	.reg .b32 %%i, %%t<9>;
	.reg .b16 %%h<9>;
	mov.u32 %%i, %%tid.x;
	mul.wide.u32 %%x1, %%i, 8;
	ld.param.u64 %%x2, [pa];
	ld.param.u64 %%x3, [pb];
	ld.param.u64 %%x4, [pc];
	ld.param.u64 %%x5, [pd];
	add.s64 %%x2, %%x2, %%x1;
	add.s64 %%x3, %%x3, %%x1;
	add.s64 %%x4, %%x4, %%x1;
	add.s64 %%x5, %%x5, %%x1;
	ld.global.%[2]s %%a, [%%x2];
	ld.global.%[2]s %%b, [%%x3];
	ld.global.%[2]s %%c, [%%x4];
	%[1]s
	st.global.%[3]s [%%x5], %%d;
	ret;
}
`, text, bitsOf(in), bitsOf(out))
}

// operands draws values of a type: random bits, and the values where arithmetic has its edges.
func operands(rng *rand.Rand, t Type, n int) []uint64 {
	edges := []uint64{0, 1, 2, 3, 31, 32, 33, t.mask(), t.mask() >> 1, t.mask()>>1 + 1, t.mask() - 1}
	switch t {
	case F32:
		for _, v := range []float32{0, 1, -1, 0.5, 1.5, -2.5, 3.4e38, -3.4e38, 1e-45, 1.2e-38, -1e-40, 127.5, 2147483648, 4294967296, 1e10, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
			edges = append(edges, uint64(math.Float32bits(v)))
		}
		edges = append(edges, 0x80000000)
	case F64:
		for _, v := range []float64{0, 1, -1, 0.5, 2.5, 1e308, -1e308, 5e-324, 1e-310, 1e19, 9.3e18, math.Inf(1), math.Inf(-1)} {
			edges = append(edges, math.Float64bits(v))
		}
	case F16:
		edges = append(edges, 0x3c00, 0xbc00, 0x7bff, 0x0001, 0x8001, 0x7c00, 0x3555)
	}
	out := make([]uint64, n)
	for i := range out {
		switch v := rng.Uint64(); {
		case i%3 == 0:
			out[i] = edges[v%uint64(len(edges))]
		case t == F32 && i%3 == 1: // near one another, so that sums do not just take the larger
			out[i] = uint64(math.Float32bits(float32(rng.NormFloat64() * 4)))
		case t == F64 && i%3 == 1:
			out[i] = math.Float64bits(rng.NormFloat64() * 4)
		case t == F16 && i%3 == 1:
			out[i] = v&0x83ff | 0x3000 + v>>20&0x0fff
		case i%3 == 1:
			out[i] = v & t.mask() >> (v >> 58)
		default:
			out[i] = v & t.mask()
		}
	}
	return out
}

func f32(u uint64) float32 { return math.Float32frombits(uint32(u)) }
func f64(u uint64) float64 { return math.Float64frombits(u) }

func u32(v float32) uint64 {
	if v != v {
		return canonicalNaN
	}
	return uint64(math.Float32bits(v))
}

func yes(b bool) uint64 { return map[bool]uint64{true: 1}[b] }

// rounded32 is an exact result in float32, by arithmetic of 600 bits.
func rounded32(m big.RoundingMode, f func(z *big.Float) *big.Float) uint64 {
	z := f(new(big.Float).SetPrec(600))
	if z.IsInf() { // a division by zero is exact
		v, _ := z.Float32()
		return u32(v)
	}
	exact := new(big.Float).SetPrec(24).SetMode(m).Set(z)
	if a, _ := new(big.Float).Abs(z).Float64(); a < 0x1p-126 { // denormal: the unit is fixed
		scaled := new(big.Float).SetPrec(600).SetMantExp(z, 149)
		n, _ := new(big.Float).SetPrec(600).Set(scaled).Int(nil)
		low := new(big.Float).SetPrec(600).SetInt(n)
		rest := new(big.Float).SetPrec(600).Sub(scaled, low)
		up := m == big.ToPositiveInf && rest.Sign() > 0 || m == big.ToNegativeInf && rest.Sign() < 0
		if half := rest.Cmp(big.NewFloat(0.5)); m == big.ToNearestEven {
			minus := rest.Cmp(big.NewFloat(-0.5))
			up = half > 0 || minus < 0 || (half == 0 || minus == 0) && n.Bit(0) == 1
		}
		if up {
			n.Add(n, big.NewInt(int64(rest.Sign())))
		}
		exact = new(big.Float).SetPrec(600).SetMantExp(new(big.Float).SetInt(n), -149)
	}
	v, _ := exact.Float32()
	if z.Signbit() { // a number of big.Int has no negative zero
		v = float32(math.Copysign(float64(v), -1))
	}
	if most, _ := new(big.Float).Abs(exact).Float64(); most > math.MaxFloat32 {
		if v = float32(math.Inf(exact.Sign())); m == big.ToZero || m == big.ToPositiveInf && exact.Sign() < 0 || m == big.ToNegativeInf && exact.Sign() > 0 {
			v = float32(math.Copysign(math.MaxFloat32, float64(exact.Sign())))
		}
	}
	return u32(v)
}

// exactly lifts a formula over finite float32s; others follow Go's arithmetic, where every rounding agrees.
func exactly(m big.RoundingMode, f func(z, a, b, c *big.Float) *big.Float, plain func(a, b, c float64) float64) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		x, y, w := float64(f32(a)), float64(f32(b)), float64(f32(c))
		r := plain(x, y, w)
		if math.IsNaN(w) || math.IsInf(w, 0) { // an operand that the formula ignores, since r is finite
			w = 0
		}
		if math.IsNaN(y) || math.IsInf(y, 0) {
			y = 0
		}
		if math.IsNaN(r) || math.IsInf(r, 0) && !isFinite(a, b, c) || math.IsInf(x, 0) || r == 0 {
			return u32(float32(r))
		}
		return rounded32(m, func(z *big.Float) *big.Float { return f(z, big.NewFloat(x), big.NewFloat(y), big.NewFloat(w)) })
	}
}

// exactly64 is exactly for float64s of normal size; what is denormal, or comes from it, is any number.
func exactly64(m big.RoundingMode, f func(z, a, b, c *big.Float) *big.Float, plain func(a, b, c float64) float64) func(a, b, c uint64) uint64 {
	return func(a, b, _ uint64) uint64 {
		x, y := f64(a), f64(b)
		r := plain(x, y, 0)
		switch {
		case math.Abs(r) < 0x1p-1000 && (r != 0 || x+y != 0 && x != 0 && y != 0 && !math.IsInf(y, 0)):
			return anything
		case math.IsNaN(r) || r == 0 || math.IsInf(x, 0) || math.IsInf(r, 0) && (math.IsInf(y, 0) || y == 0 || x == 0):
			return math.Float64bits(r)
		}
		z := new(big.Float).SetPrec(53).SetMode(m).Set(f(new(big.Float).SetPrec(2400), big.NewFloat(x), big.NewFloat(finite(y)), nil))
		v, _ := z.Float64()
		if math.IsInf(v, 0) && (m == big.ToZero || m == big.ToPositiveInf && v < 0 || m == big.ToNegativeInf && v > 0) {
			v = math.Copysign(math.MaxFloat64, v)
		}
		return math.Float64bits(v)
	}
}

// ofOne is a formula of one operand, the others being one.
func ofOne(f func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	one := math.Float64bits(1)
	return func(a, _, _ uint64) uint64 { return f(a, one, one) }
}

// anything is a result that a row does not state.
const anything = ^uint64(0)

// finite replaces an operand that is no number, which a formula does not read.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func isFinite(list ...uint64) bool {
	for _, u := range list {
		if u&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

func bigAdd(z, a, b, _ *big.Float) *big.Float { return z.Add(a, b) }
func bigMul(z, a, b, _ *big.Float) *big.Float { return z.Mul(a, b) }
func bigDiv(z, a, b, _ *big.Float) *big.Float { return z.Quo(a, b) }
func bigFma(z, a, b, c *big.Float) *big.Float { return z.Add(new(big.Float).SetPrec(600).Mul(a, b), c) }

func integerRows() []instruction {
	return []instruction{
		{"add.s32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 { return uint64(uint32(a) + uint32(b)) }},
		{"add.u16 %d, %a, %b;", U16, U16, func(a, b, _ uint64) uint64 { return uint64(uint16(a) + uint16(b)) }},
		{"sub.s64 %d, %a, %b;", U64, U64, func(a, b, _ uint64) uint64 { return a - b }},
		{"add.sat.s32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 {
			return uint64(uint32(min(max(int64(int32(a))+int64(int32(b)), math.MinInt32), math.MaxInt32)))
		}},
		{"add.cc.u32 %t1, %a, %b; addc.u32 %d, %c, 0;", U32, U32, func(a, b, c uint64) uint64 { return uint64(uint32(c) + uint32((a+b)>>32)) }},
		{"sub.cc.u32 %t1, %a, %b; subc.u32 %d, %c, %a;", U32, U32, func(a, b, c uint64) uint64 {
			return uint64(uint32(c) - uint32(a) - uint32(yes(a < b)))
		}},
		{"mul.lo.s32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 { return uint64(uint32(a) * uint32(b)) }},
		{"mul.hi.s32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 { return uint64(uint32(int64(int32(a)) * int64(int32(b)) >> 32)) }},
		{"mul.hi.u32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 { return a * b >> 32 }},
		{"mul.hi.u64 %d, %a, %b;", U64, U64, func(a, b, _ uint64) uint64 { hi, _ := bits.Mul64(a, b); return hi }},
		{"mul.hi.s64 %d, %a, %b;", U64, U64, func(a, b, _ uint64) uint64 {
			p := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(int64(b)))
			return uint64(p.Rsh(p, 64).Int64())
		}},
		{"mul.wide.s32 %d, %a, %b;", U32, U64, func(a, b, _ uint64) uint64 { return uint64(int64(int32(a)) * int64(int32(b))) }},
		{"mul.wide.u32 %d, %a, %b;", U32, U64, func(a, b, _ uint64) uint64 { return a * b }},
		{"mul.lo.s64 %d, %a, %b;", U64, U64, func(a, b, _ uint64) uint64 { return a * b }},
		{"mad.lo.s64 %d, %a, %b, %c;", U64, U64, func(a, b, c uint64) uint64 { return a*b + c }},
		{"cvt.u64.u32 %x1, %c; mad.wide.u32 %d, %a, %b, %x1;", U32, U64, func(a, b, c uint64) uint64 { return a*b + c }},
		{"div.u32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 {
			if b == 0 {
				return 1<<32 - 1
			}
			return a / b
		}},
		{"rem.s32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 {
			if b == 0 {
				return a
			}
			return uint64(uint32(int64(int32(a)) % int64(int32(b))))
		}},
		{"rem.u32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 {
			if b == 0 {
				return a
			}
			return a % b
		}},
		{"mul.wide.u16 %d, %a, %b;", U16, U32, func(a, b, _ uint64) uint64 { return a * b }},
		{"mul24.lo.s32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 { return uint64(uint32(int32(a<<8) >> 8 * (int32(b<<8) >> 8))) }},
		{"mad.lo.s32 %d, %a, %b, %c;", U32, U32, func(a, b, c uint64) uint64 { return uint64(uint32(a)*uint32(b) + uint32(c)) }},
		{"mad.hi.u32 %d, %a, %b, %c;", U32, U32, func(a, b, c uint64) uint64 { return uint64(uint32(a*b>>32) + uint32(c)) }},
		{"cvt.u64.u32 %x1, %c; mad.wide.s32 %d, %a, %b, %x1;", U32, U64, func(a, b, c uint64) uint64 { return uint64(int64(int32(a))*int64(int32(b)) + int64(c)) }},
		{"div.s32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 {
			if b == 0 {
				return 1<<32 - 1
			}
			return uint64(uint32(int64(int32(a)) / int64(int32(b))))
		}},
		{"rem.u64 %d, %a, %b;", U64, U64, func(a, b, _ uint64) uint64 {
			if b == 0 {
				return a
			}
			return a % b
		}},
		{"rem.s16 %d, %a, %b;", U16, U16, func(a, b, _ uint64) uint64 {
			if b == 0 {
				return a
			}
			return uint64(uint16(int32(int16(a)) % int32(int16(b))))
		}},
		{"min.s32 %d, %a, %b;", U32, U32, func(a, b, _ uint64) uint64 { return uint64(uint32(min(int32(a), int32(b)))) }},
		{"max.u16 %d, %a, %b;", U16, U16, func(a, b, _ uint64) uint64 { return max(a, b) }},
		{"neg.s32 %d, %a;", U32, U32, func(a, _, _ uint64) uint64 { return uint64(uint32(-int32(a))) }},
		{"abs.s64 %d, %a;", U64, U64, func(a, _, _ uint64) uint64 { return uint64(max(int64(a), -int64(a))) }},
		{"sad.s32 %d, %a, %b, %c;", U32, U32, func(a, b, c uint64) uint64 {
			d := int64(int32(a)) - int64(int32(b))
			return uint64(uint32(max(d, -d)) + uint32(c))
		}},
		{"dp4a.s32.u32 %d, %a, %b, %c;", U32, U32, func(a, b, c uint64) uint64 {
			s := int32(c)
			for i := range 4 {
				s += int32(int8(a>>(8*i))) * int32(uint8(b>>(8*i)))
			}
			return uint64(uint32(s))
		}},
		{"dp2a.hi.s32.s32 %d, %a, %b, %c;", U32, U32, func(a, b, c uint64) uint64 {
			return uint64(uint32(int32(c) + int32(int16(a))*int32(int8(b>>16)) + int32(int16(a>>16))*int32(int8(b>>24))))
		}},
	}
}

func logicRows() []instruction {
	return []instruction{
		{"and.b64 %d, %a, %b;", B64, B64, func(a, b, _ uint64) uint64 { return a & b }},
		{"not.b16 %d, %a;", B16, B16, func(a, _, _ uint64) uint64 { return uint64(^uint16(a)) }},
		{"lop3.b32 %d, %a, %b, %c, 0x6A;", B32, B32, func(a, b, c uint64) uint64 { return uint64(uint32(a&b ^ c)) }},
		{"shl.b32 %d, %a, %b;", B32, B32, func(a, b, _ uint64) uint64 { return uint64(uint32(a) << min(b, 63)) }},
		{"shr.s32 %d, %a, %b;", B32, B32, func(a, b, _ uint64) uint64 { return uint64(uint32(int32(a) >> min(b, 31))) }},
		{"cvt.u32.u64 %t1, %b; shr.u64 %d, %a, %t1;", B64, B64, func(a, b, _ uint64) uint64 { return a >> uint32(b) }},
		{"shr.s16 %d, %a, 3;", B16, B16, func(a, _, _ uint64) uint64 { return uint64(uint16(int16(a) >> 3)) }},
		{"shf.l.wrap.b32 %d, %a, %b, %c;", B32, B32, func(a, b, c uint64) uint64 { return uint64(uint32((b<<32 | a) << (c & 31) >> 32)) }},
		{"shf.r.clamp.b32 %d, %a, %b, %c;", B32, B32, func(a, b, c uint64) uint64 { return uint64(uint32((b<<32 | a) >> min(c, 32))) }},
		{"bfe.u32 %d, %a, %b, %c;", U32, U32, func(a, b, c uint64) uint64 { return extractBits(a, b, c, 32, false) }},
		{"bfe.s32 %d, %a, %b, %c;", U32, U32, func(a, b, c uint64) uint64 { return extractBits(a, b, c, 32, true) }},
		{"bfi.b32 %d, %a, %b, %c, 7;", B32, B32, func(a, b, c uint64) uint64 {
			for i := range uint64(7) {
				if at := c&255 + i; at < 32 {
					b = b&^(1<<at) | a>>i&1<<at
				}
			}
			return b
		}},
		{"popc.b64 %d, %a;", B64, B32, func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
		{"clz.b32 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(a))) }},
		{"brev.b32 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return uint64(bits.Reverse32(uint32(a))) }},
		{"bfind.u32 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return uint64(uint32(bits.Len32(uint32(a)) - 1)) }},
		{"bfind.shiftamt.s32 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 {
			v := uint32(a) ^ uint32(int32(a)>>31)
			if v == 0 {
				return 1<<32 - 1
			}
			return uint64(bits.LeadingZeros32(v))
		}},
		{"prmt.b32 %d, %a, %b, %c;", B32, B32, func(a, b, c uint64) uint64 {
			r := uint64(0)
			for i := range 4 {
				d := c >> (4 * i)
				v := (b<<32 | a) >> (8 * (d & 7)) & 255
				if d&8 != 0 {
					v = uint64(uint8(int8(v) >> 7))
				}
				r |= v << (8 * i)
			}
			return r
		}},
		{"prmt.b32.b4e %d, %a, %b, 1;", B32, B32, func(a, b, _ uint64) uint64 {
			p := b<<32 | a
			return p>>8&255 | p&255<<8 | p>>56&255<<16 | p>>48&255<<24
		}},
		{"setp.lt.s32 %p, %a, %b; selp.b32 %d, %a, %c, %p;", B32, B32, func(a, b, c uint64) uint64 {
			if int32(a) < int32(b) {
				return a
			}
			return c
		}},
		{"setp.hs.u32 %p|%q, %a, %b; not.pred %p, %p; and.pred %p, %p, %q; selp.u32 %d, 7, 9, %p;", B32, B32, func(a, b, _ uint64) uint64 {
			return 9 - 2*yes(a < b)
		}},
		{"setp.eq.u32 %q, %a, 0; setp.le.or.u32 %p, %a, %b, !%q; @%p mov.u32 %d, 5; @!%p mov.u32 %d, 6;", B32, B32, func(a, b, _ uint64) uint64 {
			return 6 - yes(a <= b || a != 0)
		}},
		{"setp.ne.b64 %p, %a, %b; selp.b32 %d, 1, 0, %p;", B64, B32, func(a, b, _ uint64) uint64 { return yes(a != b) }},
		{"setp.gt.u64 %p, %a, %b; selp.b32 %d, 1, 0, %p;", B64, B32, func(a, b, _ uint64) uint64 { return yes(a > b) }},
		{"setp.le.s64 %p, %a, %b; selp.b32 %d, 1, 0, %p;", B64, B32, func(a, b, _ uint64) uint64 { return yes(int64(a) <= int64(b)) }},
		{"setp.ge.s16 %p, %a, %b; selp.b32 %d, 1, 0, %p;", B16, B32, func(a, b, _ uint64) uint64 { return yes(int16(a) >= int16(b)) }},
		{"setp.lt.u16 %p, %a, %b; selp.b32 %d, 1, 0, %p;", B16, B32, func(a, b, _ uint64) uint64 { return yes(a < b) }},
		{"slct.b32.s32 %d, %a, %b, %c;", B32, B32, func(a, b, c uint64) uint64 {
			if int32(c) >= 0 {
				return a
			}
			return b
		}},
		{"mov.b32 {%h1, %h2}, %a; mov.b32 %d, {%h2, %h1};", B32, B32, func(a, _, _ uint64) uint64 { return uint64(bits.RotateLeft32(uint32(a), 16)) }},
		{"mov.b64 {%t1, %t2}, %a; mov.b64 %d, {%t2, %t1};", B64, B64, func(a, _, _ uint64) uint64 { return bits.RotateLeft64(a, 32) }},
	}
}

// extractBits is bfe, bit by bit as the manual has it.
func extractBits(a, b, c uint64, width uint64, isSigned bool) (d uint64) {
	pos, n, sign := b&255, c&255, uint64(0)
	if isSigned && n > 0 {
		sign = a >> min(pos+n-1, width-1) & 1
	}
	for i := range width {
		if i < n && pos+i < width {
			d |= a >> (pos + i) & 1 << i
		} else {
			d |= sign << i
		}
	}
	return d
}

func floatRows() []instruction {
	add := func(a, b, _ float64) float64 { return a + b }
	down := func(a, b float64) float64 { // a sum whose sign, where it is zero, is that of rounding downwards
		if s := a + b; s != 0 || math.Signbit(a) == math.Signbit(b) {
			return s
		}
		return math.Copysign(0, -1)
	}
	mul := func(a, b, _ float64) float64 { return a * b }
	fma := func(a, b, c float64) float64 { return a*b + c }
	div := func(a, b, _ float64) float64 { return a / b }
	root := func(z, a, _, _ *big.Float) *big.Float { return z.Sqrt(a) }
	inverse := func(z, a, _, _ *big.Float) *big.Float { return z.Quo(big.NewFloat(1), a) }
	rows := []instruction{
		{"sub.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 { return u32(f32(a) - f32(b)) }},
		{"add.f64 %d, %a, %b;", F64, F64, func(a, b, _ uint64) uint64 { return math.Float64bits(f64(a) + f64(b)) }},
		{"fma.rn.f64 %d, %a, %b, %c;", F64, F64, func(a, b, c uint64) uint64 { return math.Float64bits(math.FMA(f64(a), f64(b), f64(c))) }},
		{"add.ftz.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 { return flush32(u32(f32(flush32(a)) + f32(flush32(b)))) }},
		{"mul.sat.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 {
			v := f32(a) * f32(b)
			if v != v {
				return 0
			}
			return u32(min(max(v, 0), 1) + 0)
		}},
		{"min.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 {
			switch x, y := f32(a), f32(b); {
			case x != x:
				return u32(y)
			case y != y:
				return u32(x)
			default:
				return u32(min(x, y))
			}
		}},
		{"max.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 {
			switch x, y := f32(a), f32(b); {
			case x != x:
				return u32(y)
			case y != y:
				return u32(x)
			default:
				return u32(max(x, y))
			}
		}},
		{"min.NaN.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 { return u32(min(f32(a), f32(b))) }},
		{"max.NaN.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 { return u32(max(f32(a), f32(b))) }},
		{"neg.f32 %d, %a;", F32, F32, func(a, _, _ uint64) uint64 { return a ^ 1<<31 }},
		{"abs.f64 %d, %a;", F64, F64, func(a, _, _ uint64) uint64 { return a &^ (1 << 63) }},
		{"copysign.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 { return a&(1<<31) | b&^(1<<31) }},
		{"ex2.approx.f32 %d, %a;", F32, F32, func(a, _, _ uint64) uint64 { return u32(float32(math.Exp2(float64(f32(a))))) }},
		{"lg2.approx.f32 %d, %a;", F32, F32, func(a, _, _ uint64) uint64 { return u32(float32(math.Log2(float64(f32(a))))) }},
		{"tanh.approx.f32 %d, %a;", F32, F32, func(a, _, _ uint64) uint64 { return u32(float32(math.Tanh(float64(f32(a))))) }},
		{"rsqrt.approx.f32 %d, %a;", F32, F32, func(a, _, _ uint64) uint64 { return u32(float32(1 / math.Sqrt(float64(f32(a))))) }},
		{"sqrt.rn.f64 %d, %a;", F64, F64, func(a, _, _ uint64) uint64 { return math.Float64bits(math.Sqrt(f64(a))) }},
		{"rcp.approx.ftz.f64 %d, %a;", F64, F64, func(a, _, _ uint64) uint64 { return upperHalf(math.Float64bits(1 / f64(upperHalf(a)))) }},
		{"testp.normal.f32 %p, %a; selp.b32 %d, 1, 0, %p;", F32, B32, func(a, _, _ uint64) uint64 {
			e := a & 0x7f800000
			return yes(e != 0x7f800000 && (e != 0 || a&0x7fffff == 0))
		}},
		{"testp.subnormal.f32 %p, %a; selp.b32 %d, 1, 0, %p;", F32, B32, func(a, _, _ uint64) uint64 { return yes(a&0x7f800000 == 0 && a&0x7fffff != 0) }},
		{"setp.eq.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return x == y })},
		{"setp.ne.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return x < y || x > y })},
		{"setp.le.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return x <= y })},
		{"setp.gt.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return x > y })},
		{"setp.ge.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return x >= y })},
		{"setp.num.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return x == x && y == y })},
		{"setp.nan.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return x != x || y != y })},
		{"setp.equ.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return !(x < y || x > y) })},
		{"setp.neu.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return x != y })},
		{"setp.ltu.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return !(x >= y) })},
		{"setp.leu.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return !(x > y) })},
		{"setp.gtu.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, comparing(func(x, y float32) bool { return !(x <= y) })},
		{"setp.lt.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, func(a, b, _ uint64) uint64 { return yes(f32(a) < f32(b)) }},
		{"setp.geu.f32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F32, B32, func(a, b, _ uint64) uint64 { return yes(!(f32(a) < f32(b))) }},
		{"setp.ne.f64 %p, %a, %b; selp.b32 %d, 1, 0, %p;", F64, B32, func(a, b, _ uint64) uint64 { return yes(f64(a) < f64(b) || f64(a) > f64(b)) }},
		{"set.gt.f32.f32 %d, %a, %b;", F32, F32, func(a, b, _ uint64) uint64 { return 0x3f800000 * yes(f32(a) > f32(b)) }},
		{"mul.rn.ftz.f16 %d, %a, %b;", F16, F16, func(a, b, _ uint64) uint64 {
			p := half.decode(flushHalf(a)) * half.decode(flushHalf(b))
			if math.IsNaN(p) || math.IsInf(p, 0) || p == 0 {
				return half.encode(p)
			}
			return flushHalf(halfNear(big.NewFloat(p)))
		}},
		{"fma.rn.f16 %d, %a, %b, %c;", F16, F16, func(a, b, c uint64) uint64 {
			x, y, z := half.decode(a), half.decode(b), half.decode(c)
			s := new(big.Float).SetPrec(200)
			if p := x * y; math.IsNaN(p+z) || math.IsInf(p+z, 0) || p+z == 0 {
				return half.encode(p + z)
			}
			s.Add(new(big.Float).SetPrec(200).Mul(big.NewFloat(x), big.NewFloat(y)), big.NewFloat(z))
			return halfNear(s)
		}},
	}
	plain := map[string][2]func(a, b, c float64) float64{"rn": {add, fma}, "rz": {add, fma}, "rp": {add, fma}, "rm": {
		func(a, b, _ float64) float64 { return down(a, b) }, func(a, b, c float64) float64 { return down(a*b, c) }}}
	for name, m := range map[string]big.RoundingMode{"rn": big.ToNearestEven, "rz": big.ToZero, "rm": big.ToNegativeInf, "rp": big.ToPositiveInf} {
		add, fma := plain[name][0], plain[name][1]
		rows = append(rows,
			instruction{"add." + name + ".f32 %d, %a, %b;", F32, F32, exactly(m, bigAdd, add)},
			instruction{"add." + name + ".f64 %d, %a, %b;", F64, F64, exactly64(m, bigAdd, add)},
			instruction{"mul." + name + ".f64 %d, %a, %b;", F64, F64, exactly64(m, bigMul, mul)},
			instruction{"div." + name + ".f64 %d, %a, %b;", F64, F64, exactly64(m, bigDiv, div)},
			instruction{"sqrt." + name + ".f64 %d, %a;", F64, F64, ofOne(exactly64(m, root, func(a, _, _ float64) float64 { return math.Sqrt(a) }))},
			instruction{"rcp." + name + ".f64 %d, %a;", F64, F64, ofOne(exactly64(m, inverse, func(a, _, _ float64) float64 { return 1 / a }))},
			instruction{"mul." + name + ".f32 %d, %a, %b;", F32, F32, exactly(m, bigMul, mul)},
			instruction{"fma." + name + ".f32 %d, %a, %b, %c;", F32, F32, exactly(m, bigFma, fma)},
			instruction{"div." + name + ".f32 %d, %a, %b;", F32, F32, exactly(m, bigDiv, div)},
			instruction{"sqrt." + name + ".f32 %d, %a;", F32, F32, exactly(m, root, func(a, _, _ float64) float64 { return math.Sqrt(a) })},
			instruction{"rcp." + name + ".f32 %d, %a;", F32, F32, exactly(m, inverse, func(a, _, _ float64) float64 { return 1 / a })},
			instruction{"cvt." + name + ".f32.f64 %d, %a;", F64, F32, func(a, _, _ uint64) uint64 {
				if v := f64(a); math.IsNaN(v) || math.IsInf(v, 0) || v == 0 {
					return u32(float32(v))
				}
				return rounded32(m, func(z *big.Float) *big.Float { return z.SetFloat64(f64(a)) })
			}},
			instruction{"cvt." + name + ".f32.s64 %d, %a;", U64, F32, func(a, _, _ uint64) uint64 {
				if a == 0 {
					return 0
				}
				return rounded32(m, func(z *big.Float) *big.Float { return z.SetInt64(int64(a)) })
			}})
	}
	return rows
}

// comparing is a comparison of float32s.
func comparing(holds func(x, y float32) bool) func(a, b, c uint64) uint64 {
	return func(a, b, _ uint64) uint64 { return yes(holds(f32(a), f32(b))) }
}

func flush32(a uint64) uint64 {
	if a&0x7f800000 == 0 {
		return a & 0x80000000
	}
	return a
}

func flushHalf(a uint64) uint64 {
	if a&0x7c00 == 0 {
		return a & 0x8000
	}
	return a
}

// upperHalf cuts the lower 32 bits of a float64, and denormal numbers to zero; not-a-number stays one.
func upperHalf(u uint64) uint64 {
	if math.IsNaN(f64(u)) {
		return u
	}
	if u &= 0xffffffff << 32; u&(0x7ff<<52) == 0 {
		u &= 1 << 63
	}
	return u
}

// halfNear finds the half that is nearest to a value by trying all of them; the even one of two.
func halfNear(z *big.Float) uint64 {
	best, distance := uint64(0), new(big.Float).SetInf(false)
	for u := range uint64(0x7c01) {
		u |= map[bool]uint64{true: 0x8000}[z.Sign() < 0]
		v := half.decode(u)
		if u&0x7fff == 0x7c00 {
			v = math.Copysign(65536, v)
		}
		d := new(big.Float).SetPrec(200).Sub(z, big.NewFloat(v))
		d.Abs(d)
		if c := d.Cmp(distance); c < 0 || c == 0 && u&1 == 0 {
			best, distance = u, d
		}
	}
	return best
}

func convertRows() []instruction {
	toInt := func(round func(float64) float64, low, high float64) func(v float64) float64 {
		return func(v float64) float64 {
			if math.IsNaN(v) {
				return 0
			}
			return min(max(round(v), low), high)
		}
	}
	s32 := toInt(math.RoundToEven, math.MinInt32, math.MaxInt32)
	return []instruction{
		{"cvt.s32.s8 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return uint64(uint32(int8(a))) }},
		{"cvt.u32.s32 %t1, %a; cvt.u64.s16 %d, %t1;", B32, B64, func(a, _, _ uint64) uint64 { return uint64(int64(int16(a))) }},
		{"cvt.s32.u8 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return a & 255 }},
		{"cvt.s8.u8 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return uint64(uint32(int8(a))) }},
		{"cvt.u8.s8 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return a & 255 }},
		{"cvt.s8.s64 %d, %a;", B64, B32, func(a, _, _ uint64) uint64 { return uint64(uint32(int8(a))) }},
		{"cvt.u16.s8 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return uint64(uint16(int8(a))) }},
		{"cvt.s64.u32 %d, %a;", B32, B64, func(a, _, _ uint64) uint64 { return a }},
		{"cvt.rn.f32.s16 %d, %a;", B32, F32, func(a, _, _ uint64) uint64 { return u32(float32(int16(a))) }},
		{"cvt.u64.u32 %d, %a;", B32, B64, func(a, _, _ uint64) uint64 { return a }},
		{"cvt.s64.s32 %d, %a;", B32, B64, func(a, _, _ uint64) uint64 { return uint64(int64(int32(a))) }},
		{"cvt.sat.s8.s32 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return uint64(uint32(min(max(int32(a), -128), 127))) }},
		{"cvt.sat.u8.s32 %d, %a;", B32, B32, func(a, _, _ uint64) uint64 { return uint64(min(max(int32(a), 0), 255)) }},
		{"cvt.u16.u32 %d, %a;", B32, B16, func(a, _, _ uint64) uint64 { return uint64(uint16(a)) }},
		{"cvt.rni.s32.f32 %d, %a;", F32, B32, func(a, _, _ uint64) uint64 { return uint64(uint32(int32(s32(float64(f32(a)))))) }},
		{"cvt.rzi.u32.f32 %d, %a;", F32, B32, func(a, _, _ uint64) uint64 {
			return uint64(toInt(math.Trunc, 0, math.MaxUint32)(float64(f32(a))))
		}},
		{"cvt.rmi.s64.f64 %d, %a;", F64, B64, func(a, _, _ uint64) uint64 {
			switch v := math.Floor(f64(a)); {
			case math.IsNaN(v):
				return 1 << 63
			case v >= 0x1p63:
				return 1<<63 - 1
			case v <= -0x1p63:
				return 1 << 63
			default:
				return uint64(int64(v))
			}
		}},
		{"cvt.rzi.u64.f32 %d, %a;", F32, B64, func(a, _, _ uint64) uint64 {
			switch v := math.Trunc(float64(f32(a))); {
			case math.IsNaN(v):
				return 1 << 63
			case v >= 0x1p64:
				return 1<<64 - 1
			default:
				return uint64(max(v, 0))
			}
		}},
		{"cvt.rzi.s32.f64 %d, %a;", F64, B32, func(a, _, _ uint64) uint64 {
			if v := f64(a); !math.IsNaN(v) {
				return uint64(uint32(int32(min(max(math.Trunc(v), math.MinInt32), math.MaxInt32))))
			}
			return 1 << 31
		}},
		{"cvt.rpi.f32.f32 %d, %a;", F32, F32, func(a, _, _ uint64) uint64 { return u32(float32(math.Ceil(float64(f32(a))))) }},
		{"cvt.rn.f32.u32 %d, %a;", B32, F32, func(a, _, _ uint64) uint64 { return u32(float32(uint32(a))) }},
		{"cvt.f64.f32 %d, %a;", F32, F64, func(a, _, _ uint64) uint64 {
			if f32(a) != f32(a) {
				return math.Float64bits(math.NaN())
			}
			return math.Float64bits(float64(f32(a)))
		}},
		{"cvt.rn.f16.f32 %h1, %a; cvt.f32.f16 %d, %h1;", F32, F32, func(a, _, _ uint64) uint64 {
			v := float64(f32(a))
			if math.IsNaN(v) || math.IsInf(v, 0) || v == 0 {
				return u32(float32(v))
			}
			u := halfNear(big.NewFloat(v))
			return u32(float32(half.decode(u)))
		}},
		{"cvt.rn.bf16.f32 %h1, %a; mov.b32 %d, {0, %h1};", F32, F32, func(a, _, _ uint64) uint64 {
			if f32(a) != f32(a) {
				return 0x7fff0000
			}
			return uint64((uint32(a) + 0x7fff + uint32(a>>16&1)) &^ 0xffff)
		}},
		{"cvt.rna.tf32.f32 %d, %a;", F32, F32, func(a, _, _ uint64) uint64 {
			if f32(a) != f32(a) {
				return 0x7fffe000
			}
			if f32(a) > math.MaxFloat32 || f32(a) < -math.MaxFloat32 {
				return a
			}
			return uint64((uint32(a) + 0x1000) &^ 0x1fff)
		}},
		{"cvt.rn.f16x2.f32 %d, %a, %b;", F32, B32, func(a, b, _ uint64) uint64 {
			one := func(u uint64) uint64 {
				switch v := float64(f32(u)); {
				case math.IsNaN(v) || math.IsInf(v, 0) || v == 0:
					return half.encode(v)
				default:
					return halfNear(big.NewFloat(v))
				}
			}
			return one(a)<<16 | one(b)
		}},
	}
}

// TestInstructions runs every row on values at the edges and at random.
func TestInstructions(t *testing.T) { testInstructions(t) }

// TestInstructionsInGo is TestInstructions without the instructions that the host has for all lanes.
func TestInstructionsInGo(t *testing.T) {
	if !isWide {
		t.Skip("the host has none")
	}
	isWide = false
	defer func() { isWide = true }()
	testInstructions(t)
}

func testInstructions(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, row := range slicesOf(integerRows(), logicRows(), floatRows(), convertRows()) {
		t.Run(row.text, func(t *testing.T) {
			n := 768
			if strings.Contains(row.text, "f16") { // whose oracle tries all halves
				n = 24
			}
			b := loadText(t, kernelOf(row.text, row.in, row.out))
			x, y, z := operands(rng, row.in, n), operands(rng, row.in, n), operands(rng, row.in, n)
			d := in(b, make([]uint64, n))
			d.access = Write
			b.must("test", line(1), line(n), in(b, x), in(b, y), in(b, z), d)
			for i, got := range values[uint64](b, d) {
				want := row.want(x[i], y[i], z[i])
				if want == anything && row.in == F64 || row.out == F64 && math.IsNaN(f64(want)) && math.IsNaN(f64(got)) {
					continue
				}
				require.Equal(t, fmt.Sprintf("%#x", want), fmt.Sprintf("%#x", got), "%#x %#x %#x", x[i], y[i], z[i])
			}
		})
	}
}

func slicesOf(lists ...[]instruction) (out []instruction) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}
