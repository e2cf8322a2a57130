package older

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// attention is softmax(scale·Q·Kᵀ + mask)·V. Windows, lengths of keys and scores as a result have no form here.
func attention(b *builder) []*ssa.Value {
	n := b.n
	if b.input(6) != nil || n.Output(3) != nil || ops.Int(n, "left_window_size") >= 0 || ops.Int(n, "right_window_size") >= 0 {
		return nil
	}
	packed := b.in[0].Type.Rank() == 3
	q, k, v := b.heads(0, "q_num_heads"), b.heads(1, "kv_num_heads"), b.heads(2, "kv_num_heads")
	if q.Type.Rank() != 4 || k.Type.Rank() != 4 || v.Type.Rank() != 4 || b.failed {
		return nil
	}
	if past := b.input(4); past != nil {
		k, v = b.behind(past, k), b.behind(b.in[5], v)
	}
	queries, known := q.Type.Shape[1].Const()
	keys, too := k.Type.Shape[1].Const()
	size, sized := q.Type.Shape[3].Const()
	if !known || !too || !sized || keys < 1 || queries%keys != 0 {
		return nil
	}
	weights := b.weights(q, b.repeated(k, queries, keys), float64(ops.FloatOr(n, "scale", float32(1/math.Sqrt(float64(size))))))
	if weights == nil {
		return nil
	}
	y := b.op("MatMul", weights, b.repeated(v, queries, keys))
	if packed {
		y = b.op("Reshape", b.with("Transpose", y, ssa.IntsAttr("perm", 0, 2, 1, 3)), b.ints(0, 0, -1))
	}
	return []*ssa.Value{y, k, v, nil}[:len(n.Out)]
}

// heads is an operand as [batch, heads, length, size].
func (b *builder) heads(i int, count string) *ssa.Value {
	x := b.in[i]
	if x.Type.Rank() != 3 {
		return x
	}
	return b.with("Transpose", b.op("Reshape", x, b.ints(0, 0, ops.Int(b.n, count), -1)), ssa.IntsAttr("perm", 0, 2, 1, 3))
}

// behind joins what is new to what is cached.
func (b *builder) behind(past, v *ssa.Value) *ssa.Value {
	return b.node("Concat", []*ssa.Value{past, v}, 1, ssa.IntAttr("axis", 2)).Out[0]
}

// repeated gives each head of keys or values to several heads of queries.
func (b *builder) repeated(v *ssa.Value, queries, keys int64) *ssa.Value {
	if queries == keys {
		return v
	}
	wide := b.op("Expand", b.op("Unsqueeze", v, b.ints(2)), b.ints(1, 1, queries/keys, 1, 1))
	return b.op("Reshape", wide, b.joined(b.ints(0, queries), b.pick(b.op("Shape", v), 2, 3)))
}

// weights is softmax(scale·Q·Kᵀ + mask), 0 where a query may not see a key; nil where the mask is shorter than the keys.
func (b *builder) weights(q, k *ssa.Value, scale float64) *ssa.Value {
	scores := b.times(b.op("MatMul", q, b.with("Transpose", k, ssa.IntsAttr("perm", 0, 1, 3, 2))), scale)
	if limit := float64(ops.Float(b.n, "softcap")); limit != 0 {
		scores = b.times(b.op("Tanh", b.times(scores, 1/limit)), limit)
	}
	var allowed *ssa.Value
	if ops.Int(b.n, "is_causal") != 0 {
		allowed = b.causal(q, k)
	}
	if mask := b.input(3); mask != nil {
		last := mask.Type.Rank() - 1
		switch {
		case last < 0 || !mask.Type.Shape[last].Equal(k.Type.Shape[2]):
			return nil
		case mask.Type.DType != ndarray.Bool:
			scores = b.op("Add", scores, mask)
		case allowed != nil:
			allowed = b.op("And", allowed, mask)
		default:
			allowed = mask
		}
	}
	if allowed != nil {
		scores = b.op("Where", allowed, scores, b.number(scores, math.Inf(-1)))
	}
	as := ndarray.DType(ops.IntOr(b.n, "softmax_precision", int64(q.Type.DType)))
	y := b.cast(b.with("Softmax", b.cast(scores, as), ssa.IntAttr("axis", -1)), q.Type.DType)
	if allowed != nil {
		y = b.op("Where", allowed, y, b.number(y, 0))
	}
	return y
}

// causal is true at [s, t] where query s, which stands behind the cached keys, may see key t.
func (b *builder) causal(q, k *ssa.Value) *ssa.Value {
	at := b.counted(q, 2)
	if past := b.input(4); past != nil {
		at = b.op("Add", at, b.length(past, 2))
	}
	return b.op("Not", b.op("Less", b.op("Unsqueeze", at, b.ints(1)), b.counted(k, 2)))
}

// length is a dimension as a scalar.
func (b *builder) length(x *ssa.Value, axis int) *ssa.Value {
	return b.op("Gather", b.op("Shape", x), b.constant(ssa.ScalarConst(int64(axis))))
}

// counted is 0, 1, … below a dimension.
func (b *builder) counted(x *ssa.Value, axis int) *ssa.Value {
	return b.op("Range", b.constant(ssa.ScalarConst(int64(0))), b.length(x, axis), b.constant(ssa.ScalarConst(int64(1))))
}
