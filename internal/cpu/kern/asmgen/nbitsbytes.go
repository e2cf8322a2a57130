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
// Of three digits, a record has those of sixteen numbers after each other, the lowest digits first, and the sums of all three:
//
//	x = 65536·d2 + 256·d1 + d0        d0: 0 2 4 6, 1 3 5 7, 8 10 12 14, 9 11 13 15   d1: …   d2: …        scale   Σd0   Σd1   Σd2
//
// There are registers for the sums of high and low numbers of one row; with four rows numbers are shifted instead.

// nbitsBytes emits the products of h rows of records with a panel:
//
//	out[row] += Σ over blocks: scale · (xscale · (Σ over k: x[k]·q[k] − zero · xsum))
//
// Zero points are bytes.
func (g *gen) nbitsBytes(bits, h, digits int) {
	args := g.kernel("nbitsRows", fmt.Sprintf("Bytes%dx%dx%d", bits, h, digits))
	t := &nbitsTile{gen: g, bits: bits, h: h, digits: digits, together: h*digits > 4, w: g.field(args, nbW)}
	var masks []vec
	if bits == 4 {
		masks = []vec{g.splat(0x0f0f0f0f)}
		if !t.together {
			masks = append(masks, g.splat(0xf0f0f0f0))
		}
	}
	x, scale, zero, blocks := g.field(args, nbX), g.field(args, nbScale), g.field(args, nbZero), g.field(args, nbBlocks)
	t.rowsOf(x, g.field(args, nbLDX))
	out := t.outOf(args)
	g.loop("block", blocks, 1, func() {
		t.sums = make([][][2]vec, 2*digits)
		if t.together {
			t.sums = t.sums[:digits]
		}
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
		g.advance(4+4*digits, x)
		g.advance(2*g.bytes(), scale)
		g.ADDQ(at(args, nbZeroStep), zero)
	})
	out.store()
	g.ret()
}

// byteBlock sums up n times eight numbers of each column; of three digits, n is even.
func (t *nbitsTile) byteBlock(x, n gp, masks []vec) {
	round := 1
	if t.digits > 1 {
		round = 2
	}
	t.loop("words", n, round, func() {
		size := t.bits / 4 * 2 * t.bytes()
		for e := range round {
			for j := 0; j < size; j += t.bytes() {
				t.PREFETCHT0(at(t.w, nbAhead+e*size+j))
			}
			t.wordProducts(t.words(e*size, masks), 8*round, 8*e)
		}
		t.advance(round*size, t.w)
		t.advance(round*t.digits*2*4, x)
	})
}

// wordProducts adds the products of two words with those of the rows, whose digits are some bytes apart.
func (t *nbitsTile) wordProducts(q [2][2]vec, apart, first int) {
	for p := range q {
		for d := range t.digits {
			sums := t.sums[(p*t.digits+d)%len(t.sums)]
			for i, m := range t.x {
				m.Disp += first + d*apart + 4*p
				v := t.to(t.VPBROADCASTD, m)
				t.VPDPBUSD(v, q[p][0], sums[i][0])
				t.VPDPBUSD(v, q[p][1], sums[i][1])
			}
		}
	}
}

// words are those that go with the two words of a row, from a byte on.
func (t *nbitsTile) words(from int, masks []vec) (q [2][2]vec) {
	for j := range 2 {
		q[0][j] = t.ld(at(t.w, from+j*t.bytes()))
		switch {
		case t.bits == 8:
			q[1][j] = t.ld(at(t.w, from+(2+j)*t.bytes()))
			continue
		case t.together:
			q[1][j] = t.to(t.VPSRLD, operand.U8(4), q[0][j])
			t.and(q[1][j], q[1][j], masks[0])
		default:
			q[1][j] = t.set(t.and, q[0][j], masks[1])
		}
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
		for d := range t.digits {
			sum := m
			sum.Disp += 4 + 4*d
			xsum := t.to(t.VBROADCASTSS, sum)
			for j := range 2 {
				v := t.digitSum(d, i, j)
				t.VCVTDQ2PS(v, v)
				t.fnma(v, xsum, z[j])
			}
		}
		for j := range 2 {
			for d := t.digits - 1; d > 0; d-- {
				t.fma(t.sums[d-1][i][j], t.sums[d][i][j], f32(256))
			}
			v := t.sums[0][i][j]
			t.VMULPS_BCST(m, v, v)
			out.add(i, j, v, at(scale, j*t.bytes()))
		}
	}
}

// digitSum is the sum of the products with a digit of a row.
func (t *nbitsTile) digitSum(d, i, j int) vec {
	v := t.sums[d][i][j]
	if t.together {
		return v
	}
	high := t.sums[t.digits+d][i][j]
	if t.bits == 4 {
		t.VPSRAD(operand.U8(4), high, high)
	}
	t.addi(v, v, high)
	return v
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

// nbitsQuantize emits the quantization of n blocks to records of so many digits. The largest magnitude becomes the largest number that these can write;
// that of bits is compared, in whose order NaN is above all numbers, so that the scale of a block with one is NaN.
func (g *gen) nbitsQuantize(name string, digits int) {
	g.fn(name, "(dst *byte, src *float32, block, n int)",
		fmt.Sprintf("quantizes n blocks to records of %d digits: bytes, of eight the even ones first, the scale and the sum of the bytes of a digit.", digits))
	dst, src, block, n := g.arg("dst"), g.arg("src"), g.arg("block"), g.arg("n")
	order := g.ld(g.table("evenodd", 16, func(i int) uint32 { return uint32(i&8 + i*2&6 + i/4&1) }))
	largestNumber := map[int]float64{1: 127, 3: 127*65536 + 127*256 + 127}[digits]
	abs, most, least := g.splat(0x7fffffff), g.splat(f32(largestNumber)), g.splat(f32(-largestNumber))
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
		var divisor vec
		if digits > 1 {
			g.VPMAXUD_BCST(g.konstMem(0x00800000), scale, scale) // the least normal number; as bits, for NaN to stay
			divisor = g.set(g.min, scale, top)
		} else {
			divisor = g.set(g.min, scale, top)
			g.div(divisor, one, divisor) // the inverse
			g.min(divisor, divisor, top)
		}
		var sums []vec
		for range digits {
			sums = append(sums, g.zeroed())
		}
		g.MOVQ(block, left)
		g.loop("bytes", left, g.isa.w, func() {
			var v vec
			if digits > 1 {
				v = g.ld(at(src, 0))
				g.div(v, v, divisor)
			} else {
				v = g.set(g.mul, divisor, at(src, 0))
			}
			g.min(v, v, most)
			g.max(v, v, least)
			g.VCVTPS2DQ(v, v)
			for d, sum := range sums {
				low := v
				if d < digits-1 {
					low = g.to(g.VPSLLD, operand.U8(24), v)
					g.VPSRAD(operand.U8(24), low, low)
					g.VPSUBD(low, v, v)
					g.VPSRAD(operand.U8(8), v, v)
				}
				g.addi(sum, sum, low)
				g.VPERMD(low, order, low)
				g.VPMOVDB(low, at(dst, d*g.isa.w))
			}
			g.advance(g.bytes(), src)
			g.advance(digits*g.isa.w, dst)
		})
		g.VMOVSS(scale.AsX(), at(dst, 0))
		for d, sum := range sums {
			g.fold(sum, g.addi)
			g.VCVTDQ2PS(sum, sum)
			g.VMOVSS(sum.AsX(), at(dst, 4+4*d))
		}
		g.advance(4+4*digits, dst)
	})
	g.ret()
}
