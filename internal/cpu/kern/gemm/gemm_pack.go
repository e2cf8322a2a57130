package gemm

import (
	"context"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// Packed layouts.
//
//	A: for each block of K: for each panel of rows: [k][height]
//	B: for each block of K: for each panel of nr columns: [k][nr], zero-padded
//
// so a block starts at k0·M in packed A and at k0·(panels·nr) in packed B, and
// within a block of kc, panel i of A starts at row(i)·kc and panel j of B at
// j·nr·kc.

// A unit of A is its tallest panel of the largest block of K, one of B a full panel.

// gemmPiecePanels is the number of panels of a block of K that make a piece.
const gemmPiecePanels = 8

// The kinds of layouts of this file. Their dimensions are three: rows or columns, K, and its blocks.
const (
	rowsKind = "product rows"
	colsKind = "product columns"
)

// is reports whether an operand is packed, in a layout of this file of some dimensions.
func (p *Packed) is(kind string, level machine.Level, n int, k Split) bool {
	return p != nil && p.Order.Level == level && p.Order.Dims[0] == n && p.Order.Dims[1] == k.N && p.Order.Dims[2] == k.P && p.Order.Kind == kind
}

// PackA lays a constant A (M×K, or K×M with TransA) out.
func (g *Gemm) PackA(ctx context.Context, a Source) (*Packed, error) {
	return PackAll(ctx, "Gemm", g.PackingA(), a)
}

// PackB lays a constant B (K×N, or N×K with TransB) out.
func (g *Gemm) PackB(ctx context.Context, b Source) (*Packed, error) {
	return PackAll(ctx, "Gemm", g.PackingB(), b)
}

// LayoutA identifies the order in which a constant A is read.
func (g *Gemm) LayoutA() Layout {
	return Layout{Kind: rowsKind, Level: g.t.Level, Dims: [8]int{g.s.M, g.s.K, g.k.P}}
}

// LayoutB identifies the order in which a constant B is read.
func (g *Gemm) LayoutB() Layout {
	return Layout{Kind: colsKind, Level: g.t.Level, Dims: [8]int{g.s.N, g.s.K, g.k.P}}
}

// piece is the block of K and the panels of piece i, of so many panels.
func (g *Gemm) piece(i, panels int) (k0, kc, p0, p1 int) {
	per := machine.CeilDiv(panels, gemmPiecePanels)
	k0, kc = g.k.Part(i / per)
	p0 = i % per * gemmPiecePanels
	return k0, kc, p0, min(p0+gemmPiecePanels, panels)
}

// PackingA is how an operand A that comes packed is laid out.
func (g *Gemm) PackingA() *Packing {
	return &Packing{
		Layout: g.LayoutA(), Size: g.s.M*g.s.K + machine.SlackFloats, UnitSize: g.k.Largest()*g.t.Mr + machine.SlackFloats,
		SourceLen: g.matrixLen(g.s.TransA, g.s.M, g.s.K, g.s.LDA), Pieces: g.k.P * machine.CeilDiv(g.m.P, gemmPiecePanels),
		Span: func(i int) (at, n int) {
			k0, kc, p0, p1 := g.piece(i, g.m.P)
			first, _ := g.m.Part(p0)
			last, h := g.m.Part(p1 - 1)
			return k0*g.s.M + first*kc, (last + h - first) * kc
		},
		Pack: func(dst, a []float32, i int) {
			k0, kc, p0, p1 := g.piece(i, g.m.P)
			g.packBlockA(dst, a, p0, p1, k0, kc)
		},
	}
}

// PackingB is how an operand B that comes packed is laid out.
func (g *Gemm) PackingB() *Packing {
	nr := g.t.Nr
	return &Packing{
		Layout: g.LayoutB(), Size: g.nPanels*nr*g.s.K + machine.SlackFloats, UnitSize: g.k.Largest()*nr + machine.SlackFloats,
		SourceLen: g.matrixLen(g.s.TransB, g.s.K, g.s.N, g.s.LDB), Pieces: g.k.P * machine.CeilDiv(g.nPanels, gemmPiecePanels),
		Span: func(i int) (at, n int) {
			k0, kc, q0, q1 := g.piece(i, g.nPanels)
			return (k0*g.nPanels + q0*kc) * nr, (q1 - q0) * nr * kc
		},
		Pack: func(dst, b []float32, i int) {
			k0, kc, q0, q1 := g.piece(i, g.nPanels)
			if q1*nr > g.s.N { // the last panel is padded with zeros
				clear(dst[(q1-1-q0)*nr*kc:][:nr*kc])
			}
			g.packBlockB(dst, b, q0, q1, k0, kc)
		},
	}
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
	first, _ := g.m.Part(p0)
	for i := p0; i < p1; i++ {
		row, h := g.m.Part(i)
		d := machine.F32p(dst, (row-first)*kc)
		if g.s.TransA {
			g.t.PackNarrow(d, machine.F32p(a, k0*g.s.LDA+row), kc, 4*h, 4*g.s.LDA, h)
		} else {
			g.t.PackTrans(d, machine.F32p(a, row*g.s.LDA+k0), kc, 4*h, 4*g.s.LDA, h)
		}
	}
}

// packBlockB packs panels p0..p1 of one block of K.
func (g *Gemm) packBlockB(dst, b []float32, p0, p1, k0, kc int) {
	nr, tw := g.t.Nr, g.t.Tw
	if full := min(p1, g.s.N/nr) - p0; !g.s.TransB && full > 0 {
		g.t.PackPanels(machine.F32p(dst, 0), machine.F32p(b, k0*g.s.LDB+p0*nr), kc, 4*nr, 4*g.s.LDB, full, 4*nr*kc)
		dst, p0 = dst[full*nr*kc:], p0+full
	}
	for j := p0; j < p1; j++ {
		panel := dst[(j-p0)*nr*kc:]
		col := j * nr
		cols := min(nr, g.s.N-col)
		if !g.s.TransB {
			g.t.PackWide(machine.F32p(panel, 0), machine.F32p(b, k0*g.s.LDB+col), kc, 4*nr, 4*g.s.LDB, cols)
			continue
		}
		for c := 0; c < cols; c += tw {
			g.t.PackTrans(machine.F32p(panel, c), machine.F32p(b, (col+c)*g.s.LDB+k0), kc, 4*nr, 4*g.s.LDB, min(tw, cols-c))
		}
	}
}
