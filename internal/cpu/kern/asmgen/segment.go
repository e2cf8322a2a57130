package main

import "github.com/mmcloughlin/avo/operand"

// Segments: kernels that copy, for n channels, one vector's worth of pixels of the
// implicit matrix of a convolution: dst[c·dstStride + lane] = src[c·srcStride +
// lane·s] for the lanes in mask. "Fill" clears the other lanes, "Merge" keeps
// what dst holds there. src + off is where lane 0 would lie; it may be outside
// of the source when lane 0 is not selected, hence the separate offset. Memory of
// unselected lanes is not touched. The step s between pixels is 1, 2 (two loads and a
// permutation) or any number (gather).

// laneMask turns the bits of an argument into a mask.
func (g *gen) laneMask(bits gp) mask {
	if g.isa.zmm {
		k := g.K()
		g.KMOVW(bits.As32(), k)
		return mask{k: k}
	}
	// Spread the bits: broadcast, isolate one bit per lane, compare.
	x, v := g.XMM(), g.YMM()
	g.VMOVQ(bits, x)
	g.VPBROADCASTD(x, v)
	sel := g.table("lanebits", 8, func(i int) uint32 { return 1 << i })
	g.VPAND(sel, v, v)
	g.VPCMPEQD(sel, v, v)
	return mask{v: v}
}

// keep merges the selected lanes of x into memory.
func (g *gen) keep(x vec, m operand.Mem, t mask, fill bool) {
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

// segmentOf begins a segment kernel and loads the arguments that all have.
func (g *gen) segmentOf(name, args, doc string) (dst, src, n, ds, ss, bits gp) {
	g.fn("segment"+name, "(dst, src *float32, n, dstStride, srcStride, mask, off"+args+" int)", doc+"; strides are in bytes.")
	dst, src, n = g.arg("dst"), g.arg("src"), g.arg("n")
	g.ADDQ(g.arg("off"), src)
	return dst, src, n, g.arg("dstStride"), g.arg("srcStride"), g.arg("mask")
}

// channels emits the loop over channels; load gives the pixels of one.
func (g *gen) channels(dst, src, n, ds, ss gp, m mask, fill bool, load func() vec) {
	g.loop("one", n, 1, func() {
		g.keep(load(), at(dst, 0), m, fill)
		g.ADDQ(ss, src)
		g.ADDQ(ds, dst)
	})
	g.ret()
}

// segment copies adjacent pixels, two channels at a time.
func (g *gen) segment(name string, fill bool) {
	dst, src, n, ds, ss, bits := g.segmentOf(name, "", "copies adjacent pixels")
	m := g.laneMask(bits)
	g.loop("two", n, 2, func() {
		x, y := g.ldTail(at(src, 0), m), g.ldTail(indexed(src, ss, 1), m)
		g.keep(x, at(dst, 0), m, fill)
		g.keep(y, indexed(dst, ds, 1), m, fill)
		g.LEAQ(indexed(src, ss, 2), src)
		g.LEAQ(indexed(dst, ds, 2), dst)
	})
	g.loop("one", n, 1, func() {
		g.keep(g.ldTail(at(src, 0), m), at(dst, 0), m, fill)
	})
	g.ret()
}

// segment2 takes every second element: lane i reads element 2i of two vectors.
func (g *gen) segment2(name string, fill bool) {
	dst, src, n, ds, ss, bits := g.segmentOf(name, "", "copies every second pixel")
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
		idx = g.ld(g.table("evenlanes", 16, func(i int) uint32 { return uint32(2 * i) }))
	}
	g.channels(dst, src, n, ds, ss, lanes, fill, func() vec {
		x, y := g.ldTail(at(src, 0), lo), g.ldTail(at(src, g.bytes()), hi)
		if g.isa.zmm {
			g.VPERMT2PS(y, idx, x)
		} else {
			g.VSHUFPS(operand.U8(0x88), y, x, x)
			g.VPERMPD(operand.U8(0xd8), x, x)
		}
		return x
	})
}

// segmentN gathers elements step apart.
func (g *gen) segmentN(name string, fill bool) {
	dst, src, n, ds, ss, bits := g.segmentOf(name, ", step", "copies pixels that lie step elements apart")
	m := g.laneMask(bits)
	step, idx, x := g.arg("step"), g.v(), g.XMM()
	g.VMOVQ(step, x)
	g.VPBROADCASTD(x, idx)
	g.VPMULLD(g.table("laneindex", 16, func(i int) uint32 { return uint32(i) }), idx, idx)
	g.channels(dst, src, n, ds, ss, m, fill, func() vec {
		v, mem := g.zeroed(), indexed(src, idx, 4)
		if g.isa.zmm {
			k := g.K()
			g.KMOVW(m.k, k) // the gather clears its mask
			g.VGATHERDPS(mem, k, v)
		} else {
			g.VGATHERDPS(g.copyOf(m.v), mem, v)
		}
		return v
	})
}
