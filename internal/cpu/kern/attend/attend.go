package attend

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// The plan of an attention. Queries are cut into blocks, and keys into chunks:
//
//	              keys
//	         ┌───────┬───────┐
//	queries  │ block │ block │  one block × chunk of scores is in the cache at a time
//	         ├───────┼───────┤
//	         │       │       │
//	         └───────┴───────┘
//
// With one chunk a row of scores is complete, and its softmax is that of package vec. Where a block of
// complete rows would not fit the cache there are more, and a row of weights is made chunk by chunk: m is
// the largest score so far, l the sum of e^(score−m), y the weighted mean of the values so far.
//
//	m' = max(m, scores)    k = l·e^(m−m')    l' = k + Σ e^(score−m')    y' = y·k/l' + Σ e^(score−m')/l' · V
//
// A sink is a score whose value is a vector of zeros: rows begin with it as m, and with l = 1. Chunks that no query of a
// block may see are left out.
//
// Dividing by l' in every chunk, rather than once at the end, keeps y a mean: it is never larger than the
// values are. With several blocks keys and values are packed once for all of them, into the workspace of
// the worker that computes the blocks.
//
// Blocks and chunks depend on the sizes alone, so the result is the same for any number of threads.
//
// Sources: https://arxiv.org/abs/1706.03762 (attention), https://arxiv.org/abs/2205.14135 (blocks, chunks).

// View is how a stack of matrices lies in memory: element (r, c) of matrix b is at At + Σ Batch[i]·b[i] +
// Row·r + Col·c.
type View struct {
	At       int
	Batch    []int
	Row, Col int
}

// StepKind is what is done to scores before the softmax.
type StepKind uint8

// The kinds of steps.
const (
	Add  StepKind = iota // score + mask, a number
	Keep                 // Number where mask, a byte, is 0
	Drop                 // Number where mask, a byte, is not 0
	Cap                  // Number · tanh(score / Number)
)

// Step is a step, with where its mask lies over the scores.
type Step struct {
	Kind   StepKind
	Number float32
	Mask   View
}

// MaxSteps is how many steps there may be.
const MaxSteps = 6

// Spec describes Y = softmax(steps(Scale · Q·Kᵀ)) · V for every matrix of a batch.
type Spec struct {
	Batch      []int
	S, T, D, E int  // queries, keys, sizes of keys and of values; at least 1
	Q, K, V, Y View // rows are queries (Q, Y) or keys (K, V)
	Scale      float32
	Steps      []Step
	NaNToZero  bool // weights that are NaN become 0

	// The rest is the operator's Attention, whose reference kernel says what becomes of numbers that are not finite. Seen says that keys of
	// weight 0 have no part in the result, whatever their values are, and that a row without a key is 0 rather than NaN.
	Seen        bool
	Causal      bool  // query s reads keys up to Past + s
	Left, Right int   // keys before and behind Past + s that a query reads, -1 for all
	Sunk        bool  // the weights of a row sum up to 1 with that of a score more, the sink of its matrix
	Sink        []int // distances between the sinks of matrices, as [View].Batch
}

// Args are the operands of a run. Masks are those of the steps, in one of the two types.
type Args struct {
	Done       <-chan struct{} // when closed, the rest is left undone
	Q, K, V, Y []float32
	Masks      [MaxSteps]Mask
	Past       int       // positions before the first query
	Keys       int       // keys there are, of those that there may be; 0: all
	Sinks      []float32 // nil: all 0
}

// Mask is the mask of a step: numbers or bytes.
type Mask struct {
	Floats []float32
	Bytes  []byte
}

// Plan is a prepared attention. It is immutable.
type Plan struct {
	s       Spec
	t       *simd.Table
	batches int
	queries gemm.Split // into blocks
	keys    gemm.Split // into chunks
	pairs   [2][2]pair // by the kinds of block and chunk: 1 for the shorter ones
	packed  bool
	cols    *columns // not nil: the attention is computed by columns

	keySize, valueSize [2]int // floats of a packed chunk, by its kind
	ws                 [4]int // bytes of a worker: scores, running maxima and sums, packed operands, workspace of products
	per                int    // bytes of a worker
}

// pair are the products of a block and a chunk.
type pair struct {
	scores, apply, more *gemm.Gemm // more adds to what is there
	keys, values        *gemm.Packing
}

// Sizes of blocks and chunks.
const (
	oneChunk    = 2048     // keys up to which rows are complete
	chunkKeys   = 512      // keys of a chunk where they are not
	blockScores = 48 << 10 // about how many scores a block of complete rows has
	fewQueries  = 4
)

// New prepares an attention at the active level.
func New(s Spec) (*Plan, error) {
	p := &Plan{s: s, t: simd.Active(), batches: 1}
	for _, n := range s.Batch {
		p.batches *= n
	}
	p.s.Steps = slices.Clone(s.Steps)
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.byColumns() {
		return p, p.planColumns()
	}
	p.cut()
	for b, rows := range parts(p.queries) {
		for c, keys := range parts(p.keys) {
			if err := p.products(&p.pairs[b][c], rows, keys); err != nil {
				return nil, err
			}
		}
	}
	p.reserve()
	return p, nil
}

func (p *Plan) check() error {
	s := &p.s
	if min(s.S, s.T, s.D, s.E) < 1 || max(s.S, s.T, s.D, s.E) > machine.MaxExtent || len(s.Steps) > MaxSteps {
		return &machine.SpecError{Kernel: "Attention", Field: "S, T, D, E, Steps", Why: "too small or too large"}
	}
	for _, x := range []struct {
		v          *View
		rows, cols int
	}{{&s.Q, s.S, s.D}, {&s.K, s.T, s.D}, {&s.V, s.T, s.E}, {&s.Y, s.S, s.E}} {
		if x.cols == 1 {
			x.v.Col = 1
		}
		if x.rows == 1 {
			x.v.Row = max(x.v.Row, x.cols*x.v.Col)
		}
		if x.v.Col != 1 && (x.v != &s.K || x.v.Row != 1 || x.v.Col < x.rows) || x.v.Col == 1 && x.v.Row < x.cols {
			return &machine.SpecError{Kernel: "Attention", Field: "Row, Col", Why: "rows that are not dense, or overlap"}
		}
	}
	return nil
}

// cut chooses blocks and chunks.
func (p *Plan) cut() {
	s, mr := &p.s, p.t.Mr
	most, rows := s.T, machine.RoundUp(max(2*mr, blockScores/s.T), mr)
	if s.T > oneChunk || (s.Causal || s.Sunk) && s.T > chunkKeys {
		most, rows = chunkKeys, 4*mr
	}
	p.queries, p.keys = gemm.NewSplit(s.S, rows), gemm.NewSplit(s.T, most)
	// Products of a few rows would read the keys once for each of them, unless they are packed.
	p.packed = s.S > 1 && (s.S <= fewQueries || p.queries.P > 1 || p.sharesKeys())
}

// sharesKeys reports that several matrices of queries read the same keys, one after the other.
func (p *Plan) sharesKeys() bool {
	last := len(p.s.Batch) - 1
	return last >= 0 && p.s.Batch[last] > 1 && p.s.K.Batch[last] == 0 && p.s.V.Batch[last] == 0
}

// parts are the sizes of the parts of a split: the larger, and the smaller if there are such.
func parts(s gemm.Split) []int {
	if s.Extra > 0 {
		return []int{s.Base + 1, s.Base}
	}
	return []int{s.Base}
}

// part is part i of a split, and which of the sizes it has.
func part(s gemm.Split, i int) (from, n, kind int) {
	from, n = s.Part(i)
	if s.Extra > 0 && i >= s.Extra {
		kind = 1
	}
	return from, n, kind
}

// products prepares those of a block of rows and a chunk of keys.
func (p *Plan) products(x *pair, rows, keys int) (err error) {
	s := &p.s
	g := gemm.GemmSpec{M: rows, N: keys, K: s.D, TransB: s.K.Col == 1, Alpha: s.Scale, LDA: s.Q.Row, LDB: s.K.Row, LDC: keys, ConstB: p.packed}
	if !g.TransB {
		g.LDB = s.K.Col
	}
	if x.scores, err = gemm.NewGemm(g); err != nil {
		return err
	}
	g = gemm.GemmSpec{M: rows, N: s.E, K: keys, Alpha: 1, LDA: keys, LDB: s.V.Row, LDC: s.Y.Row, ConstB: p.packed}
	if x.apply, err = gemm.NewGemm(g); err != nil {
		return err
	}
	if x.more = x.apply; p.keys.P > 1 {
		g.Beta = 1
		if x.more, err = gemm.NewGemm(g); err != nil {
			return err
		}
	}
	if p.packed {
		x.keys, x.values = x.scores.PackingB(), x.apply.PackingB()
	}
	return nil
}

// reserve computes the workspace of a worker.
func (p *Plan) reserve() {
	rows, keys, ws := p.queries.Largest(), p.keys.Largest(), 0
	for b := range p.pairs {
		for c := range p.pairs[b] {
			if x := &p.pairs[b][c]; x.scores != nil {
				ws = max(ws, x.scores.Workspace(1), x.apply.Workspace(1), x.more.Workspace(1))
			}
		}
	}
	p.ws[0], p.ws[1], p.ws[3] = 4*rows*keys, 4*2*rows, ws
	if p.packed {
		for c := range p.pairs[0] {
			if x := &p.pairs[0][c]; x.keys != nil {
				p.keySize[c], p.valueSize[c] = machine.RoundUp(x.keys.Size, machine.SlackFloats), machine.RoundUp(x.values.Size, machine.SlackFloats)
			}
		}
		p.ws[2] = 4 * p.keys.P * (p.keySize[0] + p.valueSize[0])
	}
	p.per = machine.ScratchBytes(p.ws[:]...)
}

// Workspace returns the bytes of workspace that Run needs with so many threads.
func (p *Plan) Workspace(threads int) int { return p.per * max(threads, 1) }

// Block is how many queries a block has, and how many keys a chunk.
func (p *Plan) Block() (rows, keys int) { return p.queries.Largest(), p.keys.Largest() }
