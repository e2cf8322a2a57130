package ops

import (
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// DecoderMaskedMultiHeadAttention is MultiHeadAttention of one query per sequence,
// of the com.microsoft domain.
//
// To itself: K and V are [B,1,N*H], and join a past, which is as long as the cache
// can get (past_present_share_buffer); past_sequence_length says how much of it is
// filled. With beams, sequence i*width+j takes position t of its past from sequence
// i*width+cache_indirection[i,j,t]:
//
//	past [B,N,M,H] filled to p    present = past with K at p    keys = positions 0 … p
//
// To others: K and V are [B,N,L,H]. Result 3 is the scores before the softmax.
var DecoderMaskedMultiHeadAttention = Op{
	Domain: microsoft, Name: "DecoderMaskedMultiHeadAttention", Since: 1, Doc: "output = softmax(scale * q·Kᵀ + mask) · V for one query per sequence",
	MinIn: 1, MaxIn: 11, MinOut: 1, MaxOut: 4,
	Attrs: []AttrSpec{floatAttr("mask_filter_value", -10000), intAttr("num_heads").required(),
		intAttr("output_qk"), intAttr("past_present_share_buffer"), floatAttr("scale")},
	Infer: rule(inferDecoderMasked), Facts: Facts{Traits: general, Cost: cachedCost(1)}, Eval: floatKernel(evalDecoderMasked, nil),
}

func inferDecoderMasked(n *ssa.Node) []Inferred {
	q, v := InType(n, 0), InType(n, 2)
	count := ssa.D(Int(n, "num_heads"))
	hidden, length := dimOf(v, 2), ssa.Dim{}
	if v.Rank() == 4 {
		hidden, length = dimOf(v, 3).Mul(count), dimOf(v, 2)
	} else if past := ContentOf(n, 7); len(past) == 1 {
		length = past[0].AddN(1)
	} else if n.Input(5) == nil {
		length = ssa.D(1)
	}
	y := ssa.TensorOf(q.DType, dimOf(q, 0), dimOf(q, 1), hidden)
	present := InType(n, 5)
	if n.Input(5) == nil {
		present = ssa.TensorOf(q.DType, dimOf(q, 0), count, length, ssa.Dim{})
	}
	second := InType(n, 6)
	if n.Input(6) == nil {
		second = present
	}
	return []Inferred{{Type: y}, {Type: present}, {Type: second}, {Type: ssa.TensorOf(q.DType, dimOf(q, 0), count, ssa.D(1), length)}}
}

func evalDecoderMasked(c *Call) {
	n, q := c.Node, c.Array(0)
	a := paddedAttention[float32]{mask: c.Array(3)}
	if !c.Has(1) || !c.Has(2) {
		failf("a packed query: %w", ErrUnsupported)
	}
	heads := int(Int(n, "num_heads"))
	for i, x := range []*headsF{&a.q, &a.k, &a.v} {
		*x = headsOf[float32]([]string{"query", "key", "value"}[i], c.Array(i), heads)
	}
	if a.q.seq != 1 || q.Rank() != 3 {
		failf("query has shape %v, expected [B,1,N*H]", q.Shape)
	}
	a.addProjectionBias(c.Array(10))
	a.paddedAttrs(n)
	if c.Array(1).Rank() == 3 {
		a.joinShared(c)
	}
	checkHeads(a.q, a.k, a.v)
	a.bias = newMaskView(c.Array(4), [4]int{a.q.batch, a.q.n, 1, a.k.seq})
	probs := a.probabilities(func(scores []float32) {
		setResult(c, 3, q.DType, []int{a.q.batch, a.q.n, 1, a.k.seq}, scores)
	})
	a.storeOutput(c, q.DType, probs)
}

type headsF = heads[float32]

// joinShared puts the new key and value behind the filled part of the caches,
// stores them as results 1 and 2, and lets k and v be what the sequences see.
func (a *paddedAttention[T]) joinShared(c *Call) {
	if !c.Has(5) && !c.Has(6) {
		a.storeJoined(c, 1, a.k, a.v)
		return
	}
	if Int(c.Node, "past_present_share_buffer") == 0 || !c.Has(5) || !c.Has(6) || !c.Has(7) {
		failf("a past that is not past_key, past_value and past_sequence_length with past_present_share_buffer=1: %w", ErrUnsupported)
	}
	filled := optionalInt(c, 7, -1)
	origin := a.beams(c)
	for i, x := range []*heads[T]{&a.k, &a.v} {
		p := c.Array(5 + i)
		if p.Rank() != 4 || p.Shape[0] != x.batch || p.Shape[1] != x.n || p.Shape[3] != x.size || x.seq != 1 || filled < 0 || filled >= int64(p.Shape[2]) {
			failf("a past of shape %v filled to %d does not take %d positions of %d heads of size %d", p.Shape, filled, x.seq, x.n, x.size)
		}
		at := int(filled)
		past := headsOf[T]("past", p, 0)
		present := bnsh(append([]T{}, past.v...), x.batch, x.n, p.Shape[2], x.size)
		seen := bnsh(make([]T, x.batch*x.n*(at+1)*x.size), x.batch, x.n, at+1, x.size)
		for b := range x.batch {
			for h := range x.n {
				copy(present.at(b, h, at), x.at(b, h, 0))
				copy(seen.at(b, h, at), x.at(b, h, 0))
				for t := range at {
					copy(seen.at(b, h, t), past.at(origin(b, t), h, t))
				}
			}
		}
		setResult(c, 1+i, p.DType, p.Shape, present.v)
		*x = seen
	}
}

// storeJoined stores keys and values as results from, from+1.
func (a *paddedAttention[T]) storeJoined(c *Call, from int, k, v heads[T]) {
	for i, x := range []heads[T]{k, v} {
		shape := []int{x.batch, x.n, x.seq, x.size}
		setResult(c, from+i, c.Array(0).DType, shape, x.contiguous(heads[T]{}).v)
	}
}

// beams returns which sequence position t of sequence b's past is taken from.
func (a *paddedAttention[T]) beams(c *Call) func(b, t int) int {
	own := func(b, _ int) int { return b }
	width := optionalInt(c, 8, 1)
	if width == 1 && !c.Has(9) {
		return own
	}
	from := c.Array(9)
	if from == nil || width < 1 || width > math.MaxInt32 || a.q.batch%int(width) != 0 {
		failf("%d sequences with beams of width %d need cache_indirection", a.q.batch, width)
	}
	w := int(width)
	past := c.Array(5)
	if past.Rank() != 4 {
		failf("past_key has shape %v", past.Shape)
	}
	wantShape("cache_indirection", from, a.q.batch/w, w, past.Shape[2])
	for i := range from.Len() {
		if k := from.Int(i); k < 0 || k >= width {
			failf("cache_indirection names beam %d of %d", k, width)
		}
	}
	return func(b, t int) int { return b/w*w + int(from.Int(b*past.Shape[2]+t)) }
}
