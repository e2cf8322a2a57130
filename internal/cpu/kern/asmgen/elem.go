package main

import "github.com/mmcloughlin/avo/operand"

// Elementwise kernels over contiguous rows. Each is a loop over whole vectors,
// unrolled where the function is cheap, and a masked rest; the function itself
// is given as a Go function that emits it for one vector.

// fun emits one vector of a unary function.
type fun func(x vec) vec

// unary emits dst[i] = f(src[i]); params makes what f shares between vectors.
func (g *gen) unary(name, doc string, unroll int, params func() fun) {
	g.fn("v"+name, "(dst, src *float32, n int, p0, p1 float32)", doc)
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	f := params()
	steps := []int{unroll, 1}
	if unroll == 1 {
		steps = steps[:1]
	}
	for i, u := range steps {
		g.loop([]string{"wide", "one"}[i], n, u*g.isa.w, func() {
			for j := range u {
				g.st(f(g.ld(at(src, j*g.bytes()))), at(dst, j*g.bytes()))
			}
			g.advance(u*g.bytes(), dst, src)
		})
	}
	g.rest(n, func(m *mask) { g.put(f(g.get(src, 0, m)), dst, 0, m) })
	g.ret()
}

// plain is unary for a function without parameters.
func (g *gen) plain(name, doc string, unroll int, f fun) {
	g.unary(name, doc, unroll, func() fun { return f })
}

func emitElem(g *gen) {
	g.both(func() {
		g.simple()
		g.transcendental()
	})
}

// round rounds to integers: 0 to nearest even, 1 down, 2 up.
func (g *gen) round(x vec, mode int) vec {
	d := g.v()
	if g.isa.zmm {
		g.VRNDSCALEPS(operand.U8(mode|8), x, d)
	} else {
		g.VROUNDPS(operand.U8(mode|8), x, d)
	}
	return d
}

// Comparison predicates of VCMPPS.
const (
	cmpLT    = 1
	cmpUnord = 3
	cmpNLT   = 5
)

// cmp compares lane by lane.
func (g *gen) cmp(pred int, a vec, b any) mask {
	m := g.inReg(b)
	if g.isa.zmm {
		k := g.K()
		g.VCMPPS(operand.U8(pred), m, a, k)
		return mask{k: k}
	}
	v := g.to(g.VCMPPS, operand.U8(pred), m, a)
	return mask{v: v}
}

// pick is c ? yes : no.
func (g *gen) pick(c mask, yes, no vec) vec {
	d := g.v()
	if g.isa.zmm {
		g.VBLENDMPS(yes, no, c.k, d)
	} else {
		g.VBLENDVPS(c.v, yes, no, d)
	}
	return d
}

// bound is min(max(x, lo), hi) with NaN staying NaN.
func (g *gen) bound(x vec, lo, hi any) vec {
	d := g.v()
	g.max(d, g.inReg(lo), x)
	g.min(d, g.inReg(hi), d)
	return d
}

// inReg puts an operand into a register.
func (g *gen) inReg(x any) vec {
	if c, ok := x.(konst); ok {
		return g.splat(c)
	}
	return x.(vec)
}

const (
	signBit = konst(1 << 31)
	absMask = konst(1<<31 - 1)
	oneBits = konst(0x3f800000)
	expOne  = konst(127)
)

// simple emits the functions of a few instructions.
func (g *gen) simple() {
	g.arithmetic()
	g.gates()
	g.affine()
}

// one is a function of one instruction into a new register.
func (g *gen) one(emit func(d, x vec)) fun {
	return func(x vec) vec {
		d := g.v()
		emit(d, x)
		return d
	}
}

// arithmetic emits signs, roots and roundings.
func (g *gen) arithmetic() {
	g.plain("Neg", "is −x.", 4, g.one(func(d, x vec) { g.xor(d, x, signBit) }))
	g.plain("Abs", "is |x|.", 4, g.one(func(d, x vec) { g.and(d, x, absMask) }))
	g.plain("Sqrt", "is √x.", 2, g.one(func(d, x vec) { g.VSQRTPS(x, d) }))
	g.unary("Recip", "is 1/x.", 2, func() fun {
		u := g.splat(oneBits)
		return g.one(func(d, x vec) { g.div(d, u, x) })
	})
	g.plain("Square", "is x².", 4, g.one(func(d, x vec) { g.mul(d, x, x) }))
	g.plain("Floor", "rounds down.", 4, func(x vec) vec { return g.round(x, 1) })
	g.plain("Ceil", "rounds up.", 4, func(x vec) vec { return g.round(x, 2) })
	g.plain("Round", "rounds to nearest, halves to even.", 4, func(x vec) vec { return g.round(x, 0) })
}

// gates emits what activations are made of.
func (g *gen) gates() {
	g.unary("Relu", "is max(x, 0).", 4, func() fun {
		z := g.splat(0)
		return g.one(func(d, x vec) { g.max(d, z, x) })
	})
	g.unary("Clip", "is min(max(x, p0), p1).", 4, func() fun {
		lo, hi := g.argVec("p0"), g.argVec("p1")
		return func(x vec) vec { return g.bound(x, lo, hi) }
	})
	g.unary("LeakyRelu", "is x < 0 ? p0·x : x.", 2, func() fun {
		a, z := g.argVec("p0"), g.splat(0)
		return func(x vec) vec {
			y := g.set(g.mul, x, a)
			return g.pick(g.cmp(cmpLT, x, z), y, x)
		}
	})
	g.unary("HardSigmoid", "is min(max(p0·x + p1, 0), 1).", 2, func() fun {
		a, b, z, u := g.argVec("p0"), g.argVec("p1"), g.splat(0), g.splat(oneBits)
		return func(x vec) vec {
			g.horner(x, a, b)
			return g.bound(x, z, u)
		}
	})
	g.unary("HardSwish", "is x·min(max(x/6 + 1/2, 0), 1).", 2, func() fun {
		a, b, z, u := g.splat(f32(1.0/6)), g.splat(f32(0.5)), g.splat(0), g.splat(oneBits)
		return func(x vec) vec {
			y := g.copyOf(x)
			g.horner(y, a, b)
			y = g.bound(y, z, u)
			g.mul(y, y, x)
			return y
		}
	})
	g.unary("Softsign", "is x/(1+|x|).", 1, func() fun {
		u := g.splat(oneBits)
		return func(x vec) vec {
			y := g.set(g.and, x, absMask)
			g.add(y, y, u)
			g.div(y, x, y)
			return y
		}
	})
}

// affine emits differences, products and sums with two numbers.
func (g *gen) affine() {
	g.unary("SubSub", "is (x−p0)−p1.", 2, func() fun {
		a, b := g.argVec("p0"), g.argVec("p1")
		return g.one(func(d, x vec) {
			g.sub(d, x, a)
			g.sub(d, d, b)
		})
	})
	g.unary("SubMul", "is (x−p0)·p1.", 2, func() fun {
		a, b := g.argVec("p0"), g.argVec("p1")
		return g.one(func(d, x vec) {
			g.sub(d, x, a)
			g.mul(d, d, b)
		})
	})
	g.unary("MulAdd", "is x·p0 + p1.", 4, func() fun {
		a, b := g.argVec("p0"), g.argVec("p1")
		return func(x vec) vec {
			g.horner(x, a, b)
			return x
		}
	})
}
