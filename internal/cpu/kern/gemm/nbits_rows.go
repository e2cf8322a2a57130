package gemm

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// nbitsTileRows is up to how many rows a product reads columns of few bits as they are, times the rows that a kernel takes: numbers
// are turned into floats for each of its calls, where a product of more rows does so once.
const nbitsTileRows = 4

// wantsNBits reports whether the product is computed by the kernels of few rows. Every byte has numbers of whole rows then.
func (g *Gemm) wantsNBits() bool {
	s := &g.s
	few := s.WholeBits > 0 && s.M <= nbitsTileRows*g.t.NBitsRows(s.WholeBits) && s.K%4 == 0
	return (few || s.BytesBlock > 0 && s.K > 0) && g.batches == 1 && !s.TransA && !s.ConstA &&
		s.Alpha == 1 && s.Beta == 0 && s.Epilogue.Bias != simd.BiasPerRow && !s.Epilogue.Residual && !g.clamp && g.after == simd.Identity
}

// planNBits makes tasks of a few panels.
func (g *Gemm) planNBits() {
	g.fewRows, g.tileM, g.tilesM = true, g.s.M, 1
	perPanel := g.s.K * (g.s.M + 8) * g.t.Nr
	if g.s.BytesBlock > 0 {
		perPanel = g.planBytes()
	}
	g.tileN = min(max(1, g.taskWork(g.nPanels*perPanel)/perPanel), g.nPanels)
	g.tilesN = machine.CeilDiv(g.nPanels, g.tileN)
	g.packA = machine.RoundUp(g.tileM, bytesRows) * g.t.Nr // a tile of C
}

// nbitsTile computes panels q0 up to q1 of a tile of rows of C.
func (r *gemmRun) nbitsTile(tm, q0, q1 int, tile []float32) {
	g, b := r.g, r.args.NBitsB
	nr, s := g.t.Nr, &g.s
	first := tm * g.tileM
	rows, a, ld := min(g.tileM, s.M-first), r.args.A, s.LDA
	if b.byBytes {
		a, ld = r.sharedA[tm*g.pieceA:], g.records
	}
	for q := q0; q < q1; q++ {
		cols := min(nr, s.N-q*nr)
		clear(tile)
		if s.Epilogue.Bias != simd.NoBias {
			for i := range rows {
				copy(tile[i*nr:], r.args.Bias[q*nr:][:cols])
			}
		}
		for i := 0; i < rows; {
			i += b.addProducts(tile[i*nr:], a[i*ld:], 4*ld, q, rows-i)
		}
		for i := range rows {
			r.directly(first+i, q, tile[i*nr:][:cols])
			copy(r.args.C[(first+i)*s.LDC+q*nr:][:cols], tile[i*nr:])
		}
	}
}

// addProducts adds the products of up to so many rows of A, ld bytes apart, with panel q: whole blocks, and what there is of the
// last. It returns how many rows.
func (b *NBits) addProducts(tile, a []float32, ld, q, rows int) int {
	all := rows
	if rows = min(rows, b.t.NBitsRows(b.s.Bits)); rows == 3 {
		rows = 2
	}
	nr, whole := b.t.Nr, b.s.K/b.s.Block
	perBlock := b.s.Block / b.per
	block, numbers := q*b.Blocks(), b.numbersOf(q)
	args := simd.NBitsArgs{
		X: machine.Ptr(a, 0), W: machine.Ptr(numbers, 0), Scale: machine.Ptr(b.scales, block*nr),
		Out: machine.Ptr(tile, 0), LDX: ld, LDOut: 4 * nr, ZeroStep: 4 * b.zeroStep(), Rows: perBlock, Blocks: whole,
	}
	if b.byBytes {
		args.Zero, args.ZeroStep, args.Rows, args.Blocks = machine.Ptr(b.byteZeros, block*b.zeroStep()), b.zeroStep(), b.s.Block/8, b.Blocks()
		return b.addBytes(&args, all)
	}
	args.Zero = machine.Ptr(b.zeros, block*b.zeroStep())
	b.t.NBitsProduct(b.s.Bits, rows, &args)
	if left := b.rows - whole*perBlock; left > 0 {
		args.X, args.W = machine.Ptr(a, whole*b.s.Block), machine.Ptr(numbers, whole*perBlock*nr)
		args.Scale, args.Zero = machine.Ptr(b.scales, (block+whole)*nr), machine.Ptr(b.zeros, (block+whole)*b.zeroStep())
		args.Rows, args.Blocks = left, 1
		b.t.NBitsProduct(b.s.Bits, rows, &args)
	}
	return rows
}
