package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
)

// Transcendental functions.
//
// The polynomials are minimax fits by Lawson's reweighted least squares over
// 400 Chebyshev nodes, computed in 40 digits, coefficients rounded to float32
// one after the other with the rest refitted; their own errors are below a
// tenth of a unit in the last place.
//
//	exp    x = n·ln2 + r, |r| ≤ ln2/2; eʳ = 1 + r + r²·q(r); scale by 2ⁿ
//	log    x = 2ᵏ·(1+f), √½ ≤ 1+f < √2; ln(1+f) = f − f²/2 + f³·p(f)
//	erfc   a ≥ 0: e^(−a²)·t·p(t), t = 1/(1+0.4·a)
//	erf    |x| < 1: x + x·p(x²), else 1 − erfc
//
// The others are built from them so that nothing cancels: tanh from eˣ−1,
// sigmoid from e^−|x|, softplus from ln(1+u) with u ≤ 1, gelu with AVX2 from erfc with
// the square in its exponent split into two numbers (with AVX-512 see gelu.go).
var (
	polyExp   = []float64{0.5, 0.1666666716337204, 0.04166648909449577, 0.008333207108080387, 0.00139326648786664, 0.00019945105304941535}
	polyLog   = []float64{0.3333331346511841, -0.25000008940696716, 0.20002073049545288, -0.16667994856834412, 0.142203226685524, -0.12406065315008163, 0.1188366636633873, -0.11671283096075058, 0.06750477850437164}
	polyLog1p = []float64{1, -0.49999988079071045, 0.33332714438438416, -0.24988864362239838, 0.19899621605873108, -0.16135157644748688, 0.12479481101036072, -0.08323805034160614, 0.042113907635211945, -0.013691186904907227, 0.0020844400860369205}
	polyErf   = []float64{0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026, 0.005187162198126316, -0.0007997853099368513, 7.806903886375949e-05}
	polyErfc  = []float64{0.22570690512657166, 0.2249521017074585, 0.21491843461990356, 0.1296827346086502, 0.27205705642700195, -0.2843492925167084, 0.5474141240119934, -0.49879521131515503, 0.19800618290901184, -0.029593028128147125}
)

const (
	expMax = 89   // beyond it eˣ is infinite
	expMin = -104 // below it eˣ is zero
)

// poly evaluates a polynomial in x, lowest coefficient first.
func (g *gen) poly(x vec, c []float64) vec {
	p := g.splat(f32(c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		g.horner(p, x, f32(c[i]))
	}
	return p
}

// expParts splits eˣ into 2ⁿ·(1+t). x lies within the bounds of exp or is NaN.
func (g *gen) expParts(x vec) (n, t vec) {
	n = g.v()
	g.mul(n, x, f32(math.Log2E))
	n = g.round(n, 0)
	r := g.copyOf(x)
	hi := float64(float32(math.Ln2))
	g.fnma(r, n, f32(hi))
	g.fnma(r, n, f32(math.Ln2-hi))
	q := g.poly(r, polyExp)
	r2 := g.set(g.mul, r, r)
	g.fma(r, r2, q)
	return n, r
}

// scale is p·2ⁿ, rounded once, n within −300..300.
func (g *gen) scale(p, n vec) vec {
	if g.isa.zmm {
		return g.to(g.VSCALEFPS, n, p)
	}
	// 2ⁿ in two factors, neither of which over- or underflows.
	i, h := g.v(), g.v()
	g.VCVTPS2DQ(n, i)
	g.VPSRAD(operand.U8(1), i, h)
	g.subi(i, i, h)
	g.addi(i, i, expOne)
	g.addi(h, h, expOne)
	g.VPSLLD(operand.U8(23), i, i)
	g.VPSLLD(operand.U8(23), h, h)
	g.mul(h, p, h)
	g.mul(h, h, i)
	return h
}

// pow2 is 2ⁿ for n within −126..127.
func (g *gen) pow2(n vec) vec {
	i := g.to(g.VCVTPS2DQ, n)
	g.addi(i, i, expOne)
	g.VPSLLD(operand.U8(23), i, i)
	return i
}

// exp is eˣ for any x.
func (g *gen) exp(x vec) vec {
	n, t := g.expParts(g.bound(x, f32(expMin), f32(expMax)))
	return g.exponential(x, n, t)
}

// exponential is 2ⁿ·(1+t), which is eˣ. Zeros below expMin are exact: a product that rounds to zero takes some hundred
// cycles, and most scores of a masked row are such.
func (g *gen) exponential(x, n, t vec) vec {
	above := g.cmp(cmpNLT, x, f32(expMin))
	if g.isa.zmm {
		g.VADDPS_Z(g.splat(oneBits), t, above.k, t)
	} else {
		g.add(t, t, oneBits)
		g.VANDPS(t, above.v, t)
	}
	return g.scale(t, n)
}

// expNeg is eˣ for x ≤ 0.
func (g *gen) expNeg(x vec) vec {
	y := g.set(g.max, g.splat(f32(expMin)), x)
	n, t := g.expParts(y)
	return g.exponential(x, n, t)
}

// expm1 is eˣ − 1 for x within −87..88.
func (g *gen) expm1(x vec) vec {
	n, t := g.expParts(x)
	s, d := g.pow2(n), g.v()
	g.sub(d, s, oneBits)
	g.fma(d, s, t)
	return d
}

// log is ln x for any x.
func (g *gen) log(x vec) vec {
	small := g.cmp(cmpLT, x, konst(0x00800000)) // below the normal numbers, or negative
	up := g.set(g.mul, x, f32(1<<23))
	y := g.pick(small, up, x)
	k, m, f := g.v(), g.v(), g.v()
	g.addi(k, y, konst(0x3f800000-0x3f3504f3))
	g.and(m, k, konst(0x007fffff))
	g.addi(m, m, konst(0x3f3504f3))
	g.sub(f, m, oneBits)
	g.VPSRAD(operand.U8(23), k, k)
	g.subi(k, k, expOne)
	g.VCVTDQ2PS(k, k)
	lower := g.set(g.sub, k, f32(23))
	k = g.pick(small, lower, k)

	p := g.poly(f, polyLog)
	f2 := g.set(g.mul, f, f)
	g.mul(p, p, f) // f·p(f)
	g.sub(p, p, f32(0.5))
	hi := float64(float32(math.Ln2))
	low := g.set(g.mul, k, f32(math.Ln2-hi))
	g.fma(low, p, f2) // −f²/2 + f³·p + k·ln2 (low part)
	g.add(low, low, f)
	g.fma(low, k, f32(hi))

	// ∞ and NaN pass, 0 gives −∞, negative numbers NaN.
	inf, zero := g.splat(konst(0x7f800000)), g.splat(0)
	low = g.pick(g.cmp(cmpNLT, x, inf), x, low)
	nan := g.splat(konst(0x7fc00000))
	low = g.pick(g.cmp(cmpLT, x, zero), nan, low)
	return g.pick(g.cmp(0, x, zero), g.splat(konst(0xff800000)), low)
}

// gate is e^−|x| and 1/(1+e^−|x|).
func (g *gen) gate(x vec) (e, r vec) {
	a := g.v()
	g.or(a, x, signBit) // −|x|
	e = g.expNeg(a)
	r = g.v()
	g.add(r, e, oneBits)
	u := g.splat(oneBits)
	g.div(r, u, r)
	return e, r
}

// sigmoid is 1/(1+e⁻ˣ).
func (g *gen) sigmoid(x vec) vec {
	e, r := g.gate(x)
	g.mul(e, e, r)
	return g.pick(g.cmp(cmpLT, x, konst(0)), e, r)
}

// tanh is (e²ᵃ−1)/(e²ᵃ+1) with the sign of x, a = |x|.
func (g *gen) tanh(x vec) vec {
	a, s := g.set(g.and, x, absMask), g.set(g.and, x, signBit)
	g.add(a, a, a)
	g.min(a, g.splat(f32(40)), a)
	e := g.expm1(a)
	d := g.set(g.add, e, f32(2))
	g.div(d, e, d)
	g.or(d, d, s)
	return d
}

// erfcBody is t·p(t), which times e^(−a²) is erfc(a); given 0.4·a.
func (g *gen) erfcBody(a vec) vec {
	t := g.set(g.add, a, oneBits)
	g.div(t, g.splat(oneBits), t)
	p := g.poly(t, polyErfc)
	g.mul(p, p, t)
	return p
}

func (g *gen) erf(x vec) vec {
	a, s := g.v(), g.v()
	g.and(a, x, absMask)
	g.min(a, g.splat(f32(4)), a) // erf(4) rounds to 1
	g.and(s, x, signBit)
	c := g.erfcBody(g.set(g.mul, a, f32(0.4)))
	x2 := g.set(g.mul, a, a)
	e := g.expNeg(g.set(g.xor, x2, signBit))
	big := g.splat(oneBits)
	g.fnma(big, e, c)
	p := g.poly(x2, polyErf)
	g.horner(p, a, a) // a + a·p
	y := g.pick(g.cmp(cmpLT, a, oneBits), p, big)
	g.or(y, y, s)
	return y
}

// gelu is x·Φ(x); Φ(−a) = erfc(a/√2)/2.
func (g *gen) gelu(x vec) vec {
	if g.isa.zmm {
		return g.geluByTable(x)
	}
	a := g.set(g.and, x, absMask)
	g.min(a, g.splat(f32(14.5)), a)
	h := g.v()
	g.mul(h, a, f32(-0.5)) // −a/2
	sq, low := g.v(), g.v()
	g.mul(sq, h, a) // −a²/2, rounded
	g.VMOVAPS(sq, low)
	g.xor(low, low, signBit)
	g.fma(low, h, a) // what rounding lost
	e := g.expNeg(sq)
	g.fma(e, e, low)
	c := g.set(g.mul, a, f32(0.4/math.Sqrt2))
	c = g.erfcBody(c)
	g.mul(c, c, f32(0.5))
	g.mul(c, c, e) // Φ(−a)
	up := g.splat(oneBits)
	g.sub(up, up, c)
	y := g.pick(g.cmp(cmpLT, x, konst(0)), c, up)
	g.mul(y, y, x)
	return y
}

func (g *gen) geluTanh(x vec) vec {
	u, x2 := g.v(), g.v()
	g.mul(x2, x, x)
	k := 2 * math.Sqrt(2/math.Pi)
	g.VMOVAPS(g.splat(f32(k)), u)
	g.fma(u, x2, f32(k*0.044715))
	g.mul(u, u, x)
	y := g.sigmoid(u)
	g.mul(y, y, x)
	return y
}

// softplus is max(x, 0) + ln(1+u), u = e^−|x|.
func (g *gen) softplus(x vec) vec {
	a := g.set(g.or, x, signBit)
	u := g.expNeg(a)
	p := g.poly(u, polyLog1p)
	g.mul(p, p, u)
	m := g.set(g.max, g.splat(0), x)
	g.add(m, m, p)
	return m
}

// mish is x·n/(n+2), n = e·(e+2), e = eˣ.
func (g *gen) mish(x vec) vec {
	b := g.v()
	g.min(b, g.splat(f32(20)), x) // the quotient is 1 beyond
	e := g.expNeg(b)              // never above its own bound
	n := g.set(g.add, e, f32(2))
	g.mul(n, n, e)
	d := g.set(g.add, n, f32(2))
	g.div(n, n, d)
	g.mul(n, n, x)
	return n
}

func (g *gen) transcendental() {
	g.plain("Exp", "is eˣ.", 1, g.exp)
	g.plain("Log", "is ln x.", 1, g.log)
	g.plain("Tanh", "is tanh x.", 1, g.tanh)
	g.plain("Sigmoid", "is 1/(1+e⁻ˣ).", 1, g.sigmoid)
	g.plain("Erf", "is the error function.", 1, g.erf)
	g.plain("Gelu", "is x·(1+erf(x/√2))/2.", 1, g.gelu)
	g.plain("GeluTanh", "is the tanh form of gelu.", 1, g.geluTanh)
	g.unary("Silu", "is x·sigmoid(p0·x).", 1, func() fun {
		a := g.argVec("p0")
		return func(x vec) vec {
			y := g.set(g.mul, x, a)
			y = g.sigmoid(y)
			g.mul(y, y, x)
			return y
		}
	})
	g.plain("Softplus", "is ln(1+eˣ).", 1, g.softplus)
	g.plain("Mish", "is x·tanh(softplus x).", 1, g.mish)
	g.unary("Elu", "is x < 0 ? p0·(eˣ−1) : x.", 1, func() fun {
		a := g.argVec("p0")
		return func(x vec) vec {
			y := g.bound(x, f32(-30), konst(0))
			y = g.expm1(y)
			g.mul(y, y, a)
			return g.pick(g.cmp(cmpLT, x, konst(0)), y, x)
		}
	})
}
