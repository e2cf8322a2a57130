package cpu

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Scaled dot-product attention, a block of queries at a time: the scores of a
// block stay in cache between the two products, and the whole matrix of scores is
// never in memory.
//
//	Q [block, D] ──·Kᵀ──▶ scores [block, T] ── cap, mask, softmax ──·V──▶ Y [block, E]
//	                        └── workspace of one worker ──┘
//
// With is_causal a block reads only the keys up to its last query. With fewer key
// heads than query heads, query head h reads key head h / (Hq/Hk). Sources:
// https://arxiv.org/abs/1706.03762, https://arxiv.org/abs/2205.14135 (blocks),
// https://arxiv.org/abs/2305.13245 (shared key heads).

var attentionOps = []entry{
	{op: "Attention", prepare: prepareAttention, empties: true},
}

// heads is how the vectors of an operand lie in memory.
type heads struct {
	n, seq, size   int
	batch, head, s int // strides between batches, heads, positions
}

// denseHeads are n heads of seq vectors, head by head.
func denseHeads(n, seq, size int) heads { return heads{n, seq, size, n * seq * size, seq * size, size} }

// mergedHeads are n heads of seq vectors, position by position.
func mergedHeads(n, seq, size int) heads { return heads{n, seq, size, seq * n * size, size, n * size} }

// headsOf reads an operand of rank 4 [B, n, S, size], or 3 [B, S, n·size].
func headsOf(shape []int, n int) (h heads, ok bool) {
	switch {
	case len(shape) == 4:
		return denseHeads(shape[1], shape[2], shape[3]), true
	case len(shape) == 3 && n > 0 && shape[2]%n == 0:
		return mergedHeads(n, shape[1], shape[2]/n), true
	}
	return h, false
}

// at is the first element of a head at a position.
func (h *heads) at(b, head, s int) int { return b*h.batch + head*h.head + s*h.s }

type attention struct {
	batch      int
	q, k, v, y heads
	past       int     // positions of past_key and past_value
	joinK      [2]int  // where past and new keys are concatenated: result, workspace
	joinV      [2]int  // (-1: neither, operands 1 and 2 are read in place)
	softcap    float32 // 0: none
	causal     bool
	left       int // keys before and behind a query that it reads, -1 for all
	right      int
	mask       maskKind
	maskAt     [4]int // strides of the mask over [B, Hq, S, T]
	blocks     []queryBlock
	worker     int // bytes of workspace of a worker
	gemm       int // in it: workspace of the products; scores come first
	ws         int
	threads    int
}

type maskKind uint8

const (
	noMask maskKind = iota
	boolMask
	floatMask
)

// queryBlock is a block of queries and the keys it reads.
type queryBlock struct {
	from, rows, keys int
	scores, apply    *gemm.Gemm
}

// attentionScores is about how many scores a block has.
const attentionScores = 32 << 10

func prepareAttention(p *prep) (ops.Kernel, error) {
	if !p.attentionTypes() {
		return nil, nil
	}
	a := &attention{softcap: ops.Float(p.node, "softcap"), causal: ops.Int(p.node, "is_causal") != 0,
		left: p.window("left_window_size"), right: p.window("right_window_size")}
	return a.prepare(p, int(ops.Int(p.node, "q_num_heads")), int(ops.Int(p.node, "kv_num_heads")), func(standard float32) float32 {
		return ops.FloatOr(p.node, "scale", standard)
	})
}

// prepare completes an attention over the operands of p, which are those of Attention, with so
// many heads of queries and of keys where the operands do not tell, and the scale that is chosen
// given 1/√size; nil if the operands do not fit.
func (a *attention) prepare(p *prep, hq, hk int, scale func(standard float32) float32) (ops.Kernel, error) {
	a.batch, a.threads = p.in[0].shape[0], p.threads
	var ok [4]bool
	a.q, ok[0] = headsOf(p.in[0].shape, hq)
	a.k, ok[1] = headsOf(p.in[1].shape, hk)
	a.v, ok[2] = headsOf(p.in[2].shape, hk)
	a.y, ok[3] = headsOf(p.out[0].shape, hq)
	if ok != [4]bool{true, true, true, true} || a.k.n == 0 || a.q.n%a.k.n != 0 || a.k.n != a.v.n || a.k.seq != a.v.seq ||
		a.q.size != a.k.size || p.in[1].shape[0] != a.batch || p.in[2].shape[0] != a.batch || a.y.size != a.v.size || a.y.seq != a.q.seq {
		return nil, nil
	}
	if !a.joinPast(p) || !a.readMask(p) {
		return nil, nil
	}
	if err := a.prepareBlocks(p, scale(float32(1/math.Sqrt(float64(a.q.size))))); err != nil {
		return nil, err
	}
	return a, nil
}

// window reads the size of a window, -1 for none.
func (p *prep) window(name string) int {
	return int(min(max(ops.Int(p.node, name), -1), math.MaxInt32))
}

// attentionTypes reports that there is code for the variant: float32, no lengths, no
// result with the scores.
func (p *prep) attentionTypes() bool {
	for i, x := range p.in {
		if x.present && x.dt != ndarray.Float32 && !(i == 3 && x.dt == ndarray.Bool) {
			return false
		}
	}
	precision := ops.Int(p.node, "softmax_precision")
	return p.wants(0) && p.in[0].n > 0 && p.in[1].n > 0 && p.in[2].n > 0 && !p.has(6) && !p.wants(3) && p.has(4) == p.has(5) && (precision == 0 || precision == int64(ndarray.Float32))
}

// joinPast decides where past and new keys and values are concatenated: in results 1
// and 2 if they are used, else in the workspace.
func (a *attention) joinPast(p *prep) bool {
	a.joinK, a.joinV = [2]int{-1, -1}, [2]int{-1, -1}
	for i, x := range []struct {
		h    *heads
		join *[2]int
	}{{&a.k, &a.joinK}, {&a.v, &a.joinV}} {
		past := 0
		if p.has(4 + i) {
			s := p.in[4+i].shape
			if len(s) != 4 || s[0] != a.batch || s[1] != x.h.n || s[3] != x.h.size {
				return false
			}
			past = s[2]
		} else if !p.wants(1 + i) {
			continue
		}
		a.past = past
		h := denseHeads(x.h.n, x.h.seq+past, x.h.size)
		*x.h = h
		if p.wants(1 + i) {
			if p.out[1+i].n != a.batch*h.batch {
				return false
			}
			x.join[0] = 1 + i
		} else {
			x.join[1] = p.workspace(4 * a.batch * h.batch)
		}
	}
	return a.k.seq == a.v.seq
}

// readMask finds the strides of the mask; one that is narrower than the keys is
// not served.
func (a *attention) readMask(p *prep) bool {
	if !p.has(3) {
		return true
	}
	m := p.in[3]
	full := []int{a.batch, a.q.n, a.q.seq, a.k.seq}
	shape, err := ops.BroadcastShapes(m.shape, full)
	if err != nil || len(shape) != 4 || sizeOf(shape) != sizeOf(full) {
		return false
	}
	copy(a.maskAt[:], ops.BroadcastStrides(m.shape, full))
	a.mask = floatMask
	if m.dt == ndarray.Bool {
		a.mask = boolMask
	}
	return true
}

// prepareBlocks prepares the products; blocks of the same size share them.
func (a *attention) prepareBlocks(p *prep, scale float32) error {
	rows := min(max(8, attentionScores/a.k.seq), a.q.seq)
	ws := 0
	for from := 0; from < a.q.seq; from += rows {
		b := queryBlock{from: from, rows: min(rows, a.q.seq-from), keys: a.k.seq}
		if a.causal {
			b.keys = max(1, min(a.k.seq, from+b.rows+a.past))
		}
		if last := len(a.blocks) - 1; last >= 0 && a.blocks[last].rows == b.rows && a.blocks[last].keys == b.keys {
			b.scores, b.apply = a.blocks[last].scores, a.blocks[last].apply
		} else {
			var err error
			if b.scores, err = gemm.NewGemm(gemm.GemmSpec{M: b.rows, N: b.keys, K: a.q.size, TransB: true, Alpha: scale, LDA: a.q.s, LDB: a.k.s}); err != nil {
				return err
			}
			if b.apply, err = gemm.NewGemm(gemm.GemmSpec{M: b.rows, N: a.v.size, K: b.keys, Alpha: 1, LDB: a.v.s, LDC: a.y.s}); err != nil {
				return err
			}
		}
		ws = max(ws, b.scores.Workspace(1), b.apply.Workspace(1))
		a.blocks = append(a.blocks, b)
	}
	a.gemm = roundUp(4*rows*a.k.seq, lineBytes)
	a.worker = a.gemm + roundUp(ws, lineBytes)
	a.ws = p.workspace(a.worker * p.threads)
	return nil
}

// Run computes all blocks.
func (a *attention) Run(c *ops.Call) error {
	a.join(c, a.joinK, &a.k, 1, 4)
	a.join(c, a.joinV, &a.v, 2, 5)
	runSmall(c, a.batch*a.q.n*len(a.blocks), a.blocks[0].rows*a.k.seq*max(1, a.q.size/8), a.threads, a)
	return nil
}

// Choice says how it is computed.
func (a *attention) Choice() backend.Choice {
	b := &a.blocks[0]
	return backend.Choice{Algorithm: "attention by blocks of queries", Reason: fmt.Sprintf("%d×%d scores of a head stay in the cache", b.rows, b.keys)}
}

// memory is where keys or values lie: operand in, or where they were joined.
func (a *attention) memory(c *ops.Call, join [2]int, h *heads, in int) []float32 {
	switch {
	case join[0] >= 0:
		return f32(c.Out[join[0]])
	case join[1] >= 0:
		return scratchOf[float32](c, join[1], a.batch*h.batch)
	}
	return f32(c.In[in])
}

// join copies past and new vectors one behind the other.
func (a *attention) join(c *ops.Call, join [2]int, h *heads, in, past int) {
	if join[0] < 0 && join[1] < 0 {
		return
	}
	dst, src := a.memory(c, join, h, in), f32(c.In[in])
	old := optF32(c.In, past)
	fresh, _ := headsOf(arrayOf(c.In[in]).Shape, h.n)
	for b := range a.batch {
		for i := range h.n {
			to := dst[h.at(b, i, 0):][:h.head]
			if old != nil {
				n := a.past * h.size
				copy(to[:n], old[(b*h.n+i)*n:])
				to = to[n:]
			}
			for s := range fresh.seq {
				copy(to[s*h.size:(s+1)*h.size], src[fresh.at(b, i, s):])
			}
		}
	}
}

func (a *attention) tile(c *ops.Call, i, worker int) {
	blk := &a.blocks[i%len(a.blocks)]
	head := i / len(a.blocks) % a.q.n
	b := i / len(a.blocks) / a.q.n
	shared := head / (a.q.n / a.k.n)
	at := a.ws + worker*a.worker
	scores := scratchOf[float32](c, at, blk.rows*blk.keys)
	ws := c.Scratch[at+a.gemm : at+a.worker]
	keys, values := a.memory(c, a.joinK, &a.k, 1), a.memory(c, a.joinV, &a.v, 2)
	// The sizes were checked when the products were prepared; they cannot fail.
	products := func() {
		_ = blk.scores.Run(gemm.GemmArgs{Done: c.Done(), A: f32(c.In[0])[a.q.at(b, head, blk.from):], B: keys[a.k.at(b, shared, 0):], C: scores}, ws, 1)
		a.capAndMask(c, blk, scores, b, head)
	}
	products()
	vec.Softmax(c.Done(), scores, scores, blk.rows, blk.keys, 1)
	if blk.unclear(scores) {
		products()
		blk.softmaxOfAny(c, scores)
	}
	values = values[a.v.at(b, shared, 0):]
	_ = blk.apply.Run(gemm.GemmArgs{Done: c.Done(), A: scores, B: values, C: f32(c.Out[0])[a.y.at(b, head, blk.from):]}, ws, 1)
	for r := range blk.rows {
		y := f32(c.Out[0])[a.y.at(b, head, blk.from+r):][:a.v.size]
		if s := simd.Active().SumAbs(&y[0], len(y)); s-s != 0 {
			a.applySeen(y, scores[r*blk.keys:][:blk.keys], values)
		}
	}
}

// capAndMask limits the scores of a block and masks them.
func (a *attention) capAndMask(c *ops.Call, blk *queryBlock, scores []float32, b, head int) {
	if a.softcap != 0 {
		vec.BinaryScalar(simd.Div, scores, scores, a.softcap)
		vec.Unary(simd.Tanh, scores, scores, 0, 0)
		vec.BinaryScalar(simd.Mul, scores, scores, a.softcap)
	}
	if a.mask == noMask && !a.causal && a.left < 0 && a.right < 0 {
		return
	}
	for r := range blk.rows {
		a.maskRow(c, scores[r*blk.keys:(r+1)*blk.keys], b, head, blk.from+r)
	}
}

// unclear reports that a row of weights is NaN: a score was, or no key is left.
func (blk *queryBlock) unclear(weights []float32) bool {
	for at := 0; at < len(weights); at += blk.keys {
		if weights[at] != weights[at] {
			return true
		}
	}
	return false
}

// softmaxOfAny is softmax, and zero for rows without a key.
func (blk *queryBlock) softmaxOfAny(c *ops.Call, scores []float32) {
	for r := range blk.rows {
		row := scores[r*blk.keys : (r+1)*blk.keys]
		if math.IsInf(float64(vec.MaxOf(row)), -1) {
			clear(row)
			continue
		}
		vec.Softmax(c.Done(), row, row, 1, blk.keys, 1)
	}
}

// applySeen computes a row of the result from the keys that have a part in it: the value of
// one that is masked may be infinite or NaN, of which 0·v would make NaN.
func (a *attention) applySeen(y, weights, values []float32) {
	clear(y)
	for t, w := range weights {
		if w == 0 {
			continue
		}
		for e, v := range values[t*a.v.s:][:len(y)] {
			y[e] += w * v
		}
	}
}

// maskRow adds the mask to the scores of query s and takes out the keys that it must
// not see by their position.
func (a *attention) maskRow(c *ops.Call, row []float32, b, head, s int) {
	m := a.maskAt
	base := b*m[0] + head*m[1] + s*m[2]
	switch {
	case a.mask == floatMask && m[3] == 1:
		vec.Binary(simd.Add, row, row, f32(c.In[3])[base:])
	case a.mask == floatMask:
		vec.BinaryScalar(simd.Add, row, row, f32(c.In[3])[base])
	case a.mask == boolMask:
		keep := arrayOf(c.In[3]).Data
		for t := range row {
			if keep[base+t*m[3]] == 0 {
				row[t] = minusInf
			}
		}
	}
	first, last, at := 0, len(row)-1, s+a.past
	if a.causal {
		last = min(last, at)
	}
	if a.left >= 0 {
		first = min(max(at-a.left, 0), len(row))
	}
	if a.right >= 0 {
		last = min(last, at+a.right)
	}
	fill(row[:first], minusInf)
	fill(row[max(last+1, 0):], minusInf)
}

var minusInf = float32(math.Inf(-1))
