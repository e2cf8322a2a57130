package contrib

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// DecoderMaskedMultiHeadAttention is MultiHeadAttention of one query per sequence,
// of the com.microsoft domain.
//
// Self-attention: K and V are [B,1,N*H] and join a past, which is as long as the cache
// can get (past_present_share_buffer); past_sequence_length says how much of it is
// filled. With beams, sequence i*width+j takes position t of its past from sequence
// i*width+cache_indirection[i,j,t]:
//
//	past [B,N,M,H] filled to p    present = past with K at p    keys = positions 0 … p
//
// Cross-attention: K and V are [B,N,L,H]. Result 3 is the scores before the softmax.
func DecoderMaskedMultiHeadAttention() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "DecoderMaskedMultiHeadAttention", Since: 1, Doc: "output = softmax(scale * q·Kᵀ + mask) · V for one query per sequence",
		MinIn: 1, MaxIn: 11, MinOut: 1, MaxOut: 4,
		Attrs: []*ops.AttrSpec{ops.FloatAttr("mask_filter_value", -10000), ops.IntAttr("num_heads").Mandatory().AtLeast(1),
			ops.IntAttr("output_qk"), ops.IntAttr("past_present_share_buffer"), ops.FloatAttr("scale")},
		Infer: kit.Rule(inferDecoderMasked), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.CachedCost(1)}, Eval: kit.FloatKernel(evalDecoderMasked, nil),
	}
}

func inferDecoderMasked(n *ssa.Node) []ops.Inferred {
	q, v := ops.InType(n, 0), ops.InType(n, 2)
	count := ssa.D(ops.Int(n, "num_heads"))
	hidden, length := kit.DimOf(v, 2), ssa.Dim{}
	if v.Rank() == 4 {
		hidden, length = kit.DimOf(v, 3).Mul(count), kit.DimOf(v, 2)
	} else if past := ops.ContentOf(n, 7); len(past) == 1 {
		length = past[0].AddN(1)
	} else if n.Input(5) == nil {
		length = ssa.D(1)
	}
	y := ssa.TensorOf(q.DType, kit.DimOf(q, 0), kit.DimOf(q, 1), hidden)
	present := ops.InType(n, 5)
	if n.Input(5) == nil {
		present = ssa.TensorOf(q.DType, kit.DimOf(q, 0), count, length, ssa.Dim{})
	}
	second := present
	if n.Input(6) != nil {
		second = ops.InType(n, 6)
	}
	return []ops.Inferred{{Type: y}, {Type: present}, {Type: second}, {Type: ssa.TensorOf(q.DType, kit.DimOf(q, 0), count, ssa.D(1), length)}}
}

func evalDecoderMasked(c *ops.Call) {
	n, q := c.Node, c.Array(0)
	a := paddedAttention[float32]{mask: c.Array(3)}
	if !c.Has(1) || !c.Has(2) {
		kit.Failf("a packed query: %w", ops.ErrUnsupported)
	}
	heads := int(ops.Int(n, "num_heads"))
	for i, x := range []*nn.Heads[float32]{&a.q, &a.k, &a.v} {
		*x = nn.HeadsOf[float32](c, []string{"query", "key", "value"}[i], c.Array(i), heads)
	}
	if a.q.Seq != 1 || q.Rank() != 3 {
		kit.Failf("query has shape %v, expected [B,1,N*H]", q.Shape)
	}
	a.addProjectionBias(c, c.Array(10))
	a.paddedAttrs(n)
	if c.Array(1).Rank() == 3 {
		a.joinShared(c)
	}
	nn.CheckHeads(a.q, a.k, a.v)
	a.bias = nn.NewMaskView(c.Array(4), [4]int{a.q.Batch, a.q.N, 1, a.k.Seq})
	probs := a.probabilities(c, func(scores []float32) {
		kit.SetResult(c, 3, q.DType, []int{a.q.Batch, a.q.N, 1, a.k.Seq}, scores)
	})
	nn.StoreAttended(c, q.DType, probs, a.q, a.v, true)
}

// joinShared puts the new key and value behind the filled part of the caches,
// stores them as results 1 and 2, and lets k and v be what the sequences see.
func (a *paddedAttention[T]) joinShared(c *ops.Call) {
	watch := kit.Watching(c)
	if !c.Has(5) && !c.Has(6) {
		nn.JoinPast(c, 5, &a.k, &a.v)
		return
	}
	if ops.Int(c.Node, "past_present_share_buffer") == 0 || !c.Has(5) || !c.Has(6) || !c.Has(7) {
		kit.Failf("a past that is not past_key, past_value and past_sequence_length with past_present_share_buffer=1: %w", ops.ErrUnsupported)
	}
	filled := kit.OptionalInt(c, 7, -1)
	origin := a.beams(c)
	for i, x := range []*nn.Heads[T]{&a.k, &a.v} {
		p, at := c.Array(5+i), int(filled)
		past := nn.PastHeads(c, p, *x)
		if x.Seq != 1 || at < 0 || at >= past.Seq {
			kit.Failf("a past of shape %v filled to %d does not take %d positions", p.Shape, at, x.Seq)
		}
		present := nn.Bnsh(kit.Copy(c, past.V), x.Batch, x.N, past.Seq, x.Size)
		seen := nn.Bnsh(kit.Make[T](c, x.Batch*x.N*(at+1)*x.Size), x.Batch, x.N, at+1, x.Size)
		for b := range x.Batch {
			for h := range x.N {
				copy(present.At(b, h, at), x.At(b, h, 0))
				copy(seen.At(b, h, at), x.At(b, h, 0))
				for t := range at {
					watch.Did(x.Size)
					copy(seen.At(b, h, t), past.At(origin(b, t), h, t))
				}
			}
		}
		kit.SetResult(c, 1+i, p.DType, p.Shape, present.V)
		*x = seen
	}
}

// beams returns which sequence position t of sequence b's past is taken from.
func (a *paddedAttention[T]) beams(c *ops.Call) func(b, t int) int {
	watch := kit.Watching(c)
	width := kit.OptionalInt(c, 8, 1)
	if width == 1 && !c.Has(9) {
		return func(b, _ int) int { return b }
	}
	from := c.Array(9)
	if from == nil || width < 1 || width > math.MaxInt32 || a.q.Batch%int(width) != 0 {
		kit.Failf("%d sequences with beams of width %d need cache_indirection", a.q.Batch, width)
	}
	w := int(width)
	past := c.Array(5)
	kit.WantRank("past_key", past, 4)
	kit.WantShape("cache_indirection", from, a.q.Batch/w, w, past.Shape[2])
	for i := range from.Len() {
		watch.Did(1)
		if k := from.Int(i); k < 0 || k >= width {
			kit.Failf("cache_indirection names beam %d of %d", k, width)
		}
	}
	return func(b, t int) int { return b/w*w + int(from.Int(b*past.Shape[2]+t)) }
}
