package main

import (
	"github.com/mmcloughlin/avo/operand"
)

// Packing kernels write operands in the order in which the micro-kernels read them.
//
//	rows        dst[k·ld + i] = src[k·stride + i]      contiguous rows, narrow or wide
//	transpose   dst[k·ld + i] = src[i·stride + k]      rows become columns
//	segments    the implicit matrix of a convolution, see segments.go of package convolve
//
// Stores are whole vectors at ascending addresses, so what a narrow row writes beyond its
// end is overwritten by the next; after the last row one vector of slack follows.
func emitPack(g *gen) {
	g.both(func() {
		g.packRows(1)
		g.packRows(2)
		g.packPanels()
		g.packTranspose("packTranspose", false)
		g.packTranspose("transpose", true)
		g.segment("Fill", true)
		g.segment("Merge", false)
		g.segment2("Fill2", true)
		g.segment2("Merge2", false)
		g.segmentN("FillN", true)
		g.segmentN("MergeN", false)
	})
}

// packRows copies k rows of up to n vectors, clearing the lanes beyond cols.
func (g *gen) packRows(n int) {
	name := map[int]string{1: "packRowsNarrow", 2: "packRowsWide"}[n]
	g.fn(name, "(dst, src *float32, k, dstStride, srcStride, cols int)",
		"copies k rows of cols elements; strides are in bytes.")
	dst, src, k := g.arg("dst"), g.arg("src"), g.arg("k")
	ds, ss, cols := g.arg("dstStride"), g.arg("srcStride"), g.arg("cols")
	var m [2]mask
	if n == 1 {
		m[0] = g.tailOf(cols)
	} else {
		m = g.pairMasks(cols)
	}
	g.loop("rows", k, 1, func() {
		for j := range n {
			g.st(g.ldTail(at(src, j*g.bytes()), m[j]), at(dst, j*g.bytes()))
		}
		g.ADDQ(ss, src)
		g.ADDQ(ds, dst)
	})
	g.ret()
}

// packPanels packs several full panels at once, row by row of the source: a row is long,
// and hardware prefetching follows it.
func (g *gen) packPanels() {
	g.fn("packPanels", "(dst, src *float32, k, dstStride, srcStride, panels, panelStride int)",
		"copies k rows into panels of two vectors; strides are in bytes.")
	dst, src, k := g.arg("dst"), g.arg("src"), g.arg("k")
	ds, ss, ps := g.arg("dstStride"), g.arg("srcStride"), g.arg("panelStride")
	panels := g.arg("panels")
	g.loop("rows", k, 1, func() {
		d, s, n := g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(dst, d)
		g.MOVQ(src, s)
		g.MOVQ(panels, n)
		g.loop("panel", n, 1, func() {
			x, y := g.ld(at(s, 0)), g.ld(at(s, g.bytes()))
			g.st(x, at(d, 0))
			g.st(y, at(d, g.bytes()))
			g.advance(2*g.bytes(), s)
			g.ADDQ(ps, d)
		})
		g.ADDQ(ss, src)
		g.ADDQ(ds, dst)
	})
	g.ret()
}

// pairMasks selects the first n lanes of two vectors.
func (g *gen) pairMasks(n gp) (m [2]mask) {
	if g.isa.zmm {
		bits := g.GP64()
		g.MOVQ(operand.I32(-1), bits)
		g.BZHIQ(n, bits, bits)
		m[0].k, m[1].k = g.K(), g.K()
		g.KMOVW(bits.As32(), m[0].k)
		g.SHRQ(operand.U8(16), bits)
		g.KMOVW(bits.As32(), m[1].k)
		return m
	}
	low, rest, eight, zero := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(operand.I32(8), eight)
	g.XORQ(zero, zero)
	g.MOVQ(n, rest)
	g.SUBQ(eight, rest)
	g.CMOVQLT(zero, rest)
	g.MOVQ(n, low)
	g.CMPQ(low, eight)
	g.CMOVQGT(eight, low)
	m[0], m[1] = g.tailOf(low), g.tailOf(rest)
	return m
}

// packTranspose writes up to as many rows as a vector has lanes as columns. Rows beyond
// the given number repeat the last one: their lanes are never used. The exact
// form does not store them.
func (g *gen) packTranspose(name string, exact bool) {
	g.fn(name, "(dst, src *float32, k, dstStride, srcStride, rows int)",
		"writes k columns of rows elements each; strides are in bytes.")
	dst, src, k := g.arg("dst"), g.arg("src"), g.arg("k")
	ds, ss, rows := g.arg("dstStride"), g.arg("srcStride"), g.arg("rows")
	if !exact {
		g.transposeBlocks("", dst, src, k, ds, ss, rows, nil)
		g.ret()
		return
	}
	g.CMPQ(rows, operand.I32(g.isa.w))
	g.JNE(operand.LabelRef("narrow"))
	g.transposeBlocks("", dst, src, k, ds, ss, rows, nil)
	g.ret()
	g.Label("narrow")
	m := g.tailOf(rows)
	g.transposeBlocks("n", dst, src, k, ds, ss, rows, &m)
	g.ret()
}

// transposeBlocks is the loop over blocks of columns; mask selects the lanes to
// store.
func (g *gen) transposeBlocks(suffix string, dst, src, k, ds, ss, rows gp, mask *mask) {
	w := g.isa.w
	store := func(c vec) {
		g.put(c, dst, 0, mask)
		g.ADDQ(ds, dst)
	}
	g.loop("block"+suffix, k, w, func() {
		for _, c := range g.transposed(g.gatherRows(src, ss, rows, nil)) {
			store(c)
		}
		g.advance(w*4, src)
	})
	g.TESTQ(k, k)
	g.JZ(operand.LabelRef("done" + suffix))
	m := g.tailOf(k)
	for _, c := range g.transposed(g.gatherRows(src, ss, rows, &m)) {
		store(c)
		g.DECQ(k)
		g.JZ(operand.LabelRef("done" + suffix))
	}
	g.Label("done" + suffix)
}

// gatherRows loads one vector from each row, stopping at the last row.
func (g *gen) gatherRows(src, stride, rows gp, m *mask) []vec {
	p, left, step, zero := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(src, p)
	g.MOVQ(rows, left)
	g.MOVQ(stride, step)
	g.XORQ(zero, zero)
	v := make([]vec, g.isa.w)
	for i := range v {
		if m != nil {
			v[i] = g.ldTail(at(p, 0), *m)
		} else {
			v[i] = g.ld(at(p, 0))
		}
		if i+1 < len(v) {
			g.DECQ(left)
			g.CMOVQLE(zero, step)
			g.ADDQ(step, p)
		}
	}
	return v
}

// transposed is the transpose of w registers of w lanes, by interleaving pairs, then pairs of pairs, then the 128-bit quarters.
func (g *gen) transposed(r []vec) []vec {
	w := g.isa.w
	t := make([]vec, w)
	for i := 0; i < w; i += 2 { // r0 r1 → 00 10 01 11 per quarter
		t[i], t[i+1] = g.v(), g.v()
		g.VUNPCKLPS(r[i+1], r[i], t[i])
		g.VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	u := make([]vec, w)
	for i := 0; i < w; i += 4 { // groups of four rows: one column per quarter
		for j := range 2 {
			u[i+2*j], u[i+2*j+1] = g.v(), g.v()
			g.VUNPCKLPD(t[i+2+j], t[i+j], u[i+2*j])
			g.VUNPCKHPD(t[i+2+j], t[i+j], u[i+2*j+1])
		}
	}
	if g.isa.zmm {
		return g.quarters16(u)
	}
	out := make([]vec, w)
	for c := range 4 {
		out[c], out[c+4] = g.v(), g.v()
		g.VPERM2F128(operand.U8(0x20), u[4+c], u[c], out[c])
		g.VPERM2F128(operand.U8(0x31), u[4+c], u[c], out[c+4])
	}
	return out
}

// quarters16 is the last step for ZMM: u[4a+c] holds, in quarter q, column
// 4q+c of rows 4a..4a+3.
func (g *gen) quarters16(u []vec) []vec {
	out := make([]vec, 16)
	for c := range 4 {
		var lo, hi [2]vec // quarters (0,2) and (1,3) of two row groups
		for h := range 2 {
			lo[h], hi[h] = g.v(), g.v()
			g.VSHUFF32X4(operand.U8(0x88), u[8*h+4+c], u[8*h+c], lo[h])
			g.VSHUFF32X4(operand.U8(0xdd), u[8*h+4+c], u[8*h+c], hi[h])
		}
		for q := range 4 {
			out[4*q+c] = g.v()
		}
		g.VSHUFF32X4(operand.U8(0x88), lo[1], lo[0], out[c])
		g.VSHUFF32X4(operand.U8(0x88), hi[1], hi[0], out[4+c])
		g.VSHUFF32X4(operand.U8(0xdd), lo[1], lo[0], out[8+c])
		g.VSHUFF32X4(operand.U8(0xdd), hi[1], hi[0], out[12+c])
	}
	return out
}
