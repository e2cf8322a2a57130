package gemm

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Products of few rows with a B that is stored by columns and is not constant (the
// queries of a decoder with its keys): each element of C is the scalar product of two
// rows in memory. B is read once, in order; packing it would cost more than it saves.

const (
	dotRows = 4  // most rows of A
	dotK    = 32 // shortest rows for which a call pays
)

// wantsDots reports whether the product is computed by scalar products.
func (g *Gemm) wantsDots() bool {
	s := &g.s
	return s.TransB && !s.ConstB && !s.ConstA && !s.TransA && s.M <= dotRows && s.K >= dotK && g.t.Level != machine.LevelGeneric
}

// planDots cuts the columns of C into tasks.
func (g *Gemm) planDots() {
	g.dots = true
	g.tileM, g.tilesM = g.m.P, 1
	perPanel := g.s.K * (g.s.M + 8) * g.t.Nr
	g.tileN = min(max(1, g.taskWork(g.batches*g.nPanels*perPanel)/perPanel), g.nPanels)
	g.tilesN = machine.CeilDiv(g.nPanels, g.tileN)
}

// dotTile computes columns c0..c1 of one matrix of the batch; off are the
// offsets of the matrices in A, B, C and the residual.
func (r *gemmRun) dotTile(c0, c1 int, off [4]int) {
	g := r.g
	s := &g.s
	for j := c0; j < c1; j++ {
		b := &r.args.B[off[1]+j*s.LDB]
		for i := range s.M {
			sum := g.t.Dot(&r.args.A[off[0]+i*s.LDA], b, s.K)
			c := &r.args.C[off[2]+i*s.LDC+j]
			*c = r.finish(sum, *c, i, j, off[3])
		}
	}
	if g.after == simd.Identity {
		return
	}
	for i := range s.M {
		row := r.args.C[off[2]+i*s.LDC:][c0:c1]
		g.t.UnaryRow(g.after, row, row, s.Epilogue.P0, s.Epilogue.P1)
	}
}

// finish runs the epilogue on one sum.
func (r *gemmRun) finish(sum, c float32, i, j, res int) float32 {
	g := r.g
	s := &g.s
	v := s.Alpha * sum
	if s.Beta != 0 {
		v += s.Beta * c
	}
	switch s.Epilogue.Bias {
	case simd.BiasPerRow:
		v += r.args.Bias[i]
	case simd.BiasPerCol:
		v += r.args.Bias[j]
	}
	if s.Epilogue.Residual {
		v += r.args.Residual[res+i*s.LDR+j]
	}
	if g.clamp {
		v = simd.ClampNaN(v, g.lo, g.hi)
	}
	return v
}
