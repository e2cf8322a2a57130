package main

import "github.com/mmcloughlin/avo/operand"

// Conversions between float32 and its halves.
func emitHalf(g *gen) {
	g.both(func() {
		g.fn("halfToFloat", "(dst *float32, src *uint16, n int)", "widens IEEE half precision; n is a multiple of the lanes.")
		g.convert(func(dst, src gp) {
			v := g.to(g.VCVTPH2PS, at(src, 0))
			g.st(v, at(dst, 0))
		}, 4, 2)
		g.fn("floatToHalf", "(dst *uint16, src *float32, n int)", "narrows to IEEE half precision, to nearest even; n is a multiple of the lanes.")
		g.convert(func(dst, src gp) { g.VCVTPS2PH(operand.U8(0), g.ld(at(src, 0)), at(dst, 0)) }, 2, 4)
		g.fn("bfloatToFloat", "(dst *float32, src *uint16, n int)", "widens bfloat16; n is a multiple of the lanes.")
		g.convert(func(dst, src gp) {
			v := g.to(g.VPMOVZXWD, at(src, 0))
			g.VPSLLD(operand.U8(16), v, v)
			g.st(v, at(dst, 0))
		}, 4, 2)
		g.fn("floatToBfloat", "(dst *uint16, src *float32, n int)", "narrows to bfloat16, to nearest even; n is a multiple of the lanes.")
		g.convert(func(dst, src gp) { g.narrowBfloat(g.ld(at(src, 0)), dst) }, 2, 4)
	})
}

// convert loops over vectors of n elements of two sizes.
func (g *gen) convert(body func(dst, src gp), dstSize, srcSize int) {
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	g.loop("one", n, g.isa.w, func() {
		body(dst, src)
		g.advance(g.isa.w*dstSize, dst)
		g.advance(g.isa.w*srcSize, src)
	})
	g.ret()
}

// narrowBfloat rounds to the upper sixteen bits: adds 0x7fff and the lowest bit
// that stays, then cuts. NaN keeps its upper bits, made quiet.
func (g *gen) narrowBfloat(x vec, dst gp) {
	r, low := g.v(), g.v()
	g.VPSRLD(operand.U8(16), x, low)
	g.and(low, low, konst(1))
	g.addi(r, x, konst(0x7fff))
	g.addi(r, r, low)
	quiet := g.set(g.or, x, konst(0x00400000))
	r = g.pick(g.cmp(cmpUnord, x, x), quiet, r)
	g.VPSRLD(operand.U8(16), r, r)
	if g.isa.zmm {
		g.VPMOVDW(r, at(dst, 0))
		return
	}
	g.VPACKUSDW(r, r, r) // each half twice: quarters 0 and 2 hold the result
	g.VPERMQ(operand.U8(0x08), r, r)
	g.VMOVDQU(r.AsX(), at(dst, 0))
}
