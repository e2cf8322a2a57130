package main

import (
	"strconv"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The micro-kernel of convolutions of bytes whose channels lie side by side: h neighbouring pixels of
// one output row by two vectors of output channels.
//
//	                weights: [word][2 vectors of channels]
//	                ┌──────┬──────┐
//	                │  w0  │  w1  │ ← loaded once per word of four bytes
//	                └──────┴──────┘
//	 x[pixel 0] ─▶   acc    acc       acc += Σ of four products: VPDPBUSD
//	 x[pixel s] ─▶   acc    acc       h = 1..14
//
// The words of a window lie in runs, a distance from its first byte each. Nothing is packed: a pixel
// is read where it lies.

// Fields of the argument block, in bytes; package simd declares the same order.
const (
	bpIn, bpW, bpSums, bpStart         = 0, 8, 16, 24
	bpOffs, bpRuns, bpWords, bpPixel   = 32, 40, 48, 56
	bpOut, bpOutRow, bpCols, bpFactors = 64, 72, 80, 88
	bpFlip, bpZeros                    = 96, 100
	bpAhead, bpAheadStep               = 104, 112
)

func emitBytePixels(g *gen) {
	g.isa = avx512
	for h := 1; h <= g.isa.rows; h++ {
		g.bytePixels(h)
	}
	g.family("bytePixels", "sums up the windows of i+1 pixels for two vectors of output channels.")
	g.requantPixels()
	g.depthPixels()
}

func (g *gen) bytePixels(h int) {
	args := g.kernel("bytePixels", strconv.Itoa(h))
	d := &direct{gen: g, t: h, blocks: 2, args: args, acc: make([][]vec, h)}
	start := d.field(args, bpStart)
	first := []vec{g.ld(at(start, 0)), g.ld(at(start, g.bytes()))}
	for i := range d.acc {
		d.acc[i] = first
		if i+1 < h {
			d.acc[i] = []vec{g.copyOf(first[0]), g.copyOf(first[1])}
		}
	}
	d.s, d.w = d.field(args, bpPixel), d.field(args, bpW)
	offs, runs, ahead := d.field(args, bpOffs), d.field(args, bpRuns), d.field(args, bpAhead)
	g.ADDQ(d.w, ahead)
	d.count("run", runs, func() {
		d.base[0] = g.GP64()
		g.MOVQ(at(args, bpIn), d.base[0])
		g.ADDQ(at(offs, 0), d.base[0])
		g.advance(8, offs)
		words := d.field(args, bpWords)
		g.loop("words", words, 1, func() {
			for j := range 2 {
				g.PREFETCHT0(at(ahead, j*g.bytes()))
			}
			g.ADDQ(at(args, bpAheadStep), ahead)
			d.byteWord()
		})
	})
	out := d.field(args, bpOut)
	g.TESTQ(out, out)
	g.JNZ(operand.LabelRef("bytes"))
	sums := d.field(args, bpSums)
	for i := range d.acc {
		for j := range 2 {
			g.st(d.acc[i][j], at(sums, (2*i+j)*g.bytes()))
		}
	}
	g.ret()
	g.Label("bytes")
	d.toRows(args, out)
	g.ret()
}

// toRows requantizes the sums and stores them, two rows at a time. Factors below one keep them within 32 bits, so that saturation
// while packing is all that bounds them.
func (d *direct) toRows(args, out gp) {
	g := d.gen
	row, factors := d.field(args, bpOutRow), d.field(args, bpFactors)
	k, order := g.firstBytes(d.field(args, bpCols)), g.quarters()
	zeros := g.to(g.VPBROADCASTD, at(args, bpZeros))
	for i := 0; i < d.t; i += 2 {
		rows := append(d.acc[i:], d.acc[i])[:2] // a last row stands for two
		v := [4]vec{rows[0][0], rows[0][1], rows[1][0], rows[1][1]}
		n := 2 * min(2, d.t-i)
		for j, x := range v[:n] {
			g.VCVTDQ2PS(x, x)
			g.mul(x, x, at(factors, j%2*g.bytes()))
			g.VCVTPS2DQ(x, x)
		}
		for j := 0; j < n; j += 2 {
			g.VPACKSSDW(v[j+1], v[j], v[j])
			g.VPADDSW(zeros, v[j], v[j])
		}
		y := v[0]
		g.VPACKSSWB(v[n-2], y, y)
		g.VPXORD_BCST(at(args, bpFlip), y, y)
		g.VPERMD(y, order, y)
		g.VMOVDQU8(y.AsY(), k, at(out, 0))
		g.ADDQ(row, out)
		if n == 4 {
			g.VEXTRACTI64X4(operand.U8(1), y, y.AsY())
			g.VMOVDQU8(y.AsY(), k, at(out, 0))
			g.ADDQ(row, out)
		}
	}
}

// byteWord multiplies a word of the window.
func (d *direct) byteWord() {
	for i := 1; i < 5 && 3*i < d.t; i++ {
		d.base[i] = d.third(d.base[i-1], d.s)
	}
	w := [2]vec{d.ld(at(d.w, 0)), d.ld(at(d.w, d.bytes()))}
	for i := range d.acc {
		x := d.to(d.VPBROADCASTD, pixelAt(d.base[:], d.s, i, 0))
		for j := range w {
			d.VPDPBUSD(w[j], x, d.acc[i][j])
		}
	}
	d.advance(2*d.bytes(), d.w)
	d.advance(4, d.base[0])
}

// requantPixels emits a requantization of rows of two vectors with a factor for each column, two rows at a time:
// saturation while packing takes the place of a clamp and of the conversion of each vector to bytes.
func (g *gen) requantPixels() {
	g.fn("requantPixels", "(dst *byte, src *int32, rows, cols, dstRow int, factors *float32, most float32, zeros int32, flip uint32)",
		"is saturate(round(min(src·factor, most)) + zero) with flip added by exclusive or, for rows of 32 sums of which cols are stored; zeros is the zero point of the signed bytes twice, in 16 bits each.")
	dst, src, rows, step, factors := g.arg("dst"), g.arg("src"), g.arg("rows"), g.arg("dstRow"), g.arg("factors")
	most, zeros, flip, order := g.argVec("most"), g.argVec("zeros"), g.argVec("flip"), g.quarters()
	k := g.firstBytes(g.arg("cols"))
	scale := [2]vec{g.ld(at(factors, 0)), g.ld(at(factors, g.bytes()))}
	g.Label("pair")
	var v [4]vec
	for i := range v {
		v[i] = g.to(g.VCVTDQ2PS, at(src, i*g.bytes()))
		g.mul(v[i], v[i], scale[i%2])
	}
	y := g.narrowFour(v, most, &zeros, g.VPACKSSWB)
	g.VPXORD(flip, y, y)
	g.VPERMD(y, order, y)
	g.VMOVDQU8(y.AsY(), k, at(dst, 0))
	g.CMPQ(rows, operand.I32(2))
	g.JLT(operand.LabelRef("end"))
	second := g.YMM()
	g.VEXTRACTI64X4(operand.U8(1), y, second)
	g.VMOVDQU8(second, k, indexed(dst, step, 1))
	g.LEAQ(indexed(dst, step, 2), dst)
	g.advance(4*g.bytes(), src)
	g.SUBQ(operand.I32(2), rows)
	g.JNZ(operand.LabelRef("pair"))
	g.Label("end")
	g.ret()
}

// firstBytes is the mask of the first n bytes, n at most 64; n is not kept.
func (g *gen) firstBytes(n gp) (k reg.OpmaskVirtual) {
	ones := g.GP64()
	g.MOVQ(operand.I32(-1), ones)
	g.BZHIQ(n, ones, n)
	k = g.K()
	g.KMOVQ(n, k)
	return k
}

// Fields of the argument block of depthPixels, in bytes; package simd declares the same order.
const (
	dpIn, dpOut, dpW, dpStart, dpOffs = 0, 8, 16, 24, 32
	dpQuads, dpVectors, dpPeriod      = 40, 48, 56
	dpRows, dpInRow, dpOutRow, dpLast = 64, 72, 80, 88
	dpMost, dpZeros, dpFlip           = 96, 100, 104
)

// depthPixels emits windows of one channel each over pixels whose channels lie side by side: 64 bytes of four taps are
// interleaved, so that a word holds the taps of a channel, and each quarter of the four vectors that result
// has four channels of its own. Packing sums to bytes undoes that order.
//
//	tap 0   a0 a1 a2 a3 …          a0 b0 c0 d0 │ a1 b1 c1 d1 │ a2 …       VPDPBUSD with the weights
//	tap 1   b0 b1 b2 b3 …    ──▶                                          of channels 0, 1, 2 …
//	tap 2   c0 c1 c2 c3 …
//	tap 3   d0 d1 d2 d3 …
//
// Weights, starts of sums and factors repeat after a period of vectors.
func (g *gen) depthPixels() {
	g.fn("depthPixels", "(args *byte)", "sums up and quantizes rows of windows of one channel each.")
	args := g.arg("args")
	bits := func(off int) vec { return g.to(g.VBROADCASTSS, at(args, off)) }
	most, zeros, flip := bits(dpMost), bits(dpZeros), bits(dpFlip)
	k := g.firstBytes(g.field(args, dpLast))
	in, out, w, start := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	n, period, quads, offs, tap := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	load := func(off int, r gp) { g.MOVQ(at(args, off), r) }
	repeat := func() {
		load(dpW, w)
		load(dpStart, start)
		load(dpPeriod, period)
	}
	g.Label("row")
	load(dpIn, in)
	load(dpOut, out)
	load(dpVectors, n)
	g.Label("repeat")
	repeat()
	g.Label("vector")
	var acc [4]vec
	for j := range acc {
		acc[j] = g.ld(at(start, j*g.bytes()))
	}
	load(dpOffs, offs)
	load(dpQuads, quads)
	g.Label("quad")
	var x [4]vec
	for i := range x {
		g.MOVQ(at(offs, 8*i), tap)
		x[i] = g.ld(indexed(in, tap, 1))
	}
	for j, q := range g.tapWords(x) {
		g.VPDPBUSD(at(w, j*g.bytes()), q, acc[j])
	}
	g.advance(4*8, offs)
	g.advance(4*g.bytes(), w)
	g.DECQ(quads)
	g.JNZ(operand.LabelRef("quad"))
	for j, v := range acc {
		g.VCVTDQ2PS(v, v)
		g.mul(v, v, at(start, (4+j)*g.bytes()))
	}
	y := g.narrowFour(acc, most, &zeros, g.VPACKSSWB)
	g.VPXORD(flip, y, y)
	g.DECQ(n)
	g.JZ(operand.LabelRef("last"))
	g.st(y, at(out, 0))
	g.advance(g.bytes(), in, out)
	g.advance(8*g.bytes(), start)
	g.DECQ(period)
	g.JNZ(operand.LabelRef("vector"))
	g.JMP(operand.LabelRef("repeat"))
	g.Label("last")
	g.VMOVDQU8(y, k, at(out, 0))
	for _, f := range [][2]int{{dpIn, dpInRow}, {dpOut, dpOutRow}} {
		load(f[1], tap)
		g.ADDQ(tap, at(args, f[0]))
	}
	g.DECQ(at(args, dpRows))
	g.JNZ(operand.LabelRef("row"))
	g.ret()
}

// tapWords interleaves the bytes of four vectors to words.
func (g *gen) tapWords(x [4]vec) (q [4]vec) {
	ab := [2]vec{g.to(g.VPUNPCKLBW, x[1], x[0]), g.to(g.VPUNPCKHBW, x[1], x[0])}
	cd := [2]vec{g.to(g.VPUNPCKLBW, x[3], x[2]), g.to(g.VPUNPCKHBW, x[3], x[2])}
	for i := range 2 {
		q[2*i], q[2*i+1] = g.to(g.VPUNPCKLWD, cd[i], ab[i]), g.to(g.VPUNPCKHWD, cd[i], ab[i])
	}
	return q
}

// emitBytePlane copies rows of bytes into larger ones.
func emitBytePlane(g *gen) {
	g.isa = avx512
	g.fn("bytePlane", "(dst, src *byte, rows, n, dstRow, srcRow int, flip uint32)", "copies rows of n bytes, dstRow and srcRow apart, with flip added to each word by exclusive or.")
	rows, dstRow, srcRow, dstStep, srcStep := g.arg("rows"), g.arg("dst"), g.arg("src"), g.arg("dstRow"), g.arg("srcRow")
	flip, last := g.argVec("flip"), g.arg("n")
	g.ANDQ(operand.I32(63), last)
	k := g.firstBytes(last)
	g.loop("row", rows, 1, func() {
		dst, src, n := g.GP64(), g.GP64(), g.arg("n")
		g.MOVQ(dstRow, dst)
		g.MOVQ(srcRow, src)
		g.loop("whole", n, 64, func() {
			v := g.v()
			g.VPXORD(at(src, 0), flip, v)
			g.st(v, at(dst, 0))
			g.advance(64, dst, src)
		})
		v := g.v()
		g.VMOVDQU8_Z(at(src, 0), k, v)
		g.VPXORD(v, flip, v)
		g.VMOVDQU8(v, k, at(dst, 0))
		g.ADDQ(dstStep, dstRow)
		g.ADDQ(srcStep, srcRow)
	})
	g.ret()
}
