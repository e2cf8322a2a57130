package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/internal/ops/quant"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MSAttention is self-attention with its projection, of the com.microsoft domain:
//
//	[Q K V] = input · weights + bias
//	output  = softmax(scale * Q·[past K]ᵀ + mask + attention_bias) · [past V]
//
// Keys and values including the past are result 1.
var MSAttention = ops.Op{
	Domain: Microsoft, Name: "Attention", Since: 1, Doc: "output = attention of [Q K V] = input · weights + bias",
	MinIn: 2, MaxIn: 7, MinOut: 1, MaxOut: 2,
	Attrs: append([]*ops.AttrSpec{ops.IntsAttr("qkv_hidden_sizes"), ops.IntAttr("rotary_embedding_dim")}, msAttentionAttrs...),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: projectedCost}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferSelfAttention(n, 4, ops.InType(n, 0).DType) }),
	Eval: kit.FloatKernel(evalMSAttention[float32], nil),
}

// QAttention is MSAttention over quantized input and weights:
//
//	[Q K V] = (input - input_zero_point) · (weight - weight_zero_point) * input_scale*weight_scale + bias
var QAttention = ops.Op{
	Domain: Microsoft, Name: "QAttention", Since: 1, Doc: "output = attention of [Q K V] = dequantize(input) · dequantize(weight) + bias",
	MinIn: 5, MaxIn: 9, MinOut: 1, MaxOut: 2,
	Attrs: msAttentionAttrs,
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: projectedCost}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferSelfAttention(n, 8, ops.InType(n, 3).DType) }),
	Eval: kit.Kernel(evalQAttention),
}

// msAttentionAttrs are the attributes of both.
var msAttentionAttrs = []*ops.AttrSpec{ops.IntAttr("do_rotary"), ops.FloatAttr("mask_filter_value", -10000),
	ops.IntAttr("num_heads").Mandatory().AtLeast(1), ops.IntAttr("past_present_share_buffer"),
	ops.FloatAttr("scale"), ops.IntAttr("unidirectional", 0)}

// projectedCost counts the projections and both products of attention of all
// positions to all, from operands input [B,S,I], weights [I,W] with queries,
// keys and values side by side, and result [B,S,V]; past keys come on top.
func projectedCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	x, w := ops.InType(n, 0), ops.InType(n, 1)
	tokens := kit.DimOf(x, 0).Mul(kit.DimOf(x, 1))
	scores := tokens.Mul(kit.DimOf(x, 1)).Mul(kit.DimOf(w, 1).Add(kit.DimOf(n.Out[0].Type, 2)).FloorDiv(ssa.D(2)))
	if work, ok := tokens.Mul(kit.DimOf(x, 2)).Mul(kit.DimOf(w, 1)).Add(scores).Const(); ok {
		c.FLOPs = 2 * work
	}
	return c
}

// projectionSizes splits the columns of the weights into Q, K and V.
func projectionSizes(n *ssa.Node, cols ssa.Dim) (sizes [3]ssa.Dim) {
	if list := ops.Ints(n, "qkv_hidden_sizes"); len(list) > 0 {
		if len(list) != 3 {
			kit.Failf("qkv_hidden_sizes has %d elements", len(list))
		}
		for i, v := range list {
			sizes[i] = ssa.D(v)
		}
		return sizes
	}
	third := cols.FloorDiv(ssa.D(3))
	return [3]ssa.Dim{third, third, third}
}

// inferSelfAttention is the type rule; pastAt is the operand that holds the past.
func inferSelfAttention(n *ssa.Node, pastAt int, dt ndarray.DType) []ops.Inferred {
	x, w := ops.InType(n, 0), ops.InType(n, 1)
	if x.Ranked && x.Rank() != 3 || w.Ranked && w.Rank() != 2 {
		kit.Failf("input %s and weights %s must have rank 3 and 2", x, w)
	}
	sizes := projectionSizes(n, kit.DimOf(w, 1))
	count := ssa.D(ops.Int(n, "num_heads"))
	total := kit.DimOf(x, 1)
	if n.Input(pastAt) != nil {
		total = total.Add(kit.DimOf(ops.InType(n, pastAt), 3))
	}
	return []ops.Inferred{{Type: ssa.TensorOf(dt, kit.DimOf(x, 0), kit.DimOf(x, 1), sizes[2])},
		{Type: ssa.TensorOf(dt, ssa.D(2), kit.DimOf(x, 0), count, total, sizes[1].FloorDiv(count))}}
}

func evalMSAttention[T float32 | float64](c *ops.Call) {
	watch := kit.Watching(c)
	x, w := c.Array(0), c.Array(1)
	checkProjection(c.Node, x, w)
	rows, cols := x.Shape[0]*x.Shape[1], w.Shape[1]
	kit.WantShape("bias", c.Array(2), cols)
	if c.Has(6) {
		kit.Failf("operand past_sequence_length: %w", ops.ErrUnsupported)
	}
	qkv := kit.Make[T](c, rows*cols)
	if b := kit.Elements[T](c, c.Array(2)); b != nil {
		for i := range qkv {
			watch.Did(1)
			qkv[i] = b[i%cols]
		}
	}
	kit.MatMulAdd(c, rows, cols, w.Shape[0], kit.Elements[T](c, x), w.Shape[0], kit.Elements[T](c, w), cols, qkv, cols)
	selfAttention(c, x.DType, qkv, x.Shape, cols, c.Array(3), c.Array(4), c.Array(5))
}

// checkProjection checks the operands of a projection and the attributes that
// only other devices' kernels have.
func checkProjection(n *ssa.Node, x, w *ndarray.Array) {
	kit.WantRank("input", x, 3)
	kit.WantRank("weights", w, 2)
	if w.Shape[0] != x.Shape[2] {
		kit.Failf("input of shape %v does not fit weights of shape %v", x.Shape, w.Shape)
	}
	for _, name := range []string{"do_rotary", "past_present_share_buffer"} {
		if ops.Int(n, name) != 0 {
			kit.Failf("%s=1: %w", name, ops.ErrUnsupported)
		}
	}
}

// selfAttention runs attention over projected rows qkv [batch, seq, cols].
func selfAttention[T kit.RealNum](c *ops.Call, dt ndarray.DType, qkv []T, x []int, cols int, mask, past, bias *ndarray.Array) {
	count := int(ops.Int(c.Node, "num_heads"))
	dims := projectionSizes(c.Node, ssa.D(int64(cols)))
	var size [3]int
	for i, d := range dims {
		v, _ := d.Const()
		size[i] = int(v)
		if size[i] < 0 || size[i]%count != 0 {
			kit.Failf("%d heads do not divide a hidden size of %d", count, size[i])
		}
	}
	if size[0]+size[1]+size[2] != cols {
		kit.Failf("hidden sizes %v do not add up to %d columns", size, cols)
	}
	a := paddedAttention[T]{mask: mask}
	a.q = packedHeads(qkv, x[0], x[1], count, size[0]/count, cols, 0)
	a.k = packedHeads(qkv, x[0], x[1], count, size[1]/count, cols, size[0])
	a.v = packedHeads(qkv, x[0], x[1], count, size[2]/count, cols, size[0]+size[1])
	nn.CheckHeads(a.q, a.k, a.v)
	a.paddedAttrs(c.Node)
	a.joinStacked(c, dt, past)
	a.bias = nn.NewMaskView(bias, [4]int{a.q.Batch, a.q.N, a.q.Seq, a.k.Seq})
	nn.StoreAttended(c, dt, a.probabilities(c, nil), a.q, a.v, true)
}

func evalQAttention(c *ops.Call) {
	watch := kit.Watching(c)
	x, w, bias, scale, weightScale := kit.Tensor(c, 0), kit.Tensor(c, 1), kit.Tensor(c, 2), kit.Tensor(c, 3), kit.Tensor(c, 4)
	checkProjection(c.Node, x, w)
	cols := w.Shape[1]
	kit.WantShape("bias", bias, cols)
	kit.WantLen1("input_scale", scale)
	if k := weightScale.Len(); k != 1 && k != cols {
		kit.Failf("weight_scale has %d elements for %d columns", k, cols)
	}
	p := kit.PlanMatMul([]int{x.Shape[0] * x.Shape[1], x.Shape[2]}, w.Shape)
	acc := quant.IntegerProduct(c, p, x.Reshaped(p.M, p.K), w, c.Array(6), c.Array(7))
	qkv, ws, b := kit.Make[float32](c, len(acc)), kit.Elements[float32](c, weightScale), kit.Elements[float32](c, bias)
	s := float32(scale.Float(0))
	for i, v := range acc {
		watch.Did(1)
		qkv[i] = float32(v)*(s*ws[i%cols%len(ws)]) + b[i%cols]
	}
	selfAttention(c, scale.DType, qkv, x.Shape, cols, c.Array(5), c.Array(8), nil)
}

// MultiHeadAttention is attention over projected operands, of the com.microsoft
// domain:
//
//	output = softmax(scale * (Q+bq)·[past_key K+bk]ᵀ + mask + attention_bias) · [past_value V+bv]
//
// Q, K and V are [B,S,N*H]; or Q is packed [B,S,N,3,H]; or K holds both,
// [B,L,N,2,H]; or K and V are [B,N,L,H] already. Results 1 and 2 are the keys and
// values, result 3 the scores before the softmax.
var MultiHeadAttention = ops.Op{
	Domain: Microsoft, Name: "MultiHeadAttention", Since: 1, Doc: "output = softmax(scale * Q·Kᵀ + mask) · V per head",
	MinIn: 1, MaxIn: 10, MinOut: 1, MaxOut: 4,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("mask_filter_value", -10000), ops.IntAttr("num_heads").Mandatory().AtLeast(1),
		ops.FloatAttr("scale"), ops.IntAttr("unidirectional", 0)},
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.CachedCost(1)}, Infer: kit.Rule(inferMultiHead),
	Eval: kit.FloatKernel(evalMultiHead[float32], nil),
}

func inferMultiHead(n *ssa.Node) []ops.Inferred {
	q, k, v := ops.InType(n, 0), ops.InType(n, 1), ops.InType(n, 2)
	count := ssa.D(ops.Int(n, "num_heads"))
	batch, seq := kit.DimOf(q, 0), kit.DimOf(q, 1)
	var kv, size ssa.Dim
	switch {
	case n.Input(1) == nil: // packed [B,S,N,3,H]
		kv, size = seq, kit.DimOf(q, 4)
	case n.Input(2) == nil: // K holds both, [B,L,N,2,H]
		kv, size = kit.DimOf(k, 1), kit.DimOf(k, 4)
	case v.Rank() == 4:
		kv, size = kit.DimOf(v, 2), kit.DimOf(v, 3)
	case v.Rank() == 3:
		kv, size = kit.DimOf(v, 1), kit.DimOf(v, 2).FloorDiv(count)
	}
	hidden, total := size.Mul(count), kv
	if v.Rank() == 3 {
		hidden = kit.DimOf(v, 2)
	}
	if n.Input(6) != nil {
		total = kit.DimOf(ops.InType(n, 6), 2).Add(kv)
	}
	keySize := size
	if q.Rank() == 3 {
		keySize = kit.DimOf(q, 2).FloorDiv(count)
	}
	return []ops.Inferred{{Type: ssa.TensorOf(q.DType, batch, seq, hidden)}, {Type: ssa.TensorOf(q.DType, batch, count, total, keySize)},
		{Type: ssa.TensorOf(q.DType, batch, count, total, size)}, {Type: ssa.TensorOf(q.DType, batch, count, seq, total)}}
}

func evalMultiHead[T float32 | float64](c *ops.Call) {
	if c.Has(8) || c.Has(9) {
		kit.Failf("operands past_sequence_length and cache_indirection: %w", ops.ErrUnsupported)
	}
	a := paddedAttention[T]{mask: c.Array(4)}
	a.readProjected(c)
	a.paddedAttrs(c.Node)
	a.past = nn.JoinPast(c, 6, &a.k, &a.v)
	nn.CheckHeads(a.q, a.k, a.v)
	a.bias = nn.NewMaskView(c.Array(5), [4]int{a.q.Batch, a.q.N, a.q.Seq, a.k.Seq})
	dt := c.Array(0).DType
	probs := a.probabilities(c, func(scores []T) {
		kit.SetResult(c, 3, dt, []int{a.q.Batch, a.q.N, a.q.Seq, a.k.Seq}, scores)
	})
	nn.StoreAttended(c, dt, probs, a.q, a.v, true)
}

// readProjected views Q, K and V in any of their packings and adds the bias.
func (a *paddedAttention[T]) readProjected(c *ops.Call) {
	n, q, k, v := int(ops.Int(c.Node, "num_heads")), c.Array(0), c.Array(1), c.Array(2)
	// slot i of a packing [B,S,N,slots,H]
	slot := func(p *ndarray.Array, i, slots int) nn.Heads[T] {
		if p.Rank() != 5 || p.Shape[2] != n || p.Shape[3] != slots {
			kit.Failf("a packed operand has shape %v, expected [B,S,%d,%d,H]", p.Shape, n, slots)
		}
		h := p.Shape[4]
		x := packedHeads(kit.Elements[T](c, p), p.Shape[0], p.Shape[1], n, h, n*slots*h, i*h)
		x.PerHead = slots * h
		return x
	}
	switch {
	case k == nil:
		a.q = slot(q, 0, 3)
		a.k = slot(q, 1, 3)
		a.v = slot(q, 2, 3)
	case v == nil:
		a.q = nn.HeadsOf[T](c, "query", q, n)
		a.k = slot(k, 0, 2)
		a.v = slot(k, 1, 2)
	default:
		a.q = nn.HeadsOf[T](c, "query", q, n)
		a.k = nn.HeadsOf[T](c, "key", k, n)
		a.v = nn.HeadsOf[T](c, "value", v, n)
	}
	a.addProjectionBias(c, c.Array(3))
}

// addProjectionBias adds a bias [q+k+v columns] to copies of the operands.
func (a *paddedAttention[T]) addProjectionBias(c *ops.Call, bias *ndarray.Array) {
	watch := kit.Watching(c)
	if bias == nil {
		return
	}
	b := kit.Elements[T](c, bias)
	if want := a.q.N * (a.q.Size + a.k.Size + a.v.Size); len(b) != want {
		kit.Failf("bias has %d elements, expected %d", len(b), want)
	}
	for _, x := range []*nn.Heads[T]{&a.q, &a.k, &a.v} {
		*x = x.Contiguous(c, nn.Heads[T]{})
		for i := range x.V {
			watch.Did(1)
			x.V[i] += b[i/x.Ss/x.Seq%x.N*x.Size+i%x.Size]
		}
		b = b[x.N*x.Size:]
	}
}
