package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
)

// Products of rows that are quantized to bytes with columns of 4 or 8 bits: VPDPBUSD, AVX-512. Four bytes of a column lie together.
// Numbers of 4 bits are masked where they lie, and sums of the high ones, 16 times as large, are divided once in a block:
//
//	column, 32 bits:  h3 l3 h2 l2 h1 l1 h0 l0   & 0f0f0f0f ─▶ l3 l2 l1 l0     row:  x[k], k = 0 2 4 6, 1 3 5 7
//	                                            & f0f0f0f0 ─▶ 16·(h3 h2 h1 h0)
//
// Eight numbers of 8 bits are two words in the same order. A block of a row is a record: its bytes in this order, its scale, and the sum of the bytes.

// nbitsBytes emits the products of h rows of records with a panel:
//
//	out[row] += Σ over blocks: scale · (xscale · (Σ over k: x[k]·q[k] − zero · xsum))
//
// Zero points are bytes.
func (g *gen) nbitsBytes(bits, h int) {
	args := g.kernel("nbitsRows", fmt.Sprintf("Bytes%dx%d", bits, h))
	t := &nbitsTile{gen: g, bits: bits, h: h, w: g.field(args, nbW)}
	var masks []vec
	if bits == 4 {
		masks = []vec{g.splat(0x0f0f0f0f), g.splat(0xf0f0f0f0)}
	}
	x, scale, zero, blocks := g.field(args, nbX), g.field(args, nbScale), g.field(args, nbZero), g.field(args, nbBlocks)
	t.rowsOf(x, g.field(args, nbLDX))
	out := t.outOf(args)
	g.loop("block", blocks, 1, func() {
		t.sums = make([][][2]vec, 2)
		for p := range t.sums {
			for range h {
				t.sums[p] = append(t.sums[p], [2]vec{g.zeroed(), g.zeroed()})
			}
		}
		for j := 0; j < 2*g.bytes(); j += 64 {
			g.PREFETCHT0(at(scale, nbAhead/4+j))
		}
		t.byteBlock(x, g.field(args, nbRows), masks)
		t.scaled(scale, zero, out)
		g.advance(8, x)
		g.advance(2*g.bytes(), scale)
		g.ADDQ(at(args, nbZeroStep), zero)
	})
	out.store()
	g.ret()
}

// byteBlock sums up n times eight numbers of each column.
func (t *nbitsTile) byteBlock(x, n gp, masks []vec) {
	t.loop("words", n, 1, func() {
		size := t.bits / 4 * 2 * t.bytes()
		for j := 0; j < size; j += t.bytes() {
			t.PREFETCHT0(at(t.w, nbAhead+j))
		}
		q := t.words(masks)
		for p := range q {
			for i, m := range t.x {
				m.Disp += 4 * p
				v := t.to(t.VPBROADCASTD, m)
				t.VPDPBUSD(v, q[p][0], t.sums[p][i][0])
				t.VPDPBUSD(v, q[p][1], t.sums[p][i][1])
			}
		}
		t.advance(size, t.w)
		t.advance(2*4, x)
	})
}

// words are those that go with the two words of a row.
func (t *nbitsTile) words(masks []vec) (q [2][2]vec) {
	for j := range 2 {
		q[0][j] = t.ld(at(t.w, j*t.bytes()))
		if t.bits == 8 {
			q[1][j] = t.ld(at(t.w, (2+j)*t.bytes()))
			continue
		}
		q[1][j] = t.set(t.and, q[0][j], masks[1])
		t.and(q[0][j], q[0][j], masks[0])
	}
	return q
}

// scaled adds the sums of a block to those of the rows; the records' scales and sums are next.
func (t *nbitsTile) scaled(scale, zero gp, out *nbitsOut) {
	var z [2]vec
	for j := range z {
		z[j] = t.to(t.VPMOVZXBD, at(zero, j*t.isa.w))
		t.VCVTDQ2PS(z[j], z[j])
	}
	for i, m := range t.x {
		sum := m
		sum.Disp += 4
		xsum := t.to(t.VBROADCASTSS, sum)
		for j := range 2 {
			v := t.sums[0][i][j]
			if t.bits == 4 {
				t.VPSRAD(operand.U8(4), t.sums[1][i][j], t.sums[1][i][j])
			}
			t.addi(v, v, t.sums[1][i][j])
			t.VCVTDQ2PS(v, v)
			t.fnma(v, xsum, z[j])
			t.VMULPS_BCST(m, v, v)
			out.add(i, j, v, at(scale, j*t.bytes()))
		}
	}
}

// nbitsOut are the sums of the rows: in registers where there are enough, else in memory.
type nbitsOut struct {
	*nbitsTile
	p     gp
	inReg [][2]vec
}

// nbitsOutRows is how many rows keep their sums in registers.
const nbitsOutRows = 2

func (t *nbitsTile) outOf(args gp) *nbitsOut {
	o := &nbitsOut{nbitsTile: t, p: t.field(args, nbOut)}
	if t.h <= nbitsOutRows {
		o.each(func(i, j int, m operand.Mem) {
			if j == 0 {
				o.inReg = append(o.inReg, [2]vec{})
			}
			o.inReg[i][j] = t.ld(m)
		})
	}
	return o
}

// each calls f with the memory of every vector; rows are as far apart as a panel is wide.
func (o *nbitsOut) each(f func(i, j int, m operand.Mem)) {
	for i := range o.h {
		for j := range 2 {
			f(i, j, at(o.p, (2*i+j)*o.bytes()))
		}
	}
}

// add adds v·scale to a vector of a row.
func (o *nbitsOut) add(i, j int, v vec, scale operand.Mem) {
	if o.inReg != nil {
		o.fma(o.inReg[i][j], v, scale)
		return
	}
	sum := o.ld(at(o.p, (2*i+j)*o.bytes()))
	o.fma(sum, v, scale)
	o.st(sum, at(o.p, (2*i+j)*o.bytes()))
}

// store writes sums that are in registers.
func (o *nbitsOut) store() {
	if o.inReg != nil {
		o.each(func(i, j int, m operand.Mem) { o.st(o.inReg[i][j], m) })
	}
}

// nbitsQuantize emits the quantization of n blocks to records. The largest magnitude becomes 127; that of bits is compared, in whose
// order NaN is above all numbers, so that the scale of a block with one is NaN.
func (g *gen) nbitsQuantize() {
	g.fn("nbitsQuantize", "(dst *byte, src *float32, block, n int)",
		"quantizes n blocks to records: bytes, of eight the even ones first, the scale and the sum of the bytes.")
	dst, src, block, n := g.arg("dst"), g.arg("src"), g.arg("block"), g.arg("n")
	order := g.ld(g.table("evenodd", 16, func(i int) uint32 { return uint32(i&8 + i*2&6 + i/4&1) }))
	abs, most, least := g.splat(0x7fffffff), g.splat(f32(127)), g.splat(f32(-127))
	top, one := g.splat(0x7f7fffff), g.splat(f32(1))
	g.loop("block", n, 1, func() {
		largest, p, left := g.zeroed(), g.GP64(), g.GP64()
		g.MOVQ(src, p)
		g.MOVQ(block, left)
		g.loop("largest", left, g.isa.w, func() {
			v := g.to(g.VPANDD, at(p, 0), abs)
			g.VPMAXUD(v, largest, largest)
			g.advance(g.bytes(), p)
		})
		g.fold(largest, func(d, a vec, b any) { g.three(g.VPMAXUD, nil, d, a, b) })
		scale := g.set(g.div, largest, most)
		inverse := g.set(g.min, scale, top)
		g.div(inverse, one, inverse)
		g.min(inverse, inverse, top)
		sum := g.zeroed()
		g.MOVQ(block, left)
		g.loop("bytes", left, g.isa.w, func() {
			v := g.set(g.mul, inverse, at(src, 0))
			g.min(v, v, most)
			g.max(v, v, least)
			g.VCVTPS2DQ(v, v)
			g.addi(sum, sum, v)
			g.VPERMD(v, order, v)
			g.VPMOVDB(v, at(dst, 0))
			g.advance(g.bytes(), src)
			g.advance(g.isa.w, dst)
		})
		g.fold(sum, g.addi)
		g.VCVTDQ2PS(sum, sum)
		g.VMOVSS(scale.AsX(), at(dst, 0))
		g.VMOVSS(sum.AsX(), at(dst, 4))
		g.advance(8, dst)
	})
	g.ret()
}
