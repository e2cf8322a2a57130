package gradient

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Attention in its three forms is written out:
//
//	Y = softmax(scale·Q·Kᵀ + bias)·V        per head
//
// The derivative computes the scores again, so that no matrix of scores lives from the forward pass to the backward pass.

func init() {
	rules["Attention"] = byFormula(attentionFormula)
	rules["com.microsoft.Attention"] = byFormula(msAttentionFormula)
	rules["com.microsoft.MultiHeadAttention"] = byFormula(multiHeadFormula)
}

// heads is a packed operand [B, S, N·H] as [B, N, S, H].
func (g *builder) heads(v *ssa.Value, shape []int64, count int64) *ssa.Value {
	return g.transpose(g.reshape(v, shape[0], shape[1], count, shape[2]/count), 0, 2, 1, 3)
}

// packed is the inverse.
func (g *builder) packed(n *ssa.Node, v *ssa.Value) *ssa.Value {
	s, ok := g.static(n, v)
	if !ok {
		return v
	}
	return g.reshape(g.transpose(v, 0, 2, 1, 3), s[0], s[2], s[1]*s[3])
}

// attended is softmax(scale·q·kᵀ + biases)·v; allowed, if there is one, is true where a query may see a key.
func (g *builder) attended(q, k, v *ssa.Value, scale, cap float64, allowed *ssa.Value, biases ...*ssa.Value) *ssa.Value {
	scores := g.scaled(g.op("MatMul", q, g.swapped(k)), scale)
	if cap != 0 {
		scores = g.scaled(g.op("Tanh", g.scaled(scores, 1/cap)), cap)
	}
	scores = g.plus(scores, biases...)
	if allowed == nil {
		return g.op("MatMul", g.with("Softmax", one(scores), ssa.IntAttr("axis", -1)), v)
	}
	least := -1e30
	if scores.Type.DType == ndarray.Float16 {
		least = -6e4
	}
	weights := g.with("Softmax", one(g.op("Where", allowed, scores, g.number(scores, least))), ssa.IntAttr("axis", -1))
	return g.op("MatMul", g.op("Where", allowed, weights, g.number(weights, 0)), v) // a query without a key gets 0
}

// causal is true at [s, t] where query s, which stands at position s + offset, may see key t.
func (g *builder) causal(queries, keys, offset int64) *ssa.Value {
	a := ndarray.Must(ndarray.Bool, int(queries), int(keys))
	for s := range queries {
		for t := range min(s+offset+1, keys) {
			a.SetInt(int(s*keys+t), 1)
		}
	}
	return g.constant(ssa.NewConstant(a))
}

func attentionFormula(g *builder, n *ssa.Node) []*ssa.Value {
	if n.Input(6) != nil || ops.Int(n, "left_window_size") >= 0 || ops.Int(n, "right_window_size") >= 0 {
		g.refuse(n, "windows and nonpad_kv_seqlen have no derivative here", "give a mask")
		return nil
	}
	q, k, v := n.In[0], n.In[1], n.In[2]
	shape, ok := g.static(n, q)
	if !ok {
		return nil
	}
	if len(shape) == 3 {
		ks, okK := g.static(n, k)
		vs, okV := g.static(n, v)
		if !okK || !okV {
			return nil
		}
		kv := ops.Int(n, "kv_num_heads")
		q, k, v = g.heads(q, shape, ops.Int(n, "q_num_heads")), g.heads(k, ks, kv), g.heads(v, vs, kv)
	}
	offset := int64(0)
	if past := n.Input(4); past != nil {
		s, _ := g.static(n, past)
		k, v, offset = g.joined(2, past, k), g.joined(2, n.In[5], v), s[2]
	}
	y := g.groupedAttention(n, q, k, v, offset)
	if g.err == nil && len(shape) == 3 {
		y = g.packed(n, y)
	}
	return []*ssa.Value{y, k, v}
}

// groupedAttention lets several heads of q share one of k and v.
func (g *builder) groupedAttention(n *ssa.Node, q, k, v *ssa.Value, offset int64) *ssa.Value {
	qs, ok := g.static(n, q)
	ks, okK := g.static(n, k)
	if !ok || !okK {
		return q
	}
	if share := qs[1] / ks[1]; share > 1 {
		k, v = g.repeated(n, k, share), g.repeated(n, v, share)
	}
	var allowed, bias *ssa.Value
	if mask := n.Input(3); mask != nil && mask.Type.DType == ndarray.Bool {
		allowed = mask
	} else if mask != nil {
		bias = mask
	}
	if ops.Int(n, "is_causal") != 0 {
		if c := g.causal(qs[2], ks[2], offset); allowed != nil {
			allowed = g.op("And", allowed, c)
		} else {
			allowed = c
		}
	}
	scale := float64(ops.FloatOr(n, "scale", float32(1/math.Sqrt(float64(qs[3])))))
	return g.attended(q, k, v, scale, float64(ops.Float(n, "softcap")), allowed, bias)
}

// repeated gives each head to a number of heads in a row.
func (g *builder) repeated(n *ssa.Node, v *ssa.Value, times int64) *ssa.Value {
	s, ok := g.static(n, v)
	if !ok {
		return v
	}
	wide := g.op("Expand", g.op("Unsqueeze", v, g.ints(2)), g.ints(s[0], s[1], times, s[2], s[3]))
	return g.reshape(wide, s[0], s[1]*times, s[2], s[3])
}

// msScale is attribute scale, 1/√size where there is none or 0.
func msScale(n *ssa.Node, size int64) float64 {
	if scale := ops.Float(n, "scale"); scale != 0 {
		return float64(scale)
	}
	return 1 / math.Sqrt(float64(size))
}

// keyBias is what a mask [B, T], 0 for padding, adds to scores; other masks are refused.
func (g *builder) keyBias(n *ssa.Node, mask, like *ssa.Value) *ssa.Value {
	if mask == nil {
		return nil
	}
	if g.rank(mask) != 2 {
		g.refuse(n, "masks other than [batch, keys] have no derivative here", "write the mask as attention_bias")
		return nil
	}
	hidden := g.op("Equal", mask, g.like(g.constant(ssa.ScalarConst(int64(0))), mask))
	bias := g.op("Where", hidden, g.number(like, float64(ops.Float(n, "mask_filter_value"))), g.number(like, 0))
	return g.op("Unsqueeze", bias, g.ints(1, 2))
}

// earlier is true where attribute unidirectional lets a query see a key: query s the keys up to s, a single query all; nil without it.
func (g *builder) earlier(n *ssa.Node, queries, keys int64) *ssa.Value {
	if ops.Int(n, "unidirectional") == 0 || queries == 1 {
		return nil
	}
	return g.causal(queries, keys, 0)
}

// msAttentionFormula projects one operand to queries, keys and values.
func msAttentionFormula(g *builder, n *ssa.Node) []*ssa.Value {
	x, w := n.In[0], n.In[1]
	xs, ok := g.static(n, x)
	ws, okW := g.static(n, w)
	if !ok || !okW {
		return nil
	}
	if n.Input(4) != nil || n.Input(6) != nil || ops.Int(n, "do_rotary") != 0 {
		g.refuse(n, "a past and rotation have no derivative here", "")
		return nil
	}
	sizes := ops.Ints(n, "qkv_hidden_sizes")
	if len(sizes) != 3 {
		sizes = []int64{ws[1] / 3, ws[1] / 3, ws[1] / 3}
	}
	count := ops.Int(n, "num_heads")
	all := g.plus(g.op("MatMul", x, w), n.Input(2))
	parts := slices.Clone(g.node("Split", []*ssa.Value{all, g.ints(sizes...)}, 3, ssa.IntAttr("axis", 2)).Out)
	for i := range parts {
		parts[i] = g.heads(parts[i], []int64{xs[0], xs[1], sizes[i]}, count)
	}
	y := g.attended(parts[0], parts[1], parts[2], msScale(n, sizes[0]/count), 0, g.earlier(n, xs[1], xs[1]),
		g.keyBias(n, n.Input(3), x), n.Input(5))
	return one(g.packed(n, y))
}

// multiHeadFormula takes queries, keys and values of rank 3, with a bias for all.
func multiHeadFormula(g *builder, n *ssa.Node) []*ssa.Value {
	for i := 1; i < 3; i++ {
		if n.Input(i) == nil || g.rank(n.In[i]) != 3 || n.Input(5+i) != nil {
			g.refuse(n, "packed operands and a past have no derivative here", "")
			return nil
		}
	}
	count := ops.Int(n, "num_heads")
	var parts [3]*ssa.Value
	var sizes [3][]int64
	from := int64(0)
	for i := range parts {
		s, ok := g.static(n, n.In[i])
		if !ok {
			return nil
		}
		v := n.In[i]
		if bias := n.Input(3); bias != nil {
			v = g.add2(v, g.part(bias, 0, from, from+s[2]))
			from += s[2]
		}
		parts[i], sizes[i] = g.heads(v, s, count), s
	}
	y := g.attended(parts[0], parts[1], parts[2], msScale(n, sizes[0][2]/count), 0, g.earlier(n, sizes[0][1], sizes[1][1]),
		g.keyBias(n, n.Input(4), n.In[0]), n.Input(5))
	return one(g.packed(n, y))
}
