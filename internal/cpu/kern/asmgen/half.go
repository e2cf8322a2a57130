package main

import "github.com/mmcloughlin/avo/operand"

// Conversions between float32 and its halves.
func emitHalf(g *gen) {
	g.both(func() {
		g.fn("halfToFloat", "(dst *float32, src *uint16, n int)", "widens IEEE half precision; n is a multiple of the lanes.")
		g.convert(func(dst, src operand.Mem) { g.st(g.to(g.VCVTPH2PS, src), dst) }, 4, 2)
		g.fn("floatToHalf", "(dst *uint16, src *float32, n int)", "narrows to IEEE half precision, to nearest even; n is a multiple of the lanes.")
		g.convert(func(dst, src operand.Mem) { g.VCVTPS2PH(operand.U8(0), g.ld(src), dst) }, 2, 4)
		g.fn("bfloatToFloat", "(dst *float32, src *uint16, n int)", "widens bfloat16; n is a multiple of the lanes.")
		g.convert(func(dst, src operand.Mem) {
			v := g.to(g.VPMOVZXWD, src)
			g.VPSLLD(operand.U8(16), v, v)
			g.st(v, dst)
		}, 4, 2)
		g.fn("floatToBfloat", "(dst *uint16, src *float32, n int)", "narrows to bfloat16, to nearest even; n is a multiple of the lanes.")
		g.convert(func(dst, src operand.Mem) { g.narrowBfloat(g.ld(src), dst) }, 2, 4)
	})
}

// convert loops over vectors of n elements of two sizes, four at a time.
func (g *gen) convert(body func(dst, src operand.Mem), dstSize, srcSize int) {
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	vectors := func(name string, count int) {
		g.loop(name, n, count*g.isa.w, func() {
			for i := range count {
				body(at(dst, i*g.isa.w*dstSize), at(src, i*g.isa.w*srcSize))
			}
			g.advance(count*g.isa.w*dstSize, dst)
			g.advance(count*g.isa.w*srcSize, src)
		})
	}
	vectors("four", 4)
	vectors("one", 1)
	g.ret()
}

// narrowBfloat rounds to the upper sixteen bits: adds 0x7fff and the lowest bit
// that stays, then cuts. NaN keeps its upper bits, made quiet.
func (g *gen) narrowBfloat(x vec, dst operand.Mem) {
	r, low := g.v(), g.v()
	g.VPSRLD(operand.U8(16), x, low)
	g.and(low, low, konst(1))
	g.addi(r, x, konst(0x7fff))
	g.addi(r, r, low)
	quiet := g.set(g.or, x, konst(0x00400000))
	r = g.pick(g.cmp(cmpUnord, x, x), quiet, r)
	g.VPSRLD(operand.U8(16), r, r)
	if g.isa.zmm {
		g.VPMOVDW(r, dst)
		return
	}
	g.VPACKUSDW(r, r, r) // each half twice: quarters 0 and 2 hold the result
	g.VPERMQ(operand.U8(0x08), r, r)
	g.VMOVDQU(r.AsX(), dst)
}
