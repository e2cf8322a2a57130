package rare

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// NGramHashMapping hashes the n-grams that end at every token, for n = 2 to
// max_ngram_size, with n_head_per_ngram hashes each, of the com.microsoft domain:
//
//	mix  = id[t]*multiplier[0] ^ id[t-1]*multiplier[1] ^ … ^ id[t-n+1]*multiplier[n-1]
//	hash = mix mod vocab_sizes[head] + head_offsets[head]           mod is never negative
//
// Ids before the first token are past_ids, and before those eos_token_id or else
// pad_id. History is cut, and filled in the same way, behind an end-of-sequence
// token (reset_on_eos) and where the segment changes.
var NGramHashMapping = ops.Op{
	Domain: contrib.Microsoft, Name: "NGramHashMapping", Since: 1, Doc: "hash ids of the n-grams that end at every token",
	MinIn: 3, MaxIn: 7, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.IntAttr("max_ngram_size").Mandatory().Between(2, 1<<16), ops.IntAttr("n_head_per_ngram").Mandatory().Between(1, 1<<16),
		ops.IntAttr("pad_id").Mandatory(), ops.IntAttr("reset_on_eos", 0)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		ids := ops.InType(n, 0)
		most := ops.Int(n, "max_ngram_size")
		heads := (most - 1) * ops.Int(n, "n_head_per_ngram")
		return []ops.Inferred{{Type: ssa.TensorOf(ids.DType, kit.DimOf(ids, 0), kit.DimOf(ids, 1), ssa.D(heads))}, {Type: ssa.TensorOf(ids.DType, kit.DimOf(ids, 0), ssa.D(most-1))}}
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Eval: kit.Kernel(evalNGramHash),
}

// ngramHash is what all sequences of a call share.
type ngramHash struct {
	most, perSize       int
	fill, eos           int64
	resets              bool
	multipliers         []int64
	vocabulary, offsets []int64
	narrow              bool // ids of 32 bits: products wrap there
}

// newNGramHash reads attributes and operands; offsets and eos are positions of
// head_offsets and eos_token_id.
func newNGramHash(c *ops.Call, offsets, eos int) *ngramHash {
	n := c.Node
	h := &ngramHash{most: int(ops.Int(n, "max_ngram_size")), perSize: int(ops.Int(n, "n_head_per_ngram")), fill: ops.Int(n, "pad_id")}
	ids := c.Array(0)
	if ids.DType != ndarray.Int32 && ids.DType != ndarray.Int64 {
		kit.Check(kit.UnsupportedType(ids.DType))
	}
	h.narrow = ids.DType == ndarray.Int32
	heads := (h.most - 1) * h.perSize
	h.multipliers, h.vocabulary = c.Array(1).Ints(), c.Array(2).Ints()
	if len(h.multipliers) < h.most || len(h.vocabulary) != heads {
		kit.Failf("%d multipliers and %d vocabulary sizes for n-grams of up to %d tokens with %d heads each", len(h.multipliers), len(h.vocabulary), h.most, h.perSize)
	}
	if slices.ContainsFunc(h.vocabulary, func(v int64) bool { return v < 1 }) {
		kit.Failf("vocab_sizes are %v, they must be positive", h.vocabulary)
	}
	kit.WantShape("head_offsets", c.Array(offsets), heads)
	h.offsets = kit.OptionalInts(c, offsets)
	if c.Has(eos) {
		id := kit.ScalarInt(c, eos)
		h.eos, h.fill, h.resets = id, id, ops.Int(n, "reset_on_eos") != 0
	}
	return h
}

// wrap keeps arithmetic in the ids' width.
func (h *ngramHash) wrap(v int64) int64 {
	if h.narrow {
		return int64(int32(v))
	}
	return v
}

// run hashes a sequence. line is most-1 ids of history and the ids; segments, if
// not nil, has a segment for each.
func (h *ngramHash) run(w *kit.Watch, line, segments []int64, put func(t, head int, id int64)) {
	for t := h.most - 1; t < len(line); t++ {
		w.Did(h.most * h.perSize)
		mix, cut := h.wrap(line[t]*h.multipliers[0]), false
		for back := 1; back < h.most; back++ {
			at := t - back
			cut = cut || h.resets && line[at] == h.eos || segments != nil && segments[at] != segments[at+1]
			id := line[at]
			if cut {
				id = h.fill
			}
			mix ^= h.wrap(id * h.multipliers[back])
			for k := range h.perSize {
				head := (back-1)*h.perSize + k
				id := (mix%h.vocabulary[head] + h.vocabulary[head]) % h.vocabulary[head]
				if h.offsets != nil {
					id = h.wrap(id + h.offsets[head])
				}
				put(t-h.most+1, head, id)
			}
		}
	}
}

// history fills the ids before a sequence.
func (h *ngramHash) history(line []int64, past []int64) {
	for i := range h.most - 1 {
		line[i] = h.fill
		if past != nil {
			line[i] = past[i]
		}
	}
}

func evalNGramHash(c *ops.Call) {
	ids := c.Array(0)
	kit.WantRank("input_ids", ids, 2)
	h := newNGramHash(c, 4, 5)
	batch, length, back := ids.Shape[0], ids.Shape[1], h.most-1
	kit.WantShape("past_ids", c.Array(3), batch, back)
	kit.WantShape("segment_ids", c.Array(6), batch, length)
	heads := back * h.perSize
	out := kit.Result(c, 0, ids.DType, batch, length, heads)
	var present *ndarray.Array
	if c.Wants(1) {
		present = kit.Result(c, 1, ids.DType, batch, back)
	}
	all, w := kit.Ints(c, 0), kit.Watching(c)
	for b := range batch {
		line := make([]int64, back+length)
		h.history(line, rowOf(&w, c.Array(3), b))
		copy(line[back:], all[b*length:][:length])
		var segments []int64
		if s := rowOf(&w, c.Array(6), b); s != nil && length > 0 {
			segments = make([]int64, back+length)
			for i := range back { // segments are compared within this call only
				segments[i] = s[0]
			}
			copy(segments[back:], s)
		}
		h.run(&w, line, segments, func(t, head int, id int64) { out.SetInt((b*length+t)*heads+head, id) })
		if present != nil {
			for i, id := range line[length:] {
				present.SetInt(b*back+i, id)
			}
		}
	}
}

// rowOf is row b of a matrix of integers, nil for nil.
func rowOf(w *kit.Watch, a *ndarray.Array, b int) []int64 {
	if a == nil {
		return nil
	}
	return part(w, a, b*a.Shape[1], (b+1)*a.Shape[1])
}

// part reads elements from up to to of an array of integers.
func part(w *kit.Watch, a *ndarray.Array, from, to int) []int64 {
	out := make([]int64, to-from)
	for i := range out {
		w.Did(1)
		out[i] = a.Int(from + i)
	}
	return out
}

// VarlenNGramHashMapping is NGramHashMapping of sequences of different lengths one
// behind the other, of the com.microsoft domain: sequence b has the ids from
// cumulative_sequence_length[b] to [b+1]. Segments of the ids before a sequence may
// be given. state_update has the last ids after each of the first capture_count[b]
// tokens of a sequence, pad_id behind them.
var VarlenNGramHashMapping = ops.Op{
	Domain: contrib.Microsoft, Name: "VarlenNGramHashMapping", Since: 1, Doc: "hash ids of the n-grams that end at every token of packed sequences",
	MinIn: 4, MaxIn: 10, MinOut: 1, MaxOut: 4,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("state_update_capacity", 0).Between(0, 8)}, NGramHashMapping.Attrs...),
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		ids := ops.InType(n, 0)
		back := ssa.D(ops.Int(n, "max_ngram_size") - 1)
		batch := kit.DimOf(ops.InType(n, 3), 0).AddN(-1)
		return []ops.Inferred{{Type: ssa.TensorOf(ids.DType, kit.DimOf(ids, 0), back.MulN(ops.Int(n, "n_head_per_ngram")))}, {Type: ssa.TensorOf(ids.DType, batch, back)},
			{Type: ssa.TensorOf(ndarray.Int32, batch, back)}, {Type: ssa.TensorOf(ids.DType, batch, ssa.D(ops.Int(n, "state_update_capacity")), back)}}
	}),
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Eval: kit.Kernel(evalVarlenNGramHash),
}

// packedHash is one evaluation of VarlenNGramHashMapping.
type packedHash struct {
	*ngramHash
	c                          *ops.Call
	batch, back, capacity      int
	hashes                     *ndarray.Array
	present, segments, updates *ndarray.Array // nil unless wanted
}

func evalVarlenNGramHash(c *ops.Call) {
	h := newNGramHash(c, 5, 6)
	p := &packedHash{ngramHash: h, c: c, back: h.most - 1, capacity: int(ops.Int(c.Node, "state_update_capacity"))}
	p.check()
	dt := c.Array(0).DType
	p.hashes = kit.Result(c, 0, dt, c.Array(0).Len(), p.back*h.perSize)
	optional := func(at int, dt ndarray.DType, shape ...int) *ndarray.Array {
		if !c.Wants(at) {
			return nil
		}
		return kit.Result(c, at, dt, shape...)
	}
	p.present = optional(1, dt, p.batch, p.back)
	p.segments = optional(2, ndarray.Int32, p.batch, p.back)
	p.updates = optional(3, dt, p.batch, p.capacity, p.back)
	bounds := c.Array(3).Ints()
	for b := range p.batch {
		p.sequence(b, int(bounds[b]), int(bounds[b+1]))
	}
}

// check checks shapes and bounds.
func (p *packedHash) check() {
	c, ids, bounds := p.c, p.c.Array(0), p.c.Array(3)
	kit.WantRank("input_ids", ids, 1)
	kit.WantRank("cumulative_sequence_length", bounds, 1)
	if p.batch = bounds.Len() - 1; p.batch < 0 || !bounds.DType.IsInteger() {
		kit.Failf("cumulative_sequence_length is %s, expected at least one integer", bounds)
	}
	last := int64(0)
	for i, at := range bounds.Ints() {
		if at < last || i == 0 && at != 0 || i == p.batch && at != int64(ids.Len()) {
			kit.Failf("cumulative_sequence_length %v does not divide %d tokens", bounds.Ints(), ids.Len())
		}
		last = at
	}
	kit.WantShape("past_ids", c.Array(4), p.batch, p.back)
	kit.WantShape("segment_ids", c.Array(7), ids.Len())
	kit.WantShape("past_segment_ids", c.Array(8), p.batch, p.back)
	if c.Wants(2) && !c.Has(7) || c.Has(9) != (p.capacity > 0) {
		kit.Failf("present_segment_ids needs segment_ids, and capture_count goes with state_update_capacity")
	}
	kit.WantShape("capture_count", c.Array(9), p.batch)
}

// sequence hashes one sequence and stores what comes after it.
func (p *packedHash) sequence(b, from, to int) {
	w := kit.Watching(p.c)
	line := make([]int64, p.back+to-from)
	p.history(line, rowOf(&w, p.c.Array(4), b))
	copy(line[p.back:], part(&w, p.c.Array(0), from, to))
	var segments []int64
	if s := p.c.Array(7); s != nil {
		segments = make([]int64, len(line))
		copy(segments[p.back:], part(&w, s, from, to))
		for i := range p.back {
			if past := rowOf(&w, p.c.Array(8), b); past != nil {
				segments[i] = past[i]
			} else if to > from {
				segments[i] = segments[p.back]
			}
		}
	}
	heads := p.back * p.perSize
	p.run(&w, line, segments, func(t, head int, id int64) { p.hashes.SetInt((from+t)*heads+head, id) })
	for i := range p.back {
		if p.present != nil {
			p.present.SetInt(b*p.back+i, line[to-from+i])
		}
		if p.segments != nil {
			p.segments.SetInt(b*p.back+i, segments[to-from+i])
		}
	}
	if p.updates == nil {
		return
	}
	kept := 0
	if count := p.c.Array(9); count != nil {
		kept = int(max(0, min(count.Int(b), int64(to-from), int64(p.capacity))))
	}
	for k := range p.capacity {
		w.Did(p.back)
		for i := range p.back {
			id := ops.Int(p.c.Node, "pad_id")
			if k < kept {
				id = line[k+1+i]
			}
			p.updates.SetInt((b*p.capacity+k)*p.back+i, id)
		}
	}
}
