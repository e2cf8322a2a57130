package attend

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Attention by columns. Both products are computed transposed, so that the scores of a block, a panel of queries, are made in
// the very order in which the second product reads them:
//
//	       queries           scores            result
//	      ┌────────┐        ┌────────┐        ┌────────┐
//	keys  │   Qᵀ   │   =    │   Sᵀ   │   Vᵀ·  │   Sᵀ   │   =   Yᵀ
//	 · d  └────────┘   keys │        │        │        │
//	                        └────────┘        └────────┘
//
// Nothing of the size of the scores is packed, and the softmax goes down columns: lanes are not combined, and there are no
// rests of rows. Weights are e^(score−max); columns of the result are divided by their sums. Where that is not finite, as
// where values are so large that only their mean is within the range, the weights are divided instead, and multiplied again.
//
// Sums of weights are those of pieces of columns, added up, so their errors do not grow with the number of keys.

// columns is the plan.
type columns struct {
	scores, apply [2]*gemm.Gemm // by how many vectors of queries there are, less one
	keys, values  *gemm.Packing
	keySize       int
	ws            [7]int // bytes of a worker: scores, a mask, packed keys and values, queries, maxima with sums, the result, workspace of products
}

// columnPiece is how many rows of a column are summed up by themselves.
const columnPiece = 128

// byColumns reports whether attention is computed by columns: a softmax of complete rows over sums with masks, with enough queries
// that few columns of their panels are empty.
func (p *Plan) byColumns() bool {
	s := &p.s
	if p.t.ColExp == nil || s.Seen || s.Causal || s.Sunk || s.NaNToZero || s.Left >= 0 || s.Right >= 0 || s.T > oneChunk {
		return false
	}
	for i := range s.Steps {
		if s.Steps[i].Kind != Add || s.Steps[i].Mask.Col != 1 {
			return false
		}
	}
	return machine.RoundUp(s.S, p.t.Lanes())*3 <= s.S*4
}

// planColumns prepares attention by columns.
func (p *Plan) planColumns() (err error) {
	s, nr, c := &p.s, p.t.Nr, &columns{}
	p.queries, p.keys, p.packed, p.cols = gemm.Split{N: s.S, P: machine.CeilDiv(s.S, nr), Base: nr}, gemm.NewSplit(s.T, s.T), true, c
	g := gemm.GemmSpec{M: s.T, K: s.D, TransA: s.K.Row == 1 && s.K.Col != 1, LDA: s.K.Row, LDC: nr, Alpha: s.Scale, ConstA: true, ConstB: true}
	if g.TransA {
		g.LDA = s.K.Col
	}
	h := gemm.GemmSpec{M: s.E, K: s.T, TransA: true, LDA: s.V.Row, LDC: nr, Alpha: 1, ConstA: true, ConstB: true}
	products := 0
	for i := range c.scores {
		g.N, h.N = (i+1)*p.t.Lanes(), (i+1)*p.t.Lanes()
		if c.scores[i], err = gemm.NewGemm(g); err != nil {
			return err
		}
		if c.apply[i], err = gemm.NewGemm(h); err != nil {
			return err
		}
		products = max(products, c.scores[i].Workspace(1), c.apply[i].Workspace(1))
	}
	c.keys, c.values = c.scores[0].PackingA(), c.apply[0].PackingA()
	c.keySize = machine.RoundUp(c.keys.Size, machine.SlackFloats)
	c.ws = [7]int{4 * s.T * nr, 0, 4 * (c.keySize + c.values.Size), 4 * (s.D*nr + machine.SlackFloats), 4 * 2 * nr, 4 * s.E * nr, products}
	if len(s.Steps) > 0 {
		c.ws[1] = 4 * (s.T*nr + machine.SlackFloats)
	}
	p.per = machine.ScratchBytes(c.ws[:]...)
	return nil
}

// panel is what computes a panel of queries.
type panel struct {
	job                           // a copy: what is reached through pointers of a panel is on the heap
	c                             *columns
	mask, queries, y              []float32
	first, rows, vectors, columns int
}

// panels computes some panels of queries.
func (j *job) panels(s *machine.Scratch, from, n int) {
	p, c := j.r.p, j.r.p.cols
	x := panel{job: *j, c: c}
	x.scores = s.Floats(c.ws[0] / 4)
	x.mask = s.Floats(c.ws[1] / 4)
	x.packed = s.Floats(c.ws[2] / 4)
	x.queries = s.Floats(c.ws[3] / 4)
	stats := s.Floats(c.ws[4] / 4)
	x.tops, x.sums = stats[:p.t.Nr], stats[p.t.Nr:]
	x.y = s.Floats(c.ws[5] / 4)
	x.ws = s.Rest
	x.packColumns()
	for b := from; b < from+n && !machine.Closed(j.r.a.Done); b++ {
		x.first = b * p.t.Nr
		x.rows = min(p.t.Nr, p.s.S-x.first)
		x.vectors = machine.CeilDiv(x.rows, p.t.Lanes())
		x.columns = x.vectors * p.t.Lanes()
		x.run()
	}
}

// packColumns lays keys and values out, unless the worker has just done so.
func (j *job) packColumns() {
	c, h := j.r.p.cols, j.held
	if h.filled && h.k == j.k && h.v == j.v {
		return
	}
	h.filled, h.k, h.v = true, j.k, j.v
	c.keys.PackInOrder(j.packed[:c.keySize], j.r.a.K[j.k:])
	c.values.PackInOrder(j.packed[c.keySize:], j.r.a.V[j.v:])
}

// run computes the panel.
func (x *panel) run() {
	p, c := x.r.p, x.c
	t, s := p.t, &p.s
	x.transposed(x.queries, x.r.a.Q[x.q+x.first*s.Q.Row:], s.Q.Row, s.D)
	x.multiply(c.scores[x.vectors-1], c.keys.Layout, x.packed[:c.keySize], x.queries, x.scores)
	for i := range s.Steps {
		m := &s.Steps[i].Mask
		x.transposed(x.mask, x.r.a.Masks[i].Floats[x.masks[i]+x.first*m.Row:], m.Row, s.T)
		t.BinaryRow(simd.Add, x.scores, x.scores, x.mask[:len(x.scores)])
	}
	fill(x.tops, minusInf)
	clear(x.sums)
	t.ColMax(&x.tops[0], &x.scores[0], s.T, x.vectors)
	for from := 0; from < s.T; from += columnPiece {
		t.ColExp(&x.sums[0], &x.tops[0], &x.scores[from*t.Nr], min(columnPiece, s.T-from), x.vectors)
	}
	t.ScalarBinaryRow(simd.Div, x.sums, 1, x.sums)
	x.apply()
	t.ColMul(&x.sums[0], &x.y[0], s.E, x.vectors)
	if !x.finite() {
		t.ColMul(&x.sums[0], &x.scores[0], s.T, x.vectors)
		x.apply()
	}
	y := x.r.a.Y[x.y0()+x.first*s.Y.Row:]
	for e := 0; e < s.E; e += t.Tw {
		t.Transpose(machine.F32p(y, e), &x.y[e*t.Nr], x.rows, 4*s.Y.Row, 4*t.Nr, min(t.Tw, s.E-e))
	}
}

// finite reports whether the results are, those of empty columns included.
func (x *panel) finite() bool {
	t, sum := x.r.p.t, float32(0)
	if x.columns == t.Nr {
		sum = t.SumAbs(&x.y[0], len(x.y))
		return sum-sum == 0
	}
	for e := 0; e < len(x.y); e += t.Nr {
		sum += t.SumAbs(&x.y[e], x.rows)
	}
	return sum-sum == 0
}

// y0 is where the result of the matrix begins.
func (x *panel) y0() int { return x.job.y }

// apply multiplies the weights by the values.
func (x *panel) apply() {
	x.multiply(x.c.apply[x.vectors-1], x.c.values.Layout, x.packed[x.c.keySize:], x.scores, x.y)
}

// multiply computes a product of packed operands.
func (x *panel) multiply(g *gemm.Gemm, order gemm.Layout, a, b, c []float32) {
	h := x.held
	h.values.Order, h.values.Data = order, a
	h.keys.Order, h.keys.Data = g.LayoutB(), b
	_ = g.Run(gemm.GemmArgs{Done: x.r.a.Done, PackedA: &h.values, PackedB: &h.keys, C: c}, x.ws, 1) // the sizes were checked when it was prepared
}

// transposed makes columns of the panel's rows of a matrix; the rest of the columns are zeros.
func (x *panel) transposed(dst, rows []float32, distance, n int) {
	t := x.r.p.t
	if x.rows < x.columns {
		clear(dst[:n*t.Nr])
	}
	for r := 0; r < x.rows; r += t.Tw {
		t.Transpose(machine.F32p(dst, r), machine.F32p(rows, r*distance), n, 4*t.Nr, 4*distance, min(t.Tw, x.rows-r))
	}
}
