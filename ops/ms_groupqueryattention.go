package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// GroupQueryAttention is causal attention with a cache and shared key heads, of
// the com.microsoft domain. Sequence b has seqlens_k[b]+1 positions in all; the
// new ones follow the past:
//
//	cache b   [0 … past | past … past+S | unused]      length of present_key
//	output    = softmax(cap(scale * Q·Kᵀ) + attention_bias) · V, keys up to the query's own position
//
// Query may hold Q, K and V packed. do_rotary rotates Q and K first;
// local_window_size limits how far back a query sees; head_sink (or
// smooth_softmax, a sink of 0) adds e^sink to the softmax's denominator.
var GroupQueryAttention = Op{
	Domain: microsoft, Name: "GroupQueryAttention", Since: 1, Doc: "output = causal attention over a cache, key heads shared by query heads",
	MinIn: 1, MaxIn: 16, MinOut: 1, MaxOut: 4,
	Attrs: []AttrSpec{intAttr("causal", 1), intAttr("do_rotary"), strAttr("k_quant_type", "NONE"),
		intAttr("kv_cache_bit_width"), intAttr("kv_num_heads").required(),
		intAttr("local_window_size", -1), intAttr("num_heads").required(), floatAttr("qk_norm_epsilon", 1e-6),
		intAttr("qk_output", 0), intAttr("rotary_interleaved"), floatAttr("scale"),
		intAttr("sliding_window_cache", 0), intAttr("smooth_softmax", -1), floatAttr("softcap"),
		strAttr("v_quant_type", "NONE")},
	Facts: Facts{Traits: general, Cost: cachedCost(1)}, Infer: rule(inferGroupQuery),
	Eval: floatKernel(evalGroupQuery[float32], evalGroupQuery[float64]),
}

func inferGroupQuery(n *ssa.Node) []Inferred {
	q := InType(n, 0)
	hq, hk := Int(n, "num_heads"), Int(n, "kv_num_heads")
	if hq < 1 || hk < 1 || hq%hk != 0 {
		failf("%d query heads can not share %d key heads", hq, hk)
	}
	hidden, size := dimOf(q, 2), dimOf(q, 2).FloorDiv(ssa.D(hq))
	if n.Input(1) == nil {
		size = dimOf(q, 2).FloorDiv(ssa.D(hq + 2*hk))
		hidden = size.MulN(hq)
	}
	total, cache := scalarDim(n, 6), scalarDim(n, 6)
	if n.Input(3) != nil {
		cache = dimOf(InType(n, 3), 2).Max(total)
	}
	kv := ssa.TensorOf(q.DType, dimOf(q, 0), ssa.D(hk), cache, size)
	return []Inferred{{Type: ssa.TensorOf(q.DType, dimOf(q, 0), dimOf(q, 1), hidden)}, {Type: kv}, {Type: kv},
		{Type: ssa.TensorOf(q.DType, dimOf(q, 0), ssa.D(hq), dimOf(q, 1), total)}}
}

// groupQuery is one evaluation.
type groupQuery[T realNum] struct {
	c             *Call
	q, newK, newV heads[T]
	k, v          heads[T] // caches
	lens, past    []int    // per batch: valid positions, those before the new ones
	total         int
	bias          *maskView
	sink          []T
	keep          bool // what lies behind the new positions stays in the caches
}

func evalGroupQuery[T float32 | float64](c *Call) {
	groupQuerySupported(c)
	g := groupQuery[T]{c: c}
	g.readOperands()
	g.readLengths()
	g.rotate()
	g.fillCaches()
	g.attend()
}

// groupQuerySupported names the forms that only other devices' kernels have.
func groupQuerySupported(c *Call) {
	n := c.Node
	switch {
	case Str(n, "k_quant_type") != "NONE" || Str(n, "v_quant_type") != "NONE" || Int(n, "kv_cache_bit_width") != 0:
		failf("a quantized cache: %w", ErrUnsupported)
	case Int(n, "sliding_window_cache") != 0:
		failf("sliding_window_cache=1: %w", ErrUnsupported)
	case Int(n, "causal") == 0 && Int(n, "local_window_size") > 0:
		failf("local_window_size goes with causal=1")
	case c.Has(14) != c.Has(15):
		failf("q_norm_weight and k_norm_weight come together")
	}
}

func (g *groupQuery[T]) readOperands() {
	n, c := g.c.Node, g.c
	hq, hk := int(Int(n, "num_heads")), int(Int(n, "kv_num_heads"))
	q := c.Array(0)
	wantRank("query", q, 3)
	if hq < 1 || hk < 1 || hq%hk != 0 {
		failf("%d query heads can not share %d key heads", hq, hk)
	}
	if c.Array(1) == nil {
		width := q.Shape[2]
		size := width / (hq + 2*hk)
		if size*(hq+2*hk) != width {
			failf("a packed query of width %d does not split into %d heads", width, hq+2*hk)
		}
		v := elements[T](q)
		g.q = packedHeads(v, q.Shape[0], q.Shape[1], hq, size, width, 0)
		g.newK = packedHeads(v, q.Shape[0], q.Shape[1], hk, size, width, hq*size)
		g.newV = packedHeads(v, q.Shape[0], q.Shape[1], hk, size, width, (hq+hk)*size)
		return
	}
	g.q = headsOf[T]("query", q, hq)
	g.newK = headsOf[T]("key", c.Array(1), hk)
	g.newV = headsOf[T]("value", c.Array(2), hk)
	checkHeads(g.q, g.newK, g.newV)
}

// readLengths finds how many positions every sequence has. When the total is the
// query's length this is the first step and nothing precedes it; the sequences
// may then be padded at their end.
func (g *groupQuery[T]) readLengths() {
	lens := g.c.Array(5)
	if lens == nil {
		failf("seqlens_k is absent")
	}
	wantLen("seqlens_k", lens, g.q.batch)
	total := optionalInt(g.c, 6, -1)
	if total < int64(g.q.seq) || total > math.MaxInt32 {
		failf("total_sequence_length=%d with %d new positions", total, g.q.seq)
	}
	g.total = int(total)
	for b := range g.q.batch {
		n := lens.Int(b) + 1
		if n < 0 || n > total {
			failf("sequence %d has %d of %d positions", b, n, total)
		}
		past := 0
		if g.total != g.q.seq {
			past = int(n) - g.q.seq
		}
		if past < 0 {
			failf("sequence %d has %d positions, fewer than the %d new ones", b, n, g.q.seq)
		}
		g.lens, g.past = append(g.lens, int(n)), append(g.past, past)
	}
}

// rotate normalizes and rotates Q and the new keys, if the node asks for it.
func (g *groupQuery[T]) rotate() {
	for i, x := range []*heads[T]{&g.q, &g.newK} {
		w := g.c.Array(14 + i)
		if w == nil {
			continue
		}
		wantLen("a norm weight", w, x.size)
		*x = x.contiguous(heads[T]{})
		for r := 0; r < len(x.v); r += x.size {
			row := x.v[r : r+x.size]
			standardize(row, row, float64(Float(g.c.Node, "qk_norm_epsilon")), false)
			scaleShift(row, elements[T](w), nil)
		}
	}
	if Int(g.c.Node, "do_rotary") == 0 {
		return
	}
	cos, sin := g.c.Array(7), g.c.Array(8)
	if cos == nil || sin == nil || cos.Rank() != 2 {
		failf("do_rotary=1 needs cos_cache and sin_cache")
	}
	ids := g.c.Array(9)
	if ids == nil || ids.Len() == 1 {
		ids = ndarray.Must(ndarray.Int64, g.q.batch, g.q.seq)
		for i := range g.q.batch * g.q.seq {
			ids.SetInt(i, int64(min(g.past[i/g.q.seq]+i%g.q.seq, cos.Shape[0]-1)))
		}
	}
	g.rotateBy(cos, sin, ids)
}

// rotateBy rotates Q and the new keys by the angles of their positions.
func (g *groupQuery[T]) rotateBy(cos, sin, ids *ndarray.Array) {
	for _, x := range []*heads[T]{&g.q, &g.newK} {
		*x = x.contiguous(heads[T]{})
		r := newRotation(cos, sin, ids, *x, 2*cos.Shape[1])
		r.interleaved = Int(g.c.Node, "rotary_interleaved") != 0
		r.applyAll(*x, *x)
	}
}

// fillCaches builds the caches: each sequence's past, then its new positions.
func (g *groupQuery[T]) fillCaches() {
	size := g.total
	if p := g.c.Array(3); p != nil && p.Rank() == 4 {
		size = max(size, p.Shape[2])
	}
	for i, x := range []heads[T]{g.newK, g.newV} {
		var past heads[T]
		if p := g.c.Array(3 + i); p != nil {
			if p.Rank() != 4 || p.Shape[0] != x.batch || p.Shape[1] != x.n || p.Shape[3] != x.size {
				failf("a past of shape %v does not fit %d heads of size %d", p.Shape, x.n, x.size)
			}
			past = headsOf[T]("past", p, 0)
		}
		cache := bnsh(make([]T, x.batch*x.n*size*x.size), x.batch, x.n, size, x.size)
		for b := range x.batch {
			if g.past[b] > past.seq {
				failf("sequence %d needs %d past positions, the cache has %d", b, g.past[b], past.seq)
			}
			before := g.past[b]
			if g.keep {
				before = past.seq
			}
			for h := range x.n {
				for s := range before {
					copy(cache.at(b, h, s), past.at(b, h, s))
				}
				for s := range min(x.seq, size-g.past[b]) {
					copy(cache.at(b, h, g.past[b]+s), x.at(b, h, s))
				}
			}
		}
		shape := []int{x.batch, x.n, size, x.size}
		setResult(g.c, 1+i, g.c.Array(0).DType, shape, cache.v)
		cache.seq = g.total // what lies behind is unused
		if i == 0 {
			g.k = cache
		} else {
			g.v = cache
		}
	}
}

func (g *groupQuery[T]) attend() {
	n := g.c.Node
	scale := float64(Float(n, "scale"))
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(g.q.size))
	}
	wantLen("head_sink", g.c.Array(11), g.q.n)
	g.sink = elements[T](g.c.Array(11))
	if g.sink == nil && Int(n, "smooth_softmax") == 1 {
		g.sink = make([]T, g.q.n)
	}
	g.bias = newMaskView(g.c.Array(10), [4]int{g.q.batch, g.q.n, g.q.seq, g.total})
	scores := attentionScores(g.q, g.k, scale)
	softCap(scores, float64(Float(n, "softcap")))
	probs := g.mask(scores)
	dt := g.c.Array(0).DType
	shape := &ndarray.Array{DType: dt, Shape: []int{g.q.batch, g.q.n, g.q.seq, g.total}}
	switch Int(n, "qk_output") {
	case 1:
		setResult(g.c, 3, shape.DType, shape.Shape, scores)
	case 2:
		setResult(g.c, 3, shape.DType, shape.Shape, probs)
	}
	y := newResult[T](g.c, 0, dt, g.q.batch, g.q.seq, g.q.n*g.v.size)
	attentionApply(probs, g.v, bsnh(y.V, g.q.batch, g.q.seq, g.q.n, g.v.size))
	y.store()
}

// mask adds the bias to the scores, 0 for keys a query may not see, and returns
// the probabilities of the others.
func (g *groupQuery[T]) mask(scores []T) []T {
	probs := make([]T, len(scores))
	bias := make([]float64, g.total)
	causal, window := Int(g.c.Node, "causal") != 0, int(Int(g.c.Node, "local_window_size"))
	for r := range g.q.batch * g.q.n * g.q.seq {
		b, h, s := r/g.q.seq/g.q.n, r/g.q.seq%g.q.n, r%g.q.seq
		clear(bias)
		g.bias.add(b, h, s, bias)
		first, last := 0, g.lens[b]-1
		if causal {
			last = min(last, g.past[b]+s)
		}
		if window > 0 {
			first = g.past[b] + s + 1 - window
		}
		for t := range bias {
			scores[r*g.total+t] += T(bias[t])
		}
		row := probs[r*g.total : (r+1)*g.total]
		copy(row, scores[r*g.total:])
		for t := range row {
			if t < first || t > last {
				row[t], scores[r*g.total+t] = T(math.Inf(-1)), 0
			}
		}
		if g.sink == nil {
			softmaxRows(row, len(row))
		} else {
			softmax(row, float64(g.sink[h]))
		}
	}
	return probs
}
