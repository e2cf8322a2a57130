package kern

// Matrix product, float32.
//
// The blocked product of Goto and van de Geijn ("Anatomy of High-Performance
// Matrix Multiplication", 2008) in the form of BLIS: the operands are packed
// into panels in the order in which a micro-kernel reads them, and the loops
// around it keep one panel in the L1 cache and one block in the L2 cache.
//
//	          N                      tile: up to mc × nc of C, one task
//	     ┌──────┬────┐               ┌─ panel of B: kc × nr
//	     │      │tile│            ┌──┼──┬──┬──┐
//	   M │      ├────┤   =   Σ    │A │  │  │B │   kc ≤ blockK, tile by tile
//	     │      │    │       k    └──┴──┴──┴──┘
//	     └──────┴────┘               └─ panel of A: kc × h, h ≤ mr
//
// A task computes one tile of C over the whole of K, packing what it needs
// into the workspace of its worker. So the sum of one element always runs over
// the same blocks in the same order, whatever the number of threads.
//
// Rows are dealt out evenly over panels: 64 rows make panels of 13, 13, 13, 13
// and 12 rows rather than four of 14 and one of 8. There is a micro-kernel for
// every height, so no row is computed in vain.

// BatchDim is one dimension of a batched product: how many, and the distance
// in elements between neighbours in A, B, C and the residual. A distance of 0
// shares the operand.
type BatchDim struct{ N, A, B, C, R int }

// GemmSpec describes C = act(Alpha·op(A)·op(B) + Beta·C + bias + residual),
// op(A) being M×K and op(B) K×N.
type GemmSpec struct {
	M, N, K        int
	TransA, TransB bool // A is stored K×M, B is stored N×K
	LDA, LDB, LDC  int  // distance between stored rows; 0 for dense
	LDR            int  // the same of the residual; 0 for dense
	Alpha, Beta    float32
	Batch          []BatchDim // outermost first, at most 4
	ConstA, ConstB bool       // the operand comes packed; it is shared by the batch
	Epilogue       Epilogue
}

// GemmArgs are the operands of one run. A packed operand takes the place of
// the plain one. Bias has M or N elements and is shared by the batch.
type GemmArgs struct {
	A, B, C          []float32
	PackedA, PackedB *Packed
	Bias, Residual   []float32
}

// Gemm is a prepared matrix product. It is immutable.
type Gemm struct {
	s        GemmSpec
	t        *table
	m        split // rows into panels of A
	nPanels  int   // panels of B
	k        split // K into blocks
	tileM    int   // panels of A in a tile
	tileN    int   // panels of B in a tile
	tilesM   int
	tilesN   int
	batches  int
	dots     bool // element by element, see gemm_dot.go
	directB  bool // read full panels of B in place
	needA    int  // elements the plain operands must have
	needB    int
	needC    int
	needR    int
	packA    int // floats of workspace per worker for A, 0 when constant
	packB    int
	shareA   bool // A is packed once for all tiles, in pieces: a block of K by a row of tiles
	pieceA   int  // floats of a piece
	colBias  int  // the same for a narrow panel's bias
	lo, hi   float32
	clamp    bool
	after    UnaryOp
	loopRows bool // the inner loop runs over panels of A
}

// split deals n items out over p parts as evenly as possible, the first parts
// taking one more.
type split struct{ n, p, base, extra int }

// newSplit cuts n into the fewest parts of at most most items; zero items make
// no part.
func newSplit(n, most int) split {
	p := ceilDiv(n, most)
	if p == 0 {
		return split{}
	}
	return split{n, p, n / p, n % p}
}

// part returns where part i starts and how many items it has.
func (s split) part(i int) (start, size int) {
	start = i*s.base + min(i, s.extra)
	if i < s.extra {
		return start, s.base + 1
	}
	return start, s.base
}

// largest is the size of the largest part.
func (s split) largest() int {
	if s.extra > 0 {
		return s.base + 1
	}
	return s.base
}

// Block sizes. A block of A (tileM panels) and one of B share the L2 cache.
const (
	gemmBlockK     = 256
	gemmTileRows   = 140
	gemmTileCols   = 256
	gemmTileWork   = 1 << 20 // multiply-adds below which a tile is not cut further
	gemmDirectRows = 2       // panels of A up to which B is read unpacked
	gemmDirectSize = 1 << 17 // elements of B up to which it is
	maxBatchDims   = 4
)

// NewGemm prepares a product at the active level.
func NewGemm(s GemmSpec) (*Gemm, error) {
	g := &Gemm{s: s, t: active.Load()}
	g.s.Batch = append([]BatchDim(nil), s.Batch...)
	if err := g.check(); err != nil {
		return nil, err
	}
	g.lo, g.hi, g.clamp = s.Epilogue.clamp()
	g.after = s.Epilogue.after()
	g.m = newSplit(s.M, g.t.mr)
	g.nPanels = ceilDiv(s.N, g.t.nr)
	g.k = newSplit(s.K, gemmBlockK)
	g.tile()
	return g, nil
}

// check validates the specification and works out operand sizes.
func (g *Gemm) check() error {
	s := &g.s
	if err := s.Epilogue.check("Gemm"); err != nil {
		return err
	}
	if s.M < 0 || s.N < 0 || s.K < 0 || max(s.M, s.N, s.K) > maxExtent {
		return &SpecError{"Gemm", "M, N, K", "negative or too large"}
	}
	if len(s.Batch) > maxBatchDims {
		return &SpecError{"Gemm", "Batch", "more than 4 dimensions"}
	}
	rowsA, colsA := s.M, s.K
	if s.TransA {
		rowsA, colsA = colsA, rowsA
	}
	rowsB, colsB := s.K, s.N
	if s.TransB {
		rowsB, colsB = colsB, rowsB
	}
	sizes := []struct {
		ld         *int
		rows, cols int
		need       *int
		name       string
	}{
		{&s.LDA, rowsA, colsA, &g.needA, "LDA"},
		{&s.LDB, rowsB, colsB, &g.needB, "LDB"},
		{&s.LDC, s.M, s.N, &g.needC, "LDC"},
		{&s.LDR, s.M, s.N, &g.needR, "LDR"},
	}
	for _, x := range sizes {
		if *x.ld == 0 {
			*x.ld = x.cols
		}
		if *x.ld < x.cols {
			return &SpecError{"Gemm", x.name, "smaller than a row"}
		}
		n, ok := mulAll(x.rows, *x.ld, 4)
		if !ok {
			return &SpecError{"Gemm", x.name, "too large"}
		}
		if x.rows > 0 && x.cols > 0 {
			*x.need = n/4 - *x.ld + x.cols
		}
	}
	return g.checkBatch()
}

func (g *Gemm) checkBatch() error {
	g.batches = 1
	for _, b := range g.s.Batch {
		if b.A < 0 || b.B < 0 || b.C < 0 || b.R < 0 {
			return &SpecError{"Gemm", "Batch", "negative stride"}
		}
		n, ok := mulAll(g.batches, b.N)
		if !ok {
			return &SpecError{"Gemm", "Batch", "negative or too large"}
		}
		g.batches = n
		grow := func(need *int, stride int) bool {
			add, ok := mulAll(max(b.N-1, 0), stride)
			*need += add
			return ok && *need < maxExtent
		}
		if !grow(&g.needA, b.A) || !grow(&g.needB, b.B) || !grow(&g.needC, b.C) || !grow(&g.needR, b.R) {
			return &SpecError{"Gemm", "Batch", "too large"}
		}
	}
	return nil
}

// tile chooses the tiles and what is packed for them.
func (g *Gemm) tile() {
	s, t := &g.s, g.t
	if g.m.p == 0 || g.nPanels == 0 {
		return
	}
	if g.wantsDots() {
		g.planDots()
		return
	}
	tm := newSplit(g.m.p, max(1, gemmTileRows/t.mr))
	g.tileM, g.tilesM = tm.largest(), tm.p
	rows := min(s.M, g.tileM*t.mr)
	g.tileN = g.tileCols(rows)
	g.tilesN = ceilDiv(g.nPanels, g.tileN)
	g.tilesM = ceilDiv(g.m.p, g.tileM)
	kc := g.k.largest()
	if !s.ConstA {
		g.shareA = g.batches == 1 && g.tilesN > 1
		g.packA = roundUp(kc*g.tileM*t.mr+slackFloats, slackFloats)
		if g.shareA {
			g.pieceA, g.packA = g.packA, 0
		}
	}
	if !s.ConstB {
		g.directB = !s.TransB && g.m.p <= gemmDirectRows && s.K*s.LDB <= gemmDirectSize
		panels := g.tileN
		if g.directB {
			panels = 1 // the narrow last panel
		}
		g.packB = kc*panels*t.nr + slackFloats
	}
	if s.Epilogue.Bias == BiasPerCol && s.N%t.nr != 0 {
		g.colBias = t.nr
	}
	g.loopRows = rows <= g.tileN*t.nr
}

// tileCols is the number of panels of B in a tile of so many rows: as many as
// fill a task, but not so few that packing for the tile outweighs it.
func (g *Gemm) tileCols(rows int) int {
	s, t := &g.s, g.t
	most := max(1, gemmTileCols/t.nr)
	least := 1
	if !s.ConstB || (!s.ConstA && g.batches > 1) {
		least = most
	}
	// A narrow product is bound by reading B: count its bytes as work too.
	perPanel := max(1, s.K) * t.nr * (rows + 8)
	want := ceilDiv(gemmTileWork, perPanel)
	return min(max(want, least), newSplit(g.nPanels, most).largest())
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (g *Gemm) Workspace(threads int) int {
	n := g.perWorker()*g.workers(threads) + scratchBytes(4*g.pieceA*g.k.p*g.tilesM)
	if n > 0 {
		n += lineBytes
	}
	return n
}

// perWorker is the workspace of one worker.
func (g *Gemm) perWorker() int { return scratchBytes(4*g.packA, 4*g.packB, 4*g.colBias) }

func (g *Gemm) tasks() int { return g.batches * g.tilesM * g.tilesN }

func (g *Gemm) workers(threads int) int { return max(1, min(threads, g.tasks())) }

// Spec returns the specification with its defaults filled in.
func (g *Gemm) Spec() GemmSpec { return g.s }

// FLOPs returns the floating point operations of one run.
func (g *Gemm) FLOPs() int { return 2 * g.batches * g.s.M * g.s.N * g.s.K }
