package kern

import "context"

// Packed layouts.
//
//	A: for each block of K: for each panel of rows: [k][height]
//	B: for each block of K: for each panel of nr columns: [k][nr], zero-padded
//
// so a block starts at k0·M in packed A and at k0·(panels·nr) in packed B, and
// within a block of kc, panel i of A starts at row(i)·kc and panel j of B at
// j·nr·kc.

// A unit of A is its tallest panel of the largest block of K, one of B a full panel.

// PackA lays a constant A (M×K, or K×M with TransA) out.
func (g *Gemm) PackA(ctx context.Context, a Source) (*Packed, error) {
	return packAll(ctx, "Gemm", gemmA{g}, a)
}

// PackB lays a constant B (K×N, or N×K with TransB) out.
func (g *Gemm) PackB(ctx context.Context, b Source) (*Packed, error) {
	return packAll(ctx, "Gemm", gemmB{g}, b)
}

// LayoutA identifies the order in which a constant A is read.
func (g *Gemm) LayoutA() Layout { return gemmA{g}.layout() }

// LayoutB identifies the order in which a constant B is read.
func (g *Gemm) LayoutB() Layout { return gemmB{g}.layout() }

// gemmA packs A: a piece is some panels of a block of K.
type gemmA struct{ *Gemm }

const gemmPiecePanels = 8

func (g gemmA) layout() Layout {
	return Layout{Kind: "product rows", Level: g.t.level, dims: [8]int{g.s.M, g.s.K}}
}
func (g gemmA) size() int                         { return g.s.M*g.s.K + slackFloats }
func (g gemmA) unitSize() int                     { return g.k.largest()*g.t.mr + slackFloats }
func (g gemmA) sourceLen() int                    { return g.matrixLen(g.s.TransA, g.s.M, g.s.K, g.s.LDA) }
func (g gemmA) pieces() int                       { return g.k.p * ceilDiv(g.m.p, gemmPiecePanels) }
func (g gemmA) packUnit(dst []float32, v float32) { fillUnit(dst, v) }

// place is the block of K and the panels of piece i.
func (g gemmA) place(i int) (k0, kc, p0, p1 int) {
	per := ceilDiv(g.m.p, gemmPiecePanels)
	k0, kc = g.k.part(i / per)
	p0 = i % per * gemmPiecePanels
	return k0, kc, p0, min(p0+gemmPiecePanels, g.m.p)
}

func (g gemmA) span(i int) (at, n int) {
	k0, kc, p0, p1 := g.place(i)
	first, _ := g.m.part(p0)
	last, h := g.m.part(p1 - 1)
	return k0*g.s.M + first*kc, (last + h - first) * kc
}

func (g gemmA) pack(dst, a []float32, i int) {
	k0, kc, p0, p1 := g.place(i)
	g.packBlockA(dst, a, p0, p1, k0, kc)
}

// gemmB packs B: a piece is some panels of a block of K.
type gemmB struct{ *Gemm }

func (g gemmB) layout() Layout {
	return Layout{Kind: "product columns", Level: g.t.level, dims: [8]int{g.s.N, g.s.K}}
}
func (g gemmB) size() int                         { return g.nPanels*g.t.nr*g.s.K + slackFloats }
func (g gemmB) unitSize() int                     { return g.k.largest()*g.t.nr + slackFloats }
func (g gemmB) sourceLen() int                    { return g.matrixLen(g.s.TransB, g.s.K, g.s.N, g.s.LDB) }
func (g gemmB) pieces() int                       { return g.k.p * ceilDiv(g.nPanels, gemmPiecePanels) }
func (g gemmB) packUnit(dst []float32, v float32) { fillUnit(dst, v) }

func (g gemmB) place(i int) (k0, kc, q0, q1 int) {
	per := ceilDiv(g.nPanels, gemmPiecePanels)
	k0, kc = g.k.part(i / per)
	q0 = i % per * gemmPiecePanels
	return k0, kc, q0, min(q0+gemmPiecePanels, g.nPanels)
}

func (g gemmB) span(i int) (at, n int) {
	k0, kc, q0, q1 := g.place(i)
	return (k0*g.nPanels + q0*kc) * g.t.nr, (q1 - q0) * g.t.nr * kc
}

func (g gemmB) pack(dst, b []float32, i int) {
	k0, kc, q0, q1 := g.place(i)
	if q1*g.t.nr > g.s.N { // the last panel is padded with zeros
		clear(dst[(q1-1-q0)*g.t.nr*kc:][:g.t.nr*kc])
	}
	g.packBlockB(dst, b, q0, q1, k0, kc)
}

// matrixLen is the number of elements of an unbatched operand.
func (g *Gemm) matrixLen(trans bool, rows, cols, ld int) int {
	if trans {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		return 0
	}
	return (rows-1)*ld + cols
}

// packBlockA packs panels p0..p1 of one block of K.
func (g *Gemm) packBlockA(dst, a []float32, p0, p1, k0, kc int) {
	first, _ := g.m.part(p0)
	for i := p0; i < p1; i++ {
		row, h := g.m.part(i)
		d := f32p(dst, (row-first)*kc)
		if g.s.TransA {
			g.t.packNarrow(d, f32p(a, k0*g.s.LDA+row), kc, 4*h, 4*g.s.LDA, h)
		} else {
			g.t.packTrans(d, f32p(a, row*g.s.LDA+k0), kc, 4*h, 4*g.s.LDA, h)
		}
	}
}

// packBlockB packs panels p0..p1 of one block of K.
func (g *Gemm) packBlockB(dst, b []float32, p0, p1, k0, kc int) {
	nr, tw := g.t.nr, g.t.tw
	if full := min(p1, g.s.N/nr) - p0; !g.s.TransB && full > 0 {
		g.t.packPanels(f32p(dst, 0), f32p(b, k0*g.s.LDB+p0*nr), kc, 4*nr, 4*g.s.LDB, full, 4*nr*kc)
		dst, p0 = dst[full*nr*kc:], p0+full
	}
	for j := p0; j < p1; j++ {
		panel := dst[(j-p0)*nr*kc:]
		col := j * nr
		cols := min(nr, g.s.N-col)
		if !g.s.TransB {
			g.t.packWide(f32p(panel, 0), f32p(b, k0*g.s.LDB+col), kc, 4*nr, 4*g.s.LDB, cols)
			continue
		}
		for c := 0; c < cols; c += tw {
			g.t.packTrans(f32p(panel, c), f32p(b, (col+c)*g.s.LDB+k0), kc, 4*nr, 4*g.s.LDB, min(tw, cols-c))
		}
	}
}
