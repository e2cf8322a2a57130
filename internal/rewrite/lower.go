package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Lower replaces operators with bodies that are no control flow by the nodes of their
// definition in the standard, so that their bodies are planned, fused and run by the
// backend like other nodes. After it only If, Loop and Scan have bodies.
//
//	SequenceMap(s, t) { y = f(x, t) }
//	   -> Loop(SequenceLength(s), _, SequenceEmpty | s, t) {
//	          y = f(SequenceAt(s, i), t);  acc' = SequenceInsert(acc, y) }
//	FlexAttention(Q, K, V) { score_mod, prob_mod }
//	   -> MatMul(prob_mod(Softmax(score_mod(scale * MatMul(Q, Kᵀ)))), V)
//	FlexAttention(Q, K, V)
//	   -> Attention(Q, K, V)
//	com.microsoft.Attention(x, W, b)
//	   -> com.microsoft.MultiHeadAttention(Split(x·W + b))
//	com.microsoft.DynamicQuantizeMatMul, MatMulIntegerToFloat, QGemm, QAttention
//	   -> MatMulInteger and what stands around it, see lowerinteger.go
//
// Nodes stay where the types they need are not known; running them is an error.
//
// Sources: the function bodies of https://onnx.ai/onnx/operators/onnx__SequenceMap.html
// and https://onnx.ai/onnx/operators/onnx_aionnx_preview_FlexAttention.html.
var Lower = &Pass{
	Name: "lower", Doc: "SequenceMap, FlexAttention, attentions and integer products of com.microsoft -> Loop and ordinary nodes", Required: true,
	rules: []rule{
		{"SequenceMap -> Loop", named("SequenceMap"), lowerSequenceMap},
		{"FlexAttention -> Attention, or MatMul, Softmax, MatMul", func(o *ops.Op) bool { return o == ops.Lookup("ai.onnx.preview", "FlexAttention") }, lowerFlexAttention},
		{"com.microsoft.Attention -> MatMul, Split, MultiHeadAttention", ofMicrosoft("Attention"), lowerProjected},
		{"DynamicQuantizeMatMul -> DynamicQuantizeLinear, MatMulInteger * scale", ofMicrosoft("DynamicQuantizeMatMul"), lowerDynamicProduct},
		{"MatMulIntegerToFloat -> MatMulInteger * scale", ofMicrosoft("MatMulIntegerToFloat"), lowerScaledProduct},
		{"QGemm -> MatMulInteger * scale, QuantizeLinear", ofMicrosoft("QGemm"), lowerQGemm},
		{"QAttention -> MatMulInteger * scale, Split, MultiHeadAttention", ofMicrosoft("QAttention"), lowerQAttention},
	},
}

// Expand makes Lower replace nodes of further operators by the nodes of a graph, whose parameters are the operands that are there:
// for the package by which programs define operators. Nodes for which there is no graph stay.
func Expand(on func(o *ops.Op) bool, body func(n *ssa.Node) (*ssa.Graph, error)) {
	Lower.rules = append(Lower.rules, rule{"an operator that the program defines -> its nodes", on, func(c *Context, n *ssa.Node) bool {
		g, err := body(n)
		if err == nil {
			c.substitute(n, c.splice(n, g, present(n)))
		}
		return err == nil
	}})
}

// Older replaces operators that are newer than the operator set the model may use by nodes of older ones.
//
//	SequenceMap(s)   as [Lower] does
//	Gelu(x)          0.5 · x · (1 + Erf(x/√2))
var Older = &Pass{
	Name: "older", Doc: "operators newer than the operator set the model may use -> older ones", Required: true,
	rules: []rule{{"SequenceMap -> Loop", named("SequenceMap"), func(c *Context, n *ssa.Node) bool { return !c.allows(n) && lowerSequenceMap(c, n) }}},
}

// WriteOlder makes Older replace nodes of further operators by the nodes of a graph in a version of the default operator set, whose
// parameters are the operands that are there. Nodes for which there is no graph stay.
func WriteOlder(on func(o *ops.Op) bool, body func(n *ssa.Node, version int) *ssa.Graph) {
	Older.rules = append(Older.rules, rule{"an operator -> its formula in older operators", on, func(c *Context, n *ssa.Node) bool {
		if c.allows(n) {
			return false
		}
		g := body(n, c.opts.MaxOpset)
		if g != nil {
			c.substitute(n, c.splice(n, g, present(n)))
		}
		return g != nil
	}})
}

// present lists the operands that are there.
func present(n *ssa.Node) []*ssa.Value {
	return slices.DeleteFunc(slices.Clone(n.In), func(v *ssa.Value) bool { return v == nil })
}

// lowerSequenceMap turns the body into a Loop's: its parameters for members of
// sequences become elements of the captured sequences, its results are appended to
// carried sequences. Captures of the Loop are the operands, then the captures of the
// body.
func lowerSequenceMap(c *Context, n *ssa.Node) bool {
	body := n.Body("body")
	for _, r := range body.Results {
		if r.Type.Kind != ssa.KindTensor || r.Type.DType == ndarray.Undefined {
			return false
		}
	}
	in := []*ssa.Value{c.op(n, n.In[0].Name+"_length", "SequenceLength", n.In[:1]), nil}
	for _, r := range body.Results {
		in = append(in, c.op(n, r.Name+"_none", "SequenceEmpty", nil, ssa.IntAttr("dtype", int64(r.Type.DType))))
	}
	c.mapToLoop(n, body)
	loop := c.insert(n, "Loop", append(in, n.In...), len(body.Results)-1)
	loop.Name, loop.Captures, loop.Bodies, loop.BodyAttr = n.Name, len(n.In), n.Bodies, n.BodyAttr
	n.Bodies, n.BodyAttr = nil, nil
	for k, v := range loop.Out {
		v.Name = c.fresh(body.Results[1+k].Name)
	}
	c.fail(ops.InferContext(c.ctx, loop))
	c.substitute(n, loop.Out)
	return true
}

// mapToLoop changes the body of SequenceMap n into the body of a Loop.
func (c *Context) mapToLoop(n *ssa.Node, body *ssa.Graph) {
	results, members := slices.Clone(body.Results), slices.Clone(body.Params)
	body.Params, body.Results = nil, nil
	iter := body.AddParam(c.fresh("iter"), ssa.StaticTensor(ndarray.Int64))
	cond := body.AddParam(c.fresh("cond"), ssa.StaticTensor(ndarray.Bool))
	var carried []*ssa.Value
	for _, r := range results {
		carried = append(carried, body.AddParam(c.fresh(r.Name+"_members"), ssa.SequenceOf(r.Type)))
	}
	formals := n.Formals()
	for i, p := range members {
		if i >= len(formals) || formals[i].Type.Kind != ssa.KindSequence {
			body.Params = append(body.Params, p)
			continue
		}
		s := body.AddParam(c.fresh(formals[i].Name), formals[i].Type)
		at := body.NewNode("SequenceAt", []*ssa.Value{s, iter}, 1)
		at.Out[0].Name, at.Out[0].Type = c.fresh(p.Name), p.Type
		for _, u := range slices.Clone(p.Uses()) {
			u.Node.SetInput(u.Index, at.Out[0])
		}
		for k, r := range results {
			if r == p {
				results[k] = at.Out[0]
			}
		}
	}
	body.Results = []*ssa.Value{cond}
	for k, r := range results {
		ins := body.NewNode("SequenceInsert", []*ssa.Value{carried[k], r}, 1)
		ins.Out[0].Name = c.fresh(r.Name + "_members")
		body.Results = append(body.Results, ins.Out[0])
	}
	_ = body.Sort() // no cycle: only SequenceAt and SequenceInsert were added
}

// lowerFlexAttention writes out the formula; without bodies the node becomes Attention,
// which needs no memory for all scores.
//
// Scores are computed in float32 (float64 for such operands) and given to
// softmax and the bodies in the precision asked for.
func lowerFlexAttention(c *Context, n *ssa.Node) bool {
	q, k, v := n.In[0], n.In[1], n.In[2]
	dt, err := nn.FlexPrecision(n)
	switch {
	case err != nil:
		c.fail(ops.AtNode("optimize", n, err))
		return false
	case q.Type.DType == ndarray.Undefined:
		return false
	case len(n.Bodies) == 0:
		return c.plainAttention(n, dt)
	case !q.Type.Ranked || !k.Type.Ranked || !v.Type.Ranked:
		return false
	}
	b := &builder{c: c, mark: n, hint: n.Out[0].Name}
	wide := ndarray.Float32
	if q.Type.DType == ndarray.Float64 {
		wide = ndarray.Float64
	}
	qh, kh := q, k
	grouped := !q.Type.Shape[1].Equal(k.Type.Shape[1])
	if grouped {
		qh = b.group(q, q, k)
	}
	scores := b.op("MatMul", b.cast(qh, wide), b.with("Transpose", b.cast(kh, wide), ssa.IntsAttr("perm", 0, 1, 3, 2)))
	if grouped {
		scores = b.ungroup(scores, q)
	}
	scores = b.cast(b.op("Mul", scores, b.scale(n, q, wide)), dt)
	scores = b.modified(n, "score_mod", scores)
	probs := b.modified(n, "prob_mod", b.with("Softmax", scores, ssa.IntAttr("axis", -1)))
	probs = b.cast(probs, wide)
	if grouped {
		probs = b.group(probs, q, k)
	}
	y := b.op("MatMul", probs, b.cast(v, wide))
	if grouped {
		y = b.ungroup(y, q)
	}
	c.replace(n.Out[0], b.cast(y, q.Type.DType))
	return true
}

// plainAttention makes a FlexAttention without bodies an Attention.
func (c *Context) plainAttention(n *ssa.Node, dt ndarray.DType) bool {
	attrs := []ssa.Attr{ssa.IntAttr("softmax_precision", int64(dt))}
	if n.Has("scale") {
		attrs = append(attrs, ssa.FloatAttr("scale", ops.Float(n, "scale")))
	}
	c.replace(n.Out[0], c.op(n, n.Out[0].Name, "Attention", n.In, attrs...))
	return true
}

const microsoft = "com.microsoft"

// ofMicrosoft is an operator of that domain.
func ofMicrosoft(name string) operators {
	return func(o *ops.Op) bool { return o.Domain == microsoft && o.Name == name }
}

// lowerProjected separates the projection of a com.microsoft.Attention without a past from the attention itself.
// What it means of masks, scale and heads is the same in MultiHeadAttention.
func lowerProjected(c *Context, n *ssa.Node) bool {
	sizes := c.projected(n, n.Input(3), n.Input(4))
	if sizes == nil || n.Input(6) != nil || n.In[0].Type.DType != ndarray.Float32 {
		return false
	}
	b := &builder{c: c, mark: n, hint: n.Out[0].Name}
	y := b.plus(b.op("MatMul", n.In[0], n.In[1]), n.Input(2))
	b.attend(n, y, sizes, n.Input(3), n.Input(5))
	return true
}

// projected returns how many columns of the projection are queries, keys and values of an attention of com.microsoft; nil if it
// has a past or masks of other forms than MultiHeadAttention, or if the reference kernel says what is wrong.
func (c *Context) projected(n *ssa.Node, mask, past *ssa.Value) []int64 {
	x, w := n.In[0].Type, n.In[1].Type
	if past != nil || len(n.Out) > 1 && !c.unreadResult(n, 1) ||
		ops.Int(n, "do_rotary") != 0 || ops.Int(n, "past_present_share_buffer") != 0 || x.Rank() != 3 || w.Rank() != 2 {
		return nil
	}
	if mask != nil {
		dims := mask.Type.Shape
		if len(dims) < 1 || len(dims) > 2 || !dims[0].Equal(x.Shape[0]) || len(dims) == 2 && !dims[1].Equal(x.Shape[1]) {
			return nil
		}
	}
	sizes, heads := ops.Ints(n, "qkv_hidden_sizes"), ops.Int(n, "num_heads")
	cols, known := w.Shape[1].Const()
	if len(sizes) == 0 {
		sizes = []int64{cols / 3, cols / 3, cols / 3}
	}
	if !known || len(sizes) != 3 || sizes[0]+sizes[1]+sizes[2] != cols || sizes[0] != sizes[1] || sizes[0] < 1 || sizes[0]%heads != 0 || sizes[2]%heads != 0 {
		return nil
	}
	return sizes
}

// attend replaces an attention by one of projected rows y.
func (b *builder) attend(n *ssa.Node, y *ssa.Value, sizes []int64, mask, scores *ssa.Value) {
	c := b.c
	parts := c.insert(n, "Split", []*ssa.Value{y, c.constant(b.hint+"_sizes", ssa.Int64s(sizes...))}, 3, ssa.IntAttr("axis", 2))
	m := c.insert(n, "MultiHeadAttention", []*ssa.Value{parts.Out[0], parts.Out[1], parts.Out[2], nil, mask, scores}, 1)
	m.Domain, m.Name = microsoft, n.Name
	for _, a := range n.Attrs {
		if slices.Contains([]string{"num_heads", "scale", "mask_filter_value", "unidirectional"}, a.Name) {
			m.SetAttr(a)
		}
	}
	for _, v := range append(slices.Clone(parts.Out), m.Out[0]) {
		v.Name = c.fresh(b.hint + "_part")
	}
	c.fail(ops.Infer(parts))
	c.fail(ops.Infer(m))
	c.replace(n.Out[0], m.Out[0])
}

// builder adds nodes before a mark.
type builder struct {
	c    *Context
	mark *ssa.Node
	hint string
}

func (b *builder) node(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return b.c.op(b.mark, b.hint+"_"+op, op, in, attrs...)
}

func (b *builder) op(op string, in ...*ssa.Value) *ssa.Value { return b.node(op, in) }

// with adds a node of one operand.
func (b *builder) with(op string, x *ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return b.node(op, []*ssa.Value{x}, attrs...)
}

func (b *builder) cast(x *ssa.Value, dt ndarray.DType) *ssa.Value {
	if x.Type.DType == dt {
		return x
	}
	return b.with("Cast", x, ssa.IntAttr("to", int64(dt)))
}

// dims is the shape of x from one axis up to another, as a tensor of rank 1.
func (b *builder) dims(x *ssa.Value, from, to int64) *ssa.Value {
	return b.with("Shape", x, ssa.IntAttr("start", from), ssa.IntAttr("end", to))
}

// group folds the query heads that share a key head into one: [B, Hq, S, …]
// becomes [B, Hk, Hq/Hk·S, …], so that keys and values need no copies.
func (b *builder) group(x, q, k *ssa.Value) *ssa.Value {
	rows := b.op("Div", b.op("Mul", b.dims(q, 1, 2), b.dims(q, 2, 3)), b.dims(k, 1, 2))
	shape := b.node("Concat", []*ssa.Value{b.dims(q, 0, 1), b.dims(k, 1, 2), rows, b.dims(x, 3, 4)}, ssa.IntAttr("axis", 0))
	return b.node("Reshape", []*ssa.Value{x, shape}, ssa.IntAttr("allowzero", 1))
}

// ungroup undoes group: the rows of a key head are those of its query heads again.
func (b *builder) ungroup(x, q *ssa.Value) *ssa.Value {
	shape := b.node("Concat", []*ssa.Value{b.dims(q, 0, 3), b.dims(x, 3, 4)}, ssa.IntAttr("axis", 0))
	return b.node("Reshape", []*ssa.Value{x, shape}, ssa.IntAttr("allowzero", 1))
}

// scale is the factor of the scores: the attribute, or 1/sqrt(head size).
func (b *builder) scale(n *ssa.Node, q *ssa.Value, dt ndarray.DType) *ssa.Value {
	if n.Has("scale") {
		return b.cast(b.c.constant(b.hint+"_scale", float32s(ops.Float(n, "scale"))), dt)
	}
	return b.op("Reciprocal", b.op("Sqrt", b.cast(b.dims(q, 3, 4), dt)))
}

// modified sends x through a body of the node, if it has that body.
func (b *builder) modified(n *ssa.Node, name string, x *ssa.Value) *ssa.Value {
	body := n.Body(name)
	if body == nil {
		return x
	}
	return b.c.splice(b.mark, body, append([]*ssa.Value{x}, n.Captured()...))[0]
}
