package main

import "github.com/mmcloughlin/avo/operand"

// Segment kernels copy, for n channels, one vector's worth of pixels of the
// implicit matrix of a convolution: dst[c·dstStride + lane] = src[c·srcStride +
// lane·s] for the lanes in mask. "Fill" clears the other lanes, "Merge" keeps
// what dst holds there. src + off is where lane 0 would lie; it may be outside
// of the source when lane 0 is not selected, hence the separate offset. Memory of unselected lanes is not touched. The step s
// between pixels is 1, 2 (two loads and a permutation) or any number (gather).

// laneMask turns the bits of an argument into a mask.
func (g *gen) laneMask(bits gp) tail {
	if g.isa.zmm {
		k := g.K()
		g.KMOVW(bits.As32(), k)
		return tail{k: k}
	}
	// Spread the bits: broadcast, isolate one bit per lane, compare.
	x, v := g.XMM(), g.YMM()
	g.MOVQ(bits, x)
	g.VPBROADCASTD(x, v)
	sel := g.laneBits()
	g.VPAND(sel, v, v)
	g.VPCMPEQD(sel, v, v)
	return tail{v: v}
}

// laneBits is memory holding 1, 2, 4, … 128.
func (g *gen) laneBits() operand.Mem {
	return g.table("lanebits", func(i int) uint32 { return 1 << i }, 8)
}

// laneIndex is memory holding 0, 1, 2, … 15.
func (g *gen) laneIndex() operand.Mem {
	return g.table("laneindex", func(i int) uint32 { return uint32(i) }, 16)
}

// keep merges the selected lanes of x into memory.
func (g *gen) keep(x vec, m operand.Mem, t tail, fill bool) {
	switch {
	case fill:
		g.st(x, m)
	case g.isa.zmm:
		g.VMOVUPS(x, t.k, m)
	default:
		old := g.ld(m)
		g.VBLENDVPS(t.v, x, old, old)
		g.st(old, m)
	}
}

// segmentArgs are shared by the segment kernels.
const segmentArgs = "(dst, src *float32, n, dstStride, srcStride, mask, off int)"

func (g *gen) segment(name string, fill bool) {
	g.fn("segment"+name, segmentArgs, "copies adjacent pixels; strides are in bytes.")
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	g.ADDQ(g.arg("off"), src)
	ds, ss := g.arg("dstStride"), g.arg("srcStride")
	m := g.laneMask(g.arg("mask"))
	g.loop("two", n, 2, func() {
		x := g.ldTail(at(src, 0), m)
		y := g.ldTail(operand.Mem{Base: src, Index: ss, Scale: 1}, m)
		g.keep(x, at(dst, 0), m, fill)
		g.keep(y, operand.Mem{Base: dst, Index: ds, Scale: 1}, m, fill)
		g.LEAQ(operand.Mem{Base: src, Index: ss, Scale: 2}, src)
		g.LEAQ(operand.Mem{Base: dst, Index: ds, Scale: 2}, dst)
	})
	g.loop("one", n, 1, func() {
		g.keep(g.ldTail(at(src, 0), m), at(dst, 0), m, fill)
	})
	g.ret()
}

// segment2 takes every second element: lane i reads element 2i of two vectors.
func (g *gen) segment2(name string, fill bool) {
	g.fn("segment"+name, segmentArgs, "copies every second pixel; strides are in bytes.")
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	g.ADDQ(g.arg("off"), src)
	ds, ss, bits := g.arg("dstStride"), g.arg("srcStride"), g.arg("mask")
	lanes := g.laneMask(bits)
	// Bit i of the lane mask becomes bit 2i of the source mask.
	spread, pick := g.GP64(), g.GP64()
	g.MOVQ(operand.U32(0x55555555), pick)
	g.PDEPQ(pick, bits, spread)
	lo := g.laneMask(spread)
	g.SHRQ(operand.U8(uint8(g.isa.w)), spread)
	hi := g.laneMask(spread)
	var idx vec
	if g.isa.zmm {
		idx = g.ld(g.table("evenlanes", func(i int) uint32 { return uint32(2 * i) }, 16))
	}
	g.loop("one", n, 1, func() {
		x, y := g.ldTail(at(src, 0), lo), g.ldTail(at(src, g.bytes()), hi)
		if g.isa.zmm {
			g.VPERMT2PS(y, idx, x)
		} else {
			g.VSHUFPS(operand.U8(0x88), y, x, x)
			g.VPERMPD(operand.U8(0xd8), x, x)
		}
		g.keep(x, at(dst, 0), lanes, fill)
		g.ADDQ(ss, src)
		g.ADDQ(ds, dst)
	})
	g.ret()
}

// segmentN gathers elements step apart.
func (g *gen) segmentN(name string, fill bool) {
	g.fn("segment"+name, "(dst, src *float32, n, dstStride, srcStride, mask, off, step int)",
		"copies pixels that lie step elements apart; strides are in bytes.")
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	g.ADDQ(g.arg("off"), src)
	ds, ss := g.arg("dstStride"), g.arg("srcStride")
	m := g.laneMask(g.arg("mask"))
	step, idx, x := g.arg("step"), g.v(), g.XMM()
	g.MOVQ(step, x)
	g.VPBROADCASTD(x, idx)
	g.VPMULLD(g.laneIndex(), idx, idx)
	g.loop("one", n, 1, func() {
		v := g.v()
		g.zero(v)
		mem := operand.Mem{Base: src, Index: idx, Scale: 4}
		if g.isa.zmm {
			k := g.K()
			g.KMOVW(m.k, k) // the gather clears its mask
			g.VGATHERDPS(mem, k, v)
		} else {
			mv := g.copyOf(m.v)
			g.VGATHERDPS(mv, mem, v)
		}
		g.keep(v, at(dst, 0), m, fill)
		g.ADDQ(ss, src)
		g.ADDQ(ds, dst)
	})
	g.ret()
}
