package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// MSAttention is self-attention with its projection, of the com.microsoft domain:
//
//	[Q K V] = input · weights + bias
//	output  = softmax(scale * Q·[past K]ᵀ + mask + attention_bias) · [past V]
//
// Keys and values including the past are result 1.
var MSAttention = Op{
	Domain: microsoft, Name: "Attention", Since: 1, Doc: "output = attention of [Q K V] = input · weights + bias",
	MinIn: 2, MaxIn: 7, MinOut: 1, MaxOut: 2,
	Attrs: append([]AttrSpec{intsAttr("qkv_hidden_sizes"), intAttr("rotary_embedding_dim")}, msAttentionAttrs...),
	Facts: Facts{Traits: general, Cost: projectedCost}, Infer: rule(func(n *ssa.Node) []Inferred { return inferSelfAttention(n, 4, InType(n, 0).DType) }),
	Eval: floatKernel(evalMSAttention[float32], evalMSAttention[float64]),
}

// QAttention is MSAttention over quantized input and weights:
//
//	[Q K V] = (input - input_zero_point) · (weight - weight_zero_point) * input_scale*weight_scale + bias
var QAttention = Op{
	Domain: microsoft, Name: "QAttention", Since: 1, Doc: "output = attention of [Q K V] = dequantize(input) · dequantize(weight) + bias",
	MinIn: 5, MaxIn: 9, MinOut: 1, MaxOut: 2,
	Attrs: msAttentionAttrs,
	Facts: Facts{Traits: general, Cost: projectedCost}, Infer: rule(func(n *ssa.Node) []Inferred { return inferSelfAttention(n, 8, InType(n, 3).DType) }),
	Eval: kernel(evalQAttention),
}

// msAttentionAttrs are the attributes of both.
var msAttentionAttrs = []AttrSpec{intAttr("do_rotary"), floatAttr("mask_filter_value", -10000),
	intAttr("num_heads").required(), intAttr("past_present_share_buffer"),
	floatAttr("scale"), intAttr("unidirectional", 0)}

// projectionSizes splits the columns of the weights into Q, K and V.
func projectionSizes(n *ssa.Node, cols ssa.Dim) (sizes [3]ssa.Dim) {
	if list := Ints(n, "qkv_hidden_sizes"); len(list) > 0 {
		if len(list) != 3 {
			failf("qkv_hidden_sizes has %d elements", len(list))
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
func inferSelfAttention(n *ssa.Node, pastAt int, dt ndarray.DType) []Inferred {
	x, w := InType(n, 0), InType(n, 1)
	if x.Ranked && x.Rank() != 3 || w.Ranked && w.Rank() != 2 {
		failf("input %s and weights %s must have rank 3 and 2", x, w)
	}
	sizes := projectionSizes(n, dimOf(w, 1))
	count := ssa.D(Int(n, "num_heads"))
	total := dimOf(x, 1)
	if n.Input(pastAt) != nil {
		total = total.Add(dimOf(InType(n, pastAt), 3))
	}
	return []Inferred{{Type: ssa.TensorOf(dt, dimOf(x, 0), dimOf(x, 1), sizes[2])},
		{Type: ssa.TensorOf(dt, ssa.D(2), dimOf(x, 0), count, total, sizes[1].FloorDiv(count))}}
}

func evalMSAttention[T float32 | float64](c *Call) {
	x, w := c.Array(0), c.Array(1)
	checkProjection(c.Node, x, w)
	rows, cols := x.Shape[0]*x.Shape[1], w.Shape[1]
	wantShape("bias", c.Array(2), cols)
	if c.Has(6) {
		failf("operand past_sequence_length: %w", ErrUnsupported)
	}
	qkv := make([]T, rows*cols)
	if b := elements[T](c.Array(2)); b != nil {
		for i := range qkv {
			qkv[i] = b[i%cols]
		}
	}
	matMulAdd(rows, cols, w.Shape[0], elements[T](x), w.Shape[0], elements[T](w), cols, qkv, cols)
	selfAttention(c, x.DType, qkv, x.Shape, cols, c.Array(3), c.Array(4), c.Array(5))
}

// checkProjection checks the operands of a projection and the attributes that
// only other devices' kernels have.
func checkProjection(n *ssa.Node, x, w *ndarray.Array) {
	wantRank("input", x, 3)
	wantRank("weights", w, 2)
	if w.Shape[0] != x.Shape[2] {
		failf("input of shape %v does not fit weights of shape %v", x.Shape, w.Shape)
	}
	for _, name := range []string{"do_rotary", "past_present_share_buffer"} {
		if Int(n, name) != 0 {
			failf("%s=1: %w", name, ErrUnsupported)
		}
	}
}

// selfAttention runs attention over projected rows qkv [batch, seq, cols].
func selfAttention[T realNum](c *Call, dt ndarray.DType, qkv []T, x []int, cols int, mask, past, bias *ndarray.Array) {
	count := int(Int(c.Node, "num_heads"))
	dims := projectionSizes(c.Node, ssa.D(int64(cols)))
	var size [3]int
	for i, d := range dims {
		v, _ := d.Const()
		size[i] = int(v)
		if count < 1 || size[i] < 0 || size[i]%count != 0 {
			failf("%d heads do not divide a hidden size of %d", count, size[i])
		}
	}
	if size[0]+size[1]+size[2] != cols {
		failf("hidden sizes %v do not add up to %d columns", size, cols)
	}
	a := paddedAttention[T]{mask: mask}
	a.q = packedHeads(qkv, x[0], x[1], count, size[0]/count, cols, 0)
	a.k = packedHeads(qkv, x[0], x[1], count, size[1]/count, cols, size[0])
	a.v = packedHeads(qkv, x[0], x[1], count, size[2]/count, cols, size[0]+size[1])
	checkHeads(a.q, a.k, a.v)
	a.paddedAttrs(c.Node)
	a.joinStacked(c, dt, past)
	a.bias = newMaskView(bias, [4]int{a.q.batch, a.q.n, a.q.seq, a.k.seq})
	probs := a.probabilities(nil)
	a.storeOutput(c, dt, probs)
}

func evalQAttention(c *Call) {
	x, w, bias, scale, weightScale := tensor(c, 0), tensor(c, 1), tensor(c, 2), tensor(c, 3), tensor(c, 4)
	checkProjection(c.Node, x, w)
	cols := w.Shape[1]
	wantShape("bias", bias, cols)
	wantLen1("input_scale", scale)
	if k := weightScale.Len(); k != 1 && k != cols {
		failf("weight_scale has %d elements for %d columns", k, cols)
	}
	p := planMatMul([]int{x.Shape[0] * x.Shape[1], x.Shape[2]}, w.Shape)
	acc := integerProduct(p, x.Reshaped(p.m, p.k), w, c.Array(6), c.Array(7))
	qkv, ws, b := make([]float32, len(acc)), elements[float32](weightScale), elements[float32](bias)
	s := float32(scale.Float(0))
	for i, v := range acc {
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
var MultiHeadAttention = Op{
	Domain: microsoft, Name: "MultiHeadAttention", Since: 1, Doc: "output = softmax(scale * Q·Kᵀ + mask) · V per head",
	MinIn: 1, MaxIn: 10, MinOut: 1, MaxOut: 4,
	Attrs: []AttrSpec{floatAttr("mask_filter_value", -10000), intAttr("num_heads").required(),
		floatAttr("scale"), intAttr("unidirectional", 0)},
	Facts: Facts{Traits: general, Cost: cachedCost(1)}, Infer: rule(inferMultiHead),
	Eval: floatKernel(evalMultiHead[float32], evalMultiHead[float64]),
}

func inferMultiHead(n *ssa.Node) []Inferred {
	q, k, v := InType(n, 0), InType(n, 1), InType(n, 2)
	count := ssa.D(Int(n, "num_heads"))
	batch, seq := dimOf(q, 0), dimOf(q, 1)
	var kv, hidden, size ssa.Dim
	switch {
	case n.Input(1) == nil: // packed [B,S,N,3,H]
		kv, size = seq, dimOf(q, 4)
		hidden = size.Mul(count)
	case n.Input(2) == nil: // K holds both, [B,L,N,2,H]
		kv, size = dimOf(k, 1), dimOf(k, 4)
		hidden = size.Mul(count)
	case v.Rank() == 4:
		kv, size = dimOf(v, 2), dimOf(v, 3)
		hidden = size.Mul(count)
	case v.Rank() == 3:
		kv, hidden = dimOf(v, 1), dimOf(v, 2)
		size = hidden.FloorDiv(count)
	}
	total := kv
	if n.Input(6) != nil {
		total = dimOf(InType(n, 6), 2).Add(kv)
	}
	keySize := size
	if q.Rank() == 3 {
		keySize = dimOf(q, 2).FloorDiv(count)
	}
	return []Inferred{{Type: ssa.TensorOf(q.DType, batch, seq, hidden)}, {Type: ssa.TensorOf(q.DType, batch, count, total, keySize)},
		{Type: ssa.TensorOf(q.DType, batch, count, total, size)}, {Type: ssa.TensorOf(q.DType, batch, count, seq, total)}}
}

func evalMultiHead[T float32 | float64](c *Call) {
	if c.Has(8) || c.Has(9) {
		failf("operands past_sequence_length and cache_indirection: %w", ErrUnsupported)
	}
	a := paddedAttention[T]{mask: c.Array(4)}
	a.readProjected(c)
	a.paddedAttrs(c.Node)
	a.joinSeparate(c)
	checkHeads(a.q, a.k, a.v)
	a.bias = newMaskView(c.Array(5), [4]int{a.q.batch, a.q.n, a.q.seq, a.k.seq})
	dt := c.Array(0).DType
	probs := a.probabilities(func(scores []T) {
		setResult(c, 3, dt, []int{a.q.batch, a.q.n, a.q.seq, a.k.seq}, scores)
	})
	a.storeOutput(c, dt, probs)
}

// readProjected views Q, K and V in any of their packings and adds the bias.
func (a *paddedAttention[T]) readProjected(c *Call) {
	n, q, k, v := int(Int(c.Node, "num_heads")), c.Array(0), c.Array(1), c.Array(2)
	if n < 1 {
		failf("num_heads=%d is not positive", n)
	}
	// slot i of a packing [B,S,N,slots,H]
	slot := func(p *ndarray.Array, i, slots int) heads[T] {
		if p.Rank() != 5 || p.Shape[2] != n || p.Shape[3] != slots {
			failf("a packed operand has shape %v, expected [B,S,%d,%d,H]", p.Shape, n, slots)
		}
		h := p.Shape[4]
		x := packedHeads(elements[T](p), p.Shape[0], p.Shape[1], n, h, n*slots*h, i*h)
		x.perHead = slots * h
		return x
	}
	switch {
	case k == nil:
		a.q = slot(q, 0, 3)
		a.k = slot(q, 1, 3)
		a.v = slot(q, 2, 3)
	case v == nil:
		a.q = headsOf[T]("query", q, n)
		a.k = slot(k, 0, 2)
		a.v = slot(k, 1, 2)
	default:
		a.q = headsOf[T]("query", q, n)
		a.k = headsOf[T]("key", k, n)
		a.v = headsOf[T]("value", v, n)
	}
	a.addProjectionBias(c.Array(3))
}

// addProjectionBias adds a bias [q+k+v columns] to copies of the operands.
func (a *paddedAttention[T]) addProjectionBias(bias *ndarray.Array) {
	if bias == nil {
		return
	}
	b := elements[T](bias)
	if want := a.q.n * (a.q.size + a.k.size + a.v.size); len(b) != want {
		failf("bias has %d elements, expected %d", len(b), want)
	}
	for _, x := range []*heads[T]{&a.q, &a.k, &a.v} {
		*x = x.contiguous(heads[T]{})
		for i := range x.v {
			x.v[i] += b[i/x.ss/x.seq%x.n*x.size+i%x.size]
		}
		b = b[x.n*x.size:]
	}
}

// joinSeparate puts past_key and past_value before K and V and stores results 1
// and 2.
func (a *paddedAttention[T]) joinSeparate(c *Call) {
	if c.Has(6) != c.Has(7) {
		failf("past_key and past_value come together")
	}
	for i, x := range []*heads[T]{&a.k, &a.v} {
		p := c.Array(6 + i)
		var past heads[T]
		if p != nil {
			if !slices.Equal(p.Shape, []int{x.batch, x.n, sizeOf(p.Shape) / max(1, x.batch*x.n*x.size), x.size}) {
				failf("a past of shape %v does not fit %d heads of size %d", p.Shape, x.n, x.size)
			}
			past = headsOf[T]("past", p, 0)
			a.past = past.seq
		}
		if p == nil && !c.Wants(1+i) {
			continue
		}
		*x = x.contiguous(past)
		shape := []int{x.batch, x.n, x.seq, x.size}
		setResult(c, 1+i, c.Array(0).DType, shape, x.v)
	}
}
