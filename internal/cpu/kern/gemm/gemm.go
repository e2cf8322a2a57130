package gemm

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

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
//	   M │      ├────┤   =   Σ    │A │  │  │B │   kc: a block of K, tile by tile
//	     │      │    │       k    └──┴──┴──┴──┘
//	     └──────┴────┘               └─ panel of A: kc × h, h ≤ mr
//
// A task computes one tile of C over the whole of K and packs what it needs into
// the workspace of its worker. So an element is always summed over the same blocks
// in the same order, whatever the number of threads.
//
// Rows are distributed evenly over panels: 64 rows make panels of 13, 13, 13, 13
// and 12 rows rather than four of 14 and one of 8. There is a micro-kernel for
// every height, so panels need no padding.

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
	NBitsB         bool       // B comes as columns of few bits
	WholeBits      int        // of so many, with zero points that are whole numbers; 0 if they may be others
	BytesBlock     int        // of columns for which A is quantized, see [NBits.ByBytes]; 0 if it is not
	BytesDigits    int        // of a number of A then
	Chain          int        // products that are added up one after the other, at most; 0 for [GemmBlockK]
	Shared         bool       // several threads share a run: small products are cut for them, too
	Epilogue       simd.Epilogue
}

// GemmArgs are the operands of one run. A packed operand takes the place of
// the plain one. Bias has M or N elements and is shared by the batch.
type GemmArgs struct {
	A, B, C          []float32
	PackedA, PackedB *Packed
	NBitsB           *NBits
	Bias, Residual   []float32
	Done             <-chan struct{} // when closed, the rest is left undone
	Backwards        bool            // a hint for one row: B from its end on, which the cache still has where the last run read up to there
}

// Gemm is a prepared matrix product. It is immutable.
type Gemm struct {
	s        GemmSpec
	t        *simd.Table
	m        Split // rows into panels of A
	nPanels  int   // panels of B
	k        Split // K into blocks
	tileM    int   // panels of A in a tile
	tileN    int   // panels of B in a tile
	tilesM   int
	tilesN   int
	batches  int
	dots     bool // element by element, see gemm_dot.go
	fewRows  bool // by columns of few bits as they are, see nbits_rows.go
	directA  bool // A is one row: it is its own panel
	directB  bool // read full panels of B in place
	needA    int  // elements the plain operands must have
	needB    int
	needC    int
	needR    int
	packA    int // floats of workspace per worker for A, 0 when constant
	packB    int
	shareA   bool // A is packed once for all tiles, in pieces: a block of K by a row of tiles
	pieceA   int  // floats of a piece
	blocks   int  // of a row that is quantized
	records  int  // floats of such a row: bytes, and a scale and a sum for each block
	colBias  int  // floats of workspace per worker for the bias of a narrow panel
	per      int  // bytes of workspace per worker
	pieces   int  // bytes of workspace for all pieces
	lo, hi   float32
	clamp    bool
	after    simd.UnaryOp
	loopRows bool // the inner loop runs over panels of A
	far      bool // B is packed, bound to come from far away, and read by few rows
}

// Split divides N items into P parts as evenly as possible; the first Extra parts have
// one item more than Base.
type Split struct{ N, P, Base, Extra int }

// NewSplit divides n into the fewest parts of at most most items; zero items make no
// part.
func NewSplit(n, most int) Split {
	p := machine.CeilDiv(n, most)
	if p == 0 {
		return Split{}
	}
	return Split{n, p, n / p, n % p}
}

// Part returns where part i starts and how many items it has.
func (s Split) Part(i int) (start, size int) {
	start = i*s.Base + min(i, s.Extra)
	if i < s.Extra {
		return start, s.Base + 1
	}
	return start, s.Base
}

// Largest is the size of the largest part.
func (s Split) Largest() int {
	if s.Extra > 0 {
		return s.Base + 1
	}
	return s.Base
}

// Sizes are the sizes that parts have: one or two.
func (s Split) Sizes() []int {
	if s.Extra > 0 {
		return []int{s.Base + 1, s.Base}
	}
	return []int{s.Base}
}

// Block sizes. A block of A (tileM panels) and one of B share the L2 cache.
const (
	GemmBlockK     = 256 // largest block of K
	gemmTileRows   = 140
	gemmTileCols   = 256
	gemmDirectRows = 2       // panels of A up to which B is read unpacked
	gemmDirectSize = 1 << 17 // elements of B up to which it is
	nearSize       = 1 << 18 // elements of B up to which the second cache holds it from one run to the next
	farRows        = 8       // rows up to which reading B from further away is the bound
	maxBatchDims   = 4
)

// The size of a task, in multiply-adds: an eighth of the work, so that a few threads end at
// about the same time, but no less than what takes as long as handing it to another thread.
const (
	taskShare   = 8
	leastTask   = 1 << 18
	ProductTask = 1 << 20 // of a product at most,

	productShare = 32 // unless it has so many of a larger size: wide tiles read panels of A fewer times
)

// TaskWork returns the multiply-adds of a task, at most so many, where there are so many in all.
func TaskWork(all, most int) int { return min(max(leastTask, all/taskShare), most) }

// taskWork is [TaskWork] of a product.
func (g *Gemm) taskWork(all int) int {
	most := max(ProductTask, all/productShare)
	if !g.s.Shared {
		return most
	}
	return TaskWork(all, most)
}

// NewGemm prepares a product at the active level.
func NewGemm(s GemmSpec) (*Gemm, error) {
	g := &Gemm{s: s, t: simd.Active()}
	g.s.Batch = append([]BatchDim(nil), s.Batch...)
	if err := g.check(); err != nil {
		return nil, err
	}
	g.lo, g.hi, g.clamp = s.Epilogue.Clamp()
	g.after = s.Epilogue.After()
	g.m = NewSplit(s.M, g.t.Mr)
	g.nPanels = machine.CeilDiv(s.N, g.t.Nr)
	g.k = NewSplit(s.K, g.chain())
	g.tile()
	g.per = machine.ScratchBytes(4*g.packA, 4*g.packB, 4*g.colBias)
	g.pieces = machine.ScratchBytes(4 * g.pieceA * g.k.P * g.tilesM)
	return g, nil
}

// chain is the largest block of K.
func (g *Gemm) chain() int {
	if g.s.Chain > 0 {
		return min(g.s.Chain, GemmBlockK)
	}
	return GemmBlockK
}

// check validates the specification and computes operand sizes.
func (g *Gemm) check() error {
	s := &g.s
	if err := s.Epilogue.Check("Gemm"); err != nil {
		return err
	}
	if s.M < 0 || s.N < 0 || s.K < 0 || max(s.M, s.N, s.K) > machine.MaxExtent {
		return &machine.SpecError{Kernel: "Gemm", Field: "M, N, K", Why: "negative or too large"}
	}
	if len(s.Batch) > maxBatchDims {
		return &machine.SpecError{Kernel: "Gemm", Field: "Batch", Why: "more than 4 dimensions"}
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
			return &machine.SpecError{Kernel: "Gemm", Field: x.name, Why: "smaller than a row"}
		}
		n, ok := machine.MulAll(x.rows, *x.ld, 4)
		if !ok {
			return &machine.SpecError{Kernel: "Gemm", Field: x.name, Why: "too large"}
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
			return &machine.SpecError{Kernel: "Gemm", Field: "Batch", Why: "negative stride"}
		}
		n, ok := machine.MulAll(g.batches, b.N)
		if !ok {
			return &machine.SpecError{Kernel: "Gemm", Field: "Batch", Why: "negative or too large"}
		}
		g.batches = n
		grow := func(need *int, stride int) bool {
			add, ok := machine.MulAll(max(b.N-1, 0), stride)
			*need += add
			return ok && *need < machine.MaxExtent
		}
		if !grow(&g.needA, b.A) || !grow(&g.needB, b.B) || !grow(&g.needC, b.C) || !grow(&g.needR, b.R) {
			return &machine.SpecError{Kernel: "Gemm", Field: "Batch", Why: "too large"}
		}
	}
	return nil
}

// tile chooses the tiles and what is packed for them.
func (g *Gemm) tile() {
	s, t := &g.s, g.t
	if g.m.P == 0 || g.nPanels == 0 {
		return
	}
	if g.wantsDots() {
		g.planDots()
		return
	}
	if g.wantsNBits() {
		g.planNBits()
		return
	}
	tm := NewSplit(g.m.P, max(1, gemmTileRows/t.Mr))
	g.tileM, g.tilesM = tm.Largest(), tm.P
	rows := min(s.M, g.tileM*t.Mr)
	g.tileN = g.tileCols(rows)
	g.tilesN = machine.CeilDiv(g.nPanels, g.tileN)
	g.tilesM = machine.CeilDiv(g.m.P, g.tileM)
	kc := g.k.Largest()
	if g.directA = !s.ConstA && s.M == 1 && (!s.TransA || s.LDA == 1); !s.ConstA && !g.directA {
		g.shareA = g.batches == 1 && (g.tilesN > 2 || g.tilesN == 2 && s.ConstB) // packing it twice costs little, and keeping all of it much
		g.packA = machine.RoundUp(kc*g.tileM*t.Mr+machine.SlackFloats, machine.SlackFloats)
		if g.shareA {
			g.pieceA, g.packA = g.packA, 0
		}
	}
	if !s.ConstB {
		g.directB = !s.NBitsB && !s.TransB && g.m.P <= gemmDirectRows && s.K*s.LDB <= gemmDirectSize
		panels := g.tileN
		if g.directB {
			panels = 1 // the narrow last panel
		}
		g.packB = kc*panels*t.Nr + machine.SlackFloats
	}
	if s.Epilogue.Bias == simd.BiasPerCol && s.N%t.Nr != 0 {
		g.colBias = t.Nr
	}
	g.loopRows = s.ConstB && !s.ConstA || rows <= g.tileN*t.Nr
	g.far = s.ConstB && s.K*s.N > nearSize && s.M <= farRows
}

// tileCols is the number of panels of B in a tile of so many rows: as many as
// fill a task, but not so few that packing for the tile outweighs it.
func (g *Gemm) tileCols(rows int) int {
	s, t := &g.s, g.t
	most := max(1, gemmTileCols/t.Nr)
	if s.NBitsB && rows <= t.Mr {
		return 1 // a panel is dequantized, and read once, in the L1 cache
	}
	least := 1
	if !s.ConstB || (!s.ConstA && g.batches > 1) {
		least = most
	}
	// A narrow product is bound by reading B: count its bytes as work too.
	perPanel := max(1, s.K) * t.Nr * (rows + 8)
	want := machine.CeilDiv(g.taskWork(g.batches*g.tilesM*g.nPanels*perPanel), perPanel)
	return min(max(want, least), NewSplit(g.nPanels, most).Largest())
}

// Workspace returns the bytes of workspace that Run needs with this many
// threads.
func (g *Gemm) Workspace(threads int) int {
	n := g.per*g.workers(threads) + g.pieces
	if n > 0 {
		n += machine.LineBytes
	}
	return n
}

func (g *Gemm) tasks() int { return g.batches * g.tilesM * g.tilesN }

func (g *Gemm) workers(threads int) int { return max(1, min(threads, g.tasks())) }

// Spec returns the specification with its defaults filled in.
func (g *Gemm) Spec() GemmSpec { return g.s }

// Choice says what is packed, and why.
func (g *Gemm) Choice() (algorithm, reason string) {
	switch {
	case g.s.BytesDigits == threeDigits:
		return "products of bytes, weights of few bits", "numbers of rows are three bytes each"
	case g.s.BytesBlock > 0:
		return "products of bytes, weights of few bits", "accuracy_level 4: rows are quantized by blocks"
	case g.fewRows:
		return "products of few rows, weights of few bits", "weights become floats in registers"
	case g.s.NBitsB:
		return "blocked product, weights of few bits", "panels are dequantized into the cache"
	case g.dots:
		return "inner products", "few rows, both operands by rows: packing would cost more than the product"
	case g.s.ConstB:
		return "blocked product", "B is constant, packed once"
	case g.s.ConstA:
		return "blocked product", "A is constant, packed once"
	case g.directB:
		return "blocked product, B in place", "few rows: packing B would cost more than it saves"
	case g.shareA:
		return "blocked product", "no operand is constant; A is packed once in a run, B by tiles"
	}
	return "blocked product", "no operand is constant; both are packed by tiles"
}

// FLOPs returns the floating point operations of one run.
func (g *Gemm) FLOPs() int { return 2 * g.batches * g.s.M * g.s.N * g.s.K }
