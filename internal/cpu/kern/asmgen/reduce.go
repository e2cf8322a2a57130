package main

import "github.com/mmcloughlin/avo/operand"

// Reductions of a row. Four vectors of partial results run side by side; the
// order of the additions depends on the length of the row only.
func emitReduce(g *gen) {
	g.both(func() {
		g.sum("Sum", "(x *float32, n int) (ret float32)", "adds up a row.", func(acc vec, p []gp, off int, m *mask) {
			g.add(acc, acc, g.get(p[0], off, m))
		})
		g.sum("SumAbs", "(x *float32, n int) (ret float32)", "adds up magnitudes.", func(acc vec, p []gp, off int, m *mask) {
			a := g.v()
			g.and(a, g.get(p[0], off, m), absMask)
			g.add(acc, acc, a)
		})
		g.sum("SumSq", "(x *float32, n int) (ret float32)", "adds up squares.", func(acc vec, p []gp, off int, m *mask) {
			a := g.get(p[0], off, m)
			g.fma(acc, a, a)
		})
		g.sum("Dot", "(x, y *float32, n int) (ret float32)", "is the scalar product.", func(acc vec, p []gp, off int, m *mask) {
			a := g.get(p[0], off, m)
			g.fma(acc, a, g.get(p[1], off, m))
		})
		g.sumSqDiff()
		g.extreme("Max", g.max, konst(0xff800000))
		g.extreme("Min", g.min, konst(0x7f800000))
		g.expSumOnly()
	})
}

// fold adds (or otherwise combines) the lanes of v; the result is in lane 0.
func (g *gen) fold(v vec, op func(d, a vec, b any)) {
	h := g.v()
	if g.isa.zmm {
		g.VSHUFF32X4(operand.U8(0x4e), v, v, h) // swap the 256-bit halves
		op(v, v, h)
		g.VSHUFF32X4(operand.U8(0xb1), v, v, h) // swap the 128-bit quarters
	} else {
		g.VPERM2F128(operand.U8(1), v, v, h)
	}
	op(v, v, h)
	for _, imm := range []int{0x4e, 0xb1} { // swap pairs, then neighbours
		op(v, v, g.to(g.VPERMILPS, operand.U8(imm), v))
	}
}

// result stores lane 0 of v as the function's result.
func (g *gen) result(v vec) {
	m, err := g.Return("ret").Resolve()
	if err != nil {
		panic(err)
	}
	g.VMOVSS(v.AsX(), m.Addr)
}

// joined combines four accumulators.
func (g *gen) joined(acc [4]vec, op func(d, a vec, b any)) vec {
	op(acc[0], acc[0], acc[1])
	op(acc[2], acc[2], acc[3])
	op(acc[0], acc[0], acc[2])
	return acc[0]
}

// fourSums runs body with one of four accumulators and adds them up.
func (g *gen) fourSums(n gp, ps []gp, body func(acc vec, off int, m *mask)) vec {
	acc := [4]vec{g.zeroed(), g.zeroed(), g.zeroed(), g.zeroed()}
	g.over(n, ps, func(off int, m *mask) { body(acc[off/g.bytes()], off, m) })
	return g.joined(acc, g.add)
}

// sum emits a sum; masked lanes read as zero and add nothing.
func (g *gen) sum(name, signature, doc string, body func(acc vec, p []gp, off int, m *mask)) {
	g.fn("r"+name, signature, doc)
	ps := []gp{g.arg("x")}
	if name == "Dot" {
		ps = append(ps, g.arg("y"))
	}
	n := g.arg("n")
	v := g.fourSums(n, ps, func(acc vec, off int, m *mask) { body(acc, ps, off, m) })
	g.fold(v, g.add)
	g.result(v)
	g.ret()
}

// sumSqDiff is Σ(x−mean)²; lanes beyond the row are cleared after subtracting.
func (g *gen) sumSqDiff() {
	g.fn("rSumSqDiff", "(x *float32, n int, mean float32) (ret float32)", "adds up squared distances from mean.")
	x, n := g.arg("x"), g.arg("n")
	mean := g.argVec("mean")
	v := g.fourSums(n, []gp{x}, func(acc vec, off int, m *mask) {
		d := g.v()
		g.sub(d, g.get(x, off, m), mean)
		d = g.cleared(d, m)
		g.fma(acc, d, d)
	})
	g.fold(v, g.add)
	g.result(v)
	g.ret()
}

// cleared zeroes the lanes beyond the tail.
func (g *gen) cleared(v vec, m *mask) vec {
	if m == nil {
		return v
	}
	d := g.v()
	if g.isa.zmm {
		g.VMOVAPS_Z(v, m.k, d)
	} else {
		g.VANDPS(v, m.v, d)
	}
	return d
}

// extreme emits a maximum or minimum; any NaN makes the result NaN.
func (g *gen) extreme(name string, op func(d, a vec, b any), empty konst) {
	g.fn("r"+name, "(x *float32, n int) (ret float32)", "is NaN if the row holds one.")
	x, n := g.arg("x"), g.arg("n")
	acc := [4]vec{g.splat(empty), g.splat(empty), g.splat(empty), g.splat(empty)}
	bad := g.zeroed()
	g.over(n, []gp{x}, func(off int, m *mask) {
		v := g.get(x, off, m)
		if m != nil {
			v = g.pick(*m, v, g.splat(empty))
		}
		a := acc[off/g.bytes()]
		op(a, v, a) // the second operand, the result so far, stays when v is NaN
		g.markNaN(bad, v)
	})
	top := g.joined(acc, op)
	g.fold(top, op)
	g.fold(bad, g.or)
	g.or(top, top, bad)
	g.result(top)
	g.ret()
}

// markNaN sets all bits of the lanes of bad where v is NaN.
func (g *gen) markNaN(bad, v vec) {
	if g.isa.zmm {
		k := g.K()
		g.VCMPPS(operand.U8(cmpUnord), v, v, k)
		g.VPTERNLOGD(operand.U8(0xff), bad, bad, k, bad)
		return
	}
	u := g.to(g.VCMPPS, operand.U8(cmpUnord), v, v)
	g.or(bad, bad, u)
}

// expSumOnly emits Σ e^(x−max).
func (g *gen) expSumOnly() {
	g.fn("rExpSumOnly", "(x *float32, n int, max float32) (ret float32)", "adds up the powers e^(x−max).")
	x, n := g.arg("x"), g.arg("n")
	top, acc := g.argVec("max"), g.zeroed()
	body := func(m *mask) {
		d := g.v()
		g.sub(d, g.get(x, 0, m), top)
		g.add(acc, acc, g.cleared(g.expNeg(d), m))
	}
	g.loop("one", n, g.isa.w, func() {
		body(nil)
		g.advance(g.bytes(), x)
	})
	g.rest(n, body)
	g.fold(acc, g.add)
	g.result(acc)
	g.ret()
}
