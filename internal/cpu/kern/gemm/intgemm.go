package gemm

import (
	"cmp"
	"context"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// IntGemmSpec describes C = Σ (A−za)·(B−zb) over bytes, in 32-bit integers that
// wrap around. A is M×K; B is K×N, or N×K with TransB.
type IntGemmSpec struct {
	M, N, K                   int
	TransB                    bool
	ASigned, BSigned          bool
	LDA, LDB, LDC             int  // distance between stored rows; 0 for dense
	Batch                     int  // 0 for one
	StrideA, StrideB, StrideC int  // between the matrices of a batch; 0 shares A or B
	ConstB                    bool // B comes packed and is shared by the batch
}

// IntGemmArgs are the operands of one run. A zero point is absent (0), one
// value for all, or one for each row of A, each column of B.
type IntGemmArgs struct {
	A, B    []byte
	PackedB *Packed
	C       []int32
	ZA, ZB  []int32
	Done    <-chan struct{} // when closed, the rest is left undone
}

// IntGemm is a prepared integer product. It is immutable.
type IntGemm struct {
	s              IntGemmSpec
	t              *simd.Table
	kind           simd.IntKind
	a, b           IntSide
	m              Split // rows into panels
	panels         int   // panels of columns
	k              Split // words of K into blocks
	words          int
	tileM, tileN   int
	tilesM, tilesN int
	needA, needB   int
	needC          int
}

const intTileRows, intTileCols = 140, 256

// NewIntGemm prepares an integer product at the active level.
func NewIntGemm(s IntGemmSpec) (*IntGemm, error) {
	g := &IntGemm{s: s, t: simd.Active().Products()}
	if err := g.check(); err != nil {
		return nil, err
	}
	g.kind = simd.IntPairs
	switch {
	case g.t.Ints.Quads:
		g.kind = simd.QuadsUS
	case g.t.Level == machine.LevelAVX2 && s.ConstB:
		g.kind = simd.BytePairs
	}
	g.a, g.b = Sides(g.t, g.kind, s.ASigned, s.BSigned)
	g.words = machine.CeilDiv(s.K, g.kind.Group())
	g.m, g.k = NewSplit(s.M, g.t.Mr), NewSplit(g.words, GemmBlockK)
	g.panels = machine.CeilDiv(s.N, g.t.Nr)
	if g.m.P == 0 || g.panels == 0 {
		return g, nil
	}
	g.tileM = NewSplit(g.m.P, max(1, intTileRows/g.t.Mr)).Largest()
	rows := min(s.M, g.tileM*g.t.Mr)
	want := machine.CeilDiv(ProductTask, max(1, g.words)*g.t.Nr*(rows+8))
	g.tileN = min(max(1, want), NewSplit(g.panels, max(1, intTileCols/g.t.Nr)).Largest())
	g.tilesM, g.tilesN = machine.CeilDiv(g.m.P, g.tileM), machine.CeilDiv(g.panels, g.tileN)
	return g, nil
}

func (g *IntGemm) check() error {
	s := &g.s
	if s.Batch == 0 {
		s.Batch = 1
	}
	if max(s.M, s.N, s.K) > machine.MaxExtent || min(s.M, s.N, s.K) < 0 || s.Batch < 0 || s.StrideA < 0 || s.StrideB < 0 || s.StrideC < 0 {
		return &machine.SpecError{Kernel: "IntGemm", Field: "M, N, K", Why: "negative or too large"}
	}
	rowsB, colsB := s.K, s.N
	if s.TransB {
		rowsB, colsB = colsB, rowsB
	}
	for _, x := range []struct {
		ld                 *int
		rows, cols, stride int
		need               *int
	}{{&s.LDA, s.M, s.K, s.StrideA, &g.needA}, {&s.LDB, rowsB, colsB, s.StrideB, &g.needB}, {&s.LDC, s.M, s.N, s.StrideC, &g.needC}} {
		if *x.ld == 0 {
			*x.ld = x.cols
		}
		n, ok := machine.MulAll(x.rows, *x.ld)
		more, ok2 := machine.MulAll(s.Batch-1, x.stride)
		if *x.ld < x.cols || !ok || !ok2 {
			return &machine.SpecError{Kernel: "IntGemm", Field: "LD", Why: "smaller than a row, or too large"}
		}
		if x.rows > 0 && x.cols > 0 {
			*x.need = n - *x.ld + x.cols + more
		}
	}
	return nil
}

// Choice says by which instructions bytes are multiplied, and what is packed.
func (g *IntGemm) Choice() (algorithm, reason string) {
	algorithm, reason = "blocked product of bytes, by pairs", "B is packed in every run"
	if g.t.Ints.Quads {
		algorithm = "blocked product of bytes, by fours"
	}
	if g.s.ConstB {
		reason = "B is constant, packed once"
	}
	return algorithm, reason
}

// LayoutB identifies the order in which a constant B is read.
func (g *IntGemm) LayoutB() Layout {
	kind := "integer columns"
	if g.kind == simd.BytePairs {
		kind = "byte columns"
	}
	return Layout{Kind: kind, Level: g.t.Level, Dims: [8]int{g.s.N, g.s.K, Signs(g.s.ASigned, g.s.BSigned)}}
}

// Signs encodes which operands are signed.
func Signs(a, b bool) (n int) {
	if a {
		n = 1
	}
	if b {
		n |= 2
	}
	return n
}

// PackB lays a constant B out.
func (g *IntGemm) PackB(ctx context.Context, b []byte) (*Packed, error) {
	columns := g.panels * g.t.Nr
	bytes := columns * g.rowBytes() / g.t.Nr * g.words
	threads, perWorker := PackThreads(bytes), pairTmp(g.t, g.s.K)
	narrow := 0 // words of a worker's panel that is narrowed
	if g.kind == simd.BytePairs {
		narrow = g.k.Largest() * g.t.Nr
	}
	if err := cmp.Or(
		machine.Needs("IntGemm", "B", b, g.needB-(g.s.Batch-1)*g.s.StrideB),
		machine.AskPacked(ctx, bytes+4*columns+threads*(perWorker+4*narrow)),
	); err != nil {
		return nil, err
	}
	p := &Packed{Order: g.LayoutB(), Words: make([]uint32, bytes/4), Sums: make([]int32, columns)}
	tmp, wide := make([]byte, threads*perWorker), make([]uint32, threads*narrow)
	err := InPieces(ctx, g.panels, threads, func(q, worker int) {
		if g.kind == simd.BytePairs {
			g.packBytes(p.Words, p.Sums, b, q, wide[worker*narrow:][:narrow], tmp[worker*perWorker:])
			return
		}
		g.packB(p.Words, p.Sums, b, q, q+1, tmp[worker*perWorker:])
	})
	return p, err
}

// rowBytes is the size of a row of words of a panel.
func (g *IntGemm) rowBytes() int {
	if g.kind == simd.BytePairs {
		return 2 * g.t.Nr
	}
	return 4 * g.t.Nr
}

// packBytes packs panel q for all of K as pairs of signed bytes, by way of pairs of 16 bits.
func (g *IntGemm) packBytes(dst []uint32, sums []int32, b []byte, q int, wide []uint32, tmp []byte) {
	nr := g.t.Nr
	clear(sums[q*nr:][:nr])
	clear(wide) // columns that there are not stay zero
	for kb := range g.k.P {
		w0, wc := g.k.Part(kb)
		g.packBlock(wide, sums, b, q, kb, tmp)
		to := dst[(w0*g.panels+q*wc)*nr/2:][:wc*nr/2]
		for i := range to {
			x, y := wide[2*i], wide[2*i+1]
			to[i] = x&0xff | x>>8&0xff00 | y<<16&0xff0000 | y<<8&0xff000000
		}
	}
}

// packB packs panels q0..q1 for all of K and adds up their columns. A block of
// K comes before the next, as in float32.
func (g *IntGemm) packB(dst []uint32, sums []int32, b []byte, q0, q1 int, tmp []byte) {
	nr := g.t.Nr
	for q := q0; q < q1; q++ {
		clear(sums[q*nr:][:nr])
		for kb := range g.k.P {
			w0, wc := g.k.Part(kb)
			g.packBlock(dst[(w0*g.panels+q*wc)*nr:][:wc*nr], sums, b, q, kb, tmp)
		}
	}
}

// packBlock packs block kb of K of panel q, and adds its columns to their sums.
func (g *IntGemm) packBlock(panel []uint32, sums []int32, b []byte, q, kb int, tmp []byte) {
	nr, grp := g.t.Nr, g.kind.Group()
	w0, wc := g.k.Part(kb)
	col, k0 := q*nr, w0*grp
	cols, kc := min(nr, g.s.N-col), min(wc*grp, g.s.K-k0)
	if g.s.TransB {
		g.b.PackRows(g.t, panel, b[col*g.s.LDB+k0:], cols, kc, g.s.LDB, nr, tmp)
	} else {
		g.b.packCols(panel, b[k0*g.s.LDB+col:], cols, kc, g.s.LDB, nr)
	}
	g.t.AddColumns(g.b.Kind, &sums[col], machine.Ptr(panel, 0), wc, cols)
}

func (g *IntGemm) tasks() int { return g.s.Batch * g.tilesM * g.tilesN }

// copies is how many packed matrices of an operand a run makes.
func (g *IntGemm) copies(stride int) int {
	if stride == 0 {
		return 1
	}
	return g.s.Batch
}

// intLayout is the workspace of a run, in pieces.
type intLayout struct {
	a      []uint32 // packed rows
	rowSum []int32
	b      []uint32
	sums   []int32
	init   []int32 // −za·sums: what the columns of C start from
	zb     []int32 // zero points of the columns, for the values as packed
	tmp    []byte  // one piece per worker
}

// sizes are the lengths of the pieces, in bytes.
func (g *IntGemm) sizes(threads int) [7]int {
	nw := g.panels * g.t.Nr
	ca, cb := g.copies(g.s.StrideA), g.copies(g.s.StrideB)
	s := [7]int{4 * ca * g.s.M * g.words, 4 * ca * g.s.M, 0, 0, 4 * cb * nw, 4 * nw, 0}
	if !g.s.ConstB {
		s[2], s[3] = 4*cb*nw*g.words, 4*cb*nw
	}
	if g.a.Kind == simd.IntPairs {
		s[6] = threads * pairTmp(g.t, g.s.K)
	}
	return s
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (g *IntGemm) Workspace(threads int) int {
	s := g.sizes(max(1, threads))
	return machine.ScratchBytes(s[:]...)
}

func (g *IntGemm) layout(ws []byte, threads int) (l intLayout) {
	z := g.sizes(max(1, threads))
	s := machine.NewScratch(ws)
	l.a, l.rowSum, l.b, l.sums = s.Uint32s(z[0]/4), s.Int32s(z[1]/4), s.Uint32s(z[2]/4), s.Int32s(z[3]/4)
	l.init, l.zb, l.tmp = s.Int32s(z[4]/4), s.Int32s(z[5]/4), s.Bytes(z[6])
	return l
}
