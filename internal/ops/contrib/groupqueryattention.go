package contrib

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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
var GroupQueryAttention = ops.Op{
	Domain: Microsoft, Name: "GroupQueryAttention", Since: 1, Doc: "output = causal attention over a cache, key heads shared by query heads",
	MinIn: 1, MaxIn: 16, MinOut: 1, MaxOut: 4,
	Attrs: []*ops.AttrSpec{ops.IntAttr("causal", 1), ops.IntAttr("do_rotary"), ops.StrAttr("k_quant_type", "NONE"),
		ops.IntAttr("kv_cache_bit_width"), ops.IntAttr("kv_num_heads").Mandatory().AtLeast(1),
		ops.IntAttr("local_window_size", -1), ops.IntAttr("num_heads").Mandatory().AtLeast(1), ops.FloatAttr("qk_norm_epsilon", 1e-6),
		ops.IntAttr("qk_output", 0), ops.IntAttr("rotary_interleaved"), ops.FloatAttr("scale"),
		ops.IntAttr("sliding_window_cache", 0), ops.IntAttr("smooth_softmax", -1), ops.FloatAttr("softcap"),
		ops.StrAttr("v_quant_type", "NONE")},
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.CachedCost(1)}, Infer: kit.Rule(inferGroupQuery),
	Eval: kit.FloatKernel(evalGroupQuery[float32], nil),
}

func inferGroupQuery(n *ssa.Node) []ops.Inferred {
	q := ops.InType(n, 0)
	hq, hk := nn.HeadCounts(n, "num_heads")
	hidden, size := kit.DimOf(q, 2), kit.DimOf(q, 2).FloorDiv(ssa.D(hq))
	if n.Input(1) == nil {
		size = kit.DimOf(q, 2).FloorDiv(ssa.D(hq + 2*hk))
		hidden = size.MulN(hq)
	}
	total, cache := kit.ScalarDim(n, 6), kit.ScalarDim(n, 6)
	if n.Input(3) != nil {
		cache = kit.DimOf(ops.InType(n, 3), 2).Max(total)
	}
	kv := ssa.TensorOf(q.DType, kit.DimOf(q, 0), ssa.D(hk), cache, size)
	return []ops.Inferred{{Type: ssa.TensorOf(q.DType, kit.DimOf(q, 0), kit.DimOf(q, 1), hidden)}, {Type: kv}, {Type: kv},
		{Type: ssa.TensorOf(q.DType, kit.DimOf(q, 0), ssa.D(hq), kit.DimOf(q, 1), total)}}
}

// groupQuery is one evaluation.
type groupQuery[T kit.RealNum] struct {
	c             *ops.Call
	q, newK, newV nn.Heads[T]
	k, v          nn.Heads[T] // caches
	lens, past    []int       // per batch: valid positions, those before the new ones
	total         int
	bias          *nn.MaskView
	sink          []T
	keep          bool // what lies behind the new positions stays in the caches
}

func evalGroupQuery[T float32 | float64](c *ops.Call) {
	groupQuerySupported(c)
	g := groupQuery[T]{c: c}
	g.readOperands()
	g.readLengths()
	g.rotate()
	g.fillCaches()
	g.attend()
}

// groupQuerySupported names the forms that only other devices' kernels have.
func groupQuerySupported(c *ops.Call) {
	n := c.Node
	switch {
	case ops.Str(n, "k_quant_type") != "NONE" || ops.Str(n, "v_quant_type") != "NONE" || ops.Int(n, "kv_cache_bit_width") != 0:
		kit.Failf("a quantized cache: %w", ops.ErrUnsupported)
	case ops.Int(n, "sliding_window_cache") != 0:
		kit.Failf("sliding_window_cache=1: %w", ops.ErrUnsupported)
	case ops.Int(n, "causal") == 0 && ops.Int(n, "local_window_size") > 0:
		kit.Failf("local_window_size goes with causal=1")
	case c.Has(14) != c.Has(15):
		kit.Failf("q_norm_weight and k_norm_weight come together")
	}
}

func (g *groupQuery[T]) readOperands() {
	c, q := g.c, g.c.Array(0)
	hq64, hk64 := nn.HeadCounts(c.Node, "num_heads")
	hq, hk := int(hq64), int(hk64)
	kit.WantRank("query", q, 3)
	if c.Array(1) == nil {
		width, v := q.Shape[2], kit.Elements[T](c, q)
		size := width / (hq + 2*hk)
		if size*(hq+2*hk) != width {
			kit.Failf("a packed query of width %d does not split into %d heads", width, hq+2*hk)
		}
		g.q = packedHeads(v, q.Shape[0], q.Shape[1], hq, size, width, 0)
		g.newK = packedHeads(v, q.Shape[0], q.Shape[1], hk, size, width, hq*size)
		g.newV = packedHeads(v, q.Shape[0], q.Shape[1], hk, size, width, (hq+hk)*size)
		return
	}
	g.q = nn.HeadsOf[T](c, "query", q, hq)
	g.newK = nn.HeadsOf[T](c, "key", c.Array(1), hk)
	g.newV = nn.HeadsOf[T](c, "value", c.Array(2), hk)
	nn.CheckHeads(g.q, g.newK, g.newV)
}

// readLengths finds how many positions every sequence has. When the total is the
// query's length this is the first step and nothing precedes it; the sequences
// may then be padded at their end.
func (g *groupQuery[T]) readLengths() {
	lens := g.c.Array(5)
	if lens == nil {
		kit.Failf("seqlens_k is absent")
	}
	kit.WantLen("seqlens_k", lens, g.q.Batch)
	total := kit.OptionalInt(g.c, 6, -1)
	if total < int64(g.q.Seq) || total > math.MaxInt32 {
		kit.Failf("total_sequence_length=%d with %d new positions", total, g.q.Seq)
	}
	g.total = int(total)
	g.lens, g.past = kit.Make[int](g.c, g.q.Batch)[:0], kit.Make[int](g.c, g.q.Batch)[:0]
	for b := range g.q.Batch {
		n := lens.Int(b) + 1
		if n < 0 || n > total {
			kit.Failf("sequence %d has %d of %d positions", b, n, total)
		}
		past := 0
		if g.total != g.q.Seq {
			past = int(n) - g.q.Seq
		}
		if past < 0 {
			kit.Failf("sequence %d has %d positions, fewer than the %d new ones", b, n, g.q.Seq)
		}
		g.lens, g.past = append(g.lens, int(n)), append(g.past, past)
	}
}

// rotate normalizes and rotates Q and the new keys, if the node asks for it.
func (g *groupQuery[T]) rotate() {
	for i, x := range []*nn.Heads[T]{&g.q, &g.newK} {
		weight := g.c.Array(14 + i)
		if weight == nil {
			continue
		}
		kit.WantLen("a norm weight", weight, x.Size)
		w := kit.Watching(g.c)
		*x = x.Contiguous(g.c, nn.Heads[T]{})
		for r := 0; r < len(x.V); r += x.Size {
			row := x.V[r : r+x.Size]
			nn.Standardize(&w, row, row, float64(ops.Float(g.c.Node, "qk_norm_epsilon")), false)
			nn.ScaleShift(g.c, row, kit.Elements[T](g.c, weight), nil)
		}
	}
	if ops.Int(g.c.Node, "do_rotary") == 0 {
		return
	}
	cos, sin := g.c.Array(7), g.c.Array(8)
	if cos == nil || sin == nil || cos.Rank() != 2 {
		kit.Failf("do_rotary=1 needs cos_cache and sin_cache")
	}
	g.rotateBy(cos, sin, g.c.Array(9))
}

// rotateBy rotates Q and the new keys by the angles of their positions, which follow
// the past unless ids holds one for each.
func (g *groupQuery[T]) rotateBy(cos, sin, ids *ndarray.Array) {
	watch := kit.Watching(g.c)
	if ids == nil || ids.Len() == 1 {
		ids = ndarray.Must(ndarray.Int64, g.q.Batch, g.q.Seq)
		for i := range g.q.Batch * g.q.Seq {
			watch.Did(1)
			ids.SetInt(i, int64(min(g.past[i/g.q.Seq]+i%g.q.Seq, cos.Shape[0]-1)))
		}
	}
	for _, x := range []*nn.Heads[T]{&g.q, &g.newK} {
		*x = x.Contiguous(g.c, nn.Heads[T]{})
		r := nn.NewRotation(g.c, cos, sin, ids, *x, 2*cos.Shape[1])
		r.Interleaved = ops.Int(g.c.Node, "rotary_interleaved") != 0
		r.ApplyAll(g.c, *x, *x)
	}
}

// fillCaches builds the caches: each sequence's past, then its new positions.
func (g *groupQuery[T]) fillCaches() {
	watch := kit.Watching(g.c)
	size := g.total
	if p := g.c.Array(3); p != nil && p.Rank() == 4 {
		size = max(size, p.Shape[2])
	}
	for i, x := range []nn.Heads[T]{g.newK, g.newV} {
		past := nn.PastHeads(g.c, g.c.Array(3+i), x)
		cache := nn.Bnsh(kit.Make[T](g.c, x.Batch*x.N*size*x.Size), x.Batch, x.N, size, x.Size)
		for b := range x.Batch {
			if g.past[b] > past.Seq {
				kit.Failf("sequence %d needs %d past positions, the cache has %d", b, g.past[b], past.Seq)
			}
			before := g.past[b]
			if g.keep {
				before = past.Seq
			}
			for h := range x.N {
				for s := range before {
					watch.Did(x.Size)
					copy(cache.At(b, h, s), past.At(b, h, s))
				}
				for s := range min(x.Seq, size-g.past[b]) {
					watch.Did(x.Size)
					copy(cache.At(b, h, g.past[b]+s), x.At(b, h, s))
				}
			}
		}
		kit.SetResult(g.c, 1+i, g.c.Array(0).DType, []int{x.Batch, x.N, size, x.Size}, cache.V)
		cache.Seq = g.total // what lies behind is unused
		if i == 0 {
			g.k = cache
		} else {
			g.v = cache
		}
	}
}

func (g *groupQuery[T]) attend() {
	n := g.c.Node
	kit.WantLen("head_sink", g.c.Array(11), g.q.N)
	g.sink = kit.Elements[T](g.c, g.c.Array(11))
	if g.sink == nil && ops.Int(n, "smooth_softmax") == 1 {
		g.sink = kit.Make[T](g.c, g.q.N)
	}
	g.bias = nn.NewMaskView(g.c.Array(10), [4]int{g.q.Batch, g.q.N, g.q.Seq, g.total})
	scores := nn.AttentionScores(g.c, g.q, g.k, scaleOf(n, g.q.Size))
	nn.SoftCap(g.c, scores, float64(ops.Float(n, "softcap")))
	probs := g.mask(scores)
	dt, shape := g.c.Array(0).DType, []int{g.q.Batch, g.q.N, g.q.Seq, g.total}
	switch ops.Int(n, "qk_output") {
	case 1:
		kit.SetResult(g.c, 3, dt, shape, scores)
	case 2:
		kit.SetResult(g.c, 3, dt, shape, probs)
	}
	nn.StoreAttended(g.c, dt, probs, g.q, g.v, true)
}

// mask adds the bias to the scores, 0 for keys a query may not see, and returns
// the probabilities of the others.
func (g *groupQuery[T]) mask(scores []T) []T {
	probs := kit.Make[T](g.c, len(scores))
	bias := kit.Make[float64](g.c, g.total)
	causal, window := ops.Int(g.c.Node, "causal") != 0, int(ops.Int(g.c.Node, "local_window_size"))
	w := kit.Watching(g.c)
	for r := range g.q.Batch * g.q.N * g.q.Seq {
		b, h, s := g.q.Row(r)
		clear(bias)
		g.bias.Add(b, h, s, bias)
		first, last := 0, g.lens[b]-1
		if causal {
			last = min(last, g.past[b]+s)
		}
		if window > 0 {
			first = g.past[b] + s + 1 - window
		}
		row, seen := probs[r*g.total:][:g.total], scores[r*g.total:][:g.total]
		for t := range row {
			w.Did(1)
			seen[t] += T(bias[t])
			row[t] = seen[t]
			if t < first || t > last {
				row[t], seen[t] = T(math.Inf(-1)), 0
			}
		}
		if g.sink == nil {
			kit.SoftmaxRows(g.c, row, len(row))
		} else {
			kit.Softmax(&w, row, float64(g.sink[h]))
		}
	}
	return probs
}
