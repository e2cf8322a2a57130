package rare

import (
	"fmt"
	"math"
	"sort"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MoE is a mixture of experts, of the com.microsoft domain: a router gives every
// token a logit for each expert, the k best experts each run a two-layer network
// on it, and the results are added with the router's probabilities as weights.
//
//	p = softmax(router_probs)                 of all experts, or of the chosen ones only (normalize_routing_weights)
//	output = Σ over chosen e of p[e] * (fc2[e] · act(fc1[e]·x + b1[e]) + b2[e])
//
// With activation_type swiglu, fc1 gives pairs, gates at even places:
//
//	act(g, l) = G * sigmoid(alpha*G) * (L + beta)    G = min(g, limit), L = l within ±limit
//
// Source: https://arxiv.org/abs/2101.03961
var MoE = ops.Op{
	Domain: contrib.Microsoft, Name: "MoE", Since: 1, Doc: "output = Σ over the k best experts of p[e] * (fc2[e]·act(fc1[e]·x + b1[e]) + b2[e])",
	MinIn: 3, MaxIn: 8, MinOut: 1, MaxOut: 1, Attrs: moeAttrs,
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: moeCost}, Eval: kit.FloatKernel(evalMoE, nil),
}

var moeAttrs = []*ops.AttrSpec{ops.FloatAttr("activation_alpha", 1), ops.FloatAttr("activation_beta", 0),
	ops.StrAttr("activation_type", "relu", "gelu", "silu", "swiglu", "identity"), ops.IntAttr("k", 1).AtLeast(1), ops.IntAttr("normalize_routing_weights", 0),
	ops.IntAttr("swiglu_fusion", 0), ops.FloatAttr("swiglu_limit", float32(math.Inf(1))), ops.IntAttr("use_sparse_mixer", 0)}

// moeCost counts the products of k experts for every token.
func moeCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	w := ops.InType(n, 2)
	tokens := ops.InType(n, 0).NumElems()
	if work, ok := tokens.Mul(kit.DimOf(w, 1)).MulN(ops.Int(n, "k")).Const(); ok {
		c.FLOPs = 4 * work
	}
	return c
}

// experts is one evaluation: sizes, and the two layers by expert.
type experts struct {
	tokens, hidden, inner, count, chosen int
	first, second                        expertLayer
	act                                  func(dst, src []float32) // dst has inner elements
	wide                                 int                      // rows of the first layer: inner, or twice as many
	normalize                            bool
}

// expertLayer gives the weights [rows, cols] of an expert; bias may be nil.
type expertLayer struct {
	weights func(expert int) []float32
	bias    []float32 // [experts, rows]
}

// apply computes y = W·x + b.
func (l expertLayer) apply(watch *kit.Watch, w []float32, expert int, y, x []float32) {
	for r := range y {
		watch.Did(len(x))
		y[r] = kit.Dot(w[r*len(x):][:len(x)], x)
		if l.bias != nil {
			y[r] += l.bias[expert*len(y)+r]
		}
	}
}

func newExperts(c *ops.Call, inner int) *experts {
	x, router, n := c.Array(0), c.Array(1), c.Node
	if x.Rank() != 2 && x.Rank() != 3 {
		kit.Failf("input has shape %v, expected [tokens,hidden] or [batch,sequence,hidden]", x.Shape)
	}
	e := &experts{hidden: x.Shape[x.Rank()-1], tokens: kit.SizeOf(x.Shape[:x.Rank()-1]), inner: inner, chosen: int(ops.Int(n, "k")),
		normalize: ops.Int(n, "normalize_routing_weights") != 0}
	kit.WantRank("router_probs", router, 2)
	e.count = router.Shape[1]
	if router.Shape[0] != e.tokens || e.chosen > e.count {
		kit.Failf("router_probs of shape %v for %d tokens with k=%d", router.Shape, e.tokens, e.chosen)
	}
	if ops.Int(n, "use_sparse_mixer") != 0 {
		kit.Failf("use_sparse_mixer=1: %w", ops.ErrUnsupported)
	}
	e.readActivation(c)
	return e
}

func (e *experts) readActivation(c *ops.Call) {
	n := c.Node
	each := func(f func(float64) float64) func(dst, src []float32) {
		return func(dst, src []float32) {
			kit.Convert(c, dst, src, func(v float32) float32 { return float32(f(float64(v))) })
		}
	}
	e.wide = e.inner
	switch ops.Str(n, "activation_type") {
	case "relu":
		e.act = each(func(x float64) float64 { return math.Max(x, 0) })
	case "gelu":
		e.act = each(kit.GeluTanh)
	case "silu":
		e.act = each(kit.Silu)
	case "identity":
		e.act = func(dst, src []float32) { copy(dst, src) }
	case "swiglu":
		if f := ops.Int(n, "swiglu_fusion"); f != 1 {
			kit.Failf("swiglu_fusion=%d: %w", f, ops.ErrUnsupported)
		}
		e.wide = 2 * e.inner
		alpha, beta := float64(ops.Float(n, "activation_alpha")), float64(ops.Float(n, "activation_beta"))
		limit := float64(ops.Float(n, "swiglu_limit"))
		e.act = func(dst, src []float32) {
			for i := range dst {
				g, l := math.Min(float64(src[2*i]), limit), math.Max(-limit, math.Min(float64(src[2*i+1]), limit))
				dst[i] = float32(g * kit.Sigmoid(alpha*g) * (l + beta))
			}
		}
	}
}

// route chooses experts for a token: the k largest logits, of equal ones the later
// expert, with their weights.
func (e *experts) route(c *ops.Call, logits, weights []float32, order []int, p []float32) []int {
	for i := range order {
		order[i] = len(order) - 1 - i
	}
	copy(p, logits)
	kit.SoftmaxRows(c, p, len(p))
	w := kit.Watching(c)
	sort.SliceStable(order, func(i, j int) bool {
		w.Did(1)
		return logits[order[i]] > logits[order[j]]
	})
	chosen := order[:e.chosen]
	if weights != nil {
		copy(p, weights)
	}
	if e.normalize {
		sum := float32(0)
		for _, i := range chosen {
			sum += p[i]
		}
		for _, i := range chosen {
			p[i] /= sum
		}
	}
	return chosen
}

// run sends every token through its experts. Experts are taken one after the
// other, so that the weights of one at a time are unpacked.
func (e *experts) run(c *ops.Call, x, logits, weights, out []float32) {
	type visit struct {
		token int
		p     float32
	}
	visits := make([][]visit, e.count)
	order, p := make([]int, e.count), kit.Make[float32](c, e.count)
	for t := range e.tokens {
		var w []float32
		if weights != nil {
			w = weights[t*e.count:][:e.count]
		}
		for _, i := range e.route(c, logits[t*e.count:][:e.count], w, order, p) {
			if p[i] != 0 {
				visits[i] = append(visits[i], visit{t, p[i]})
			}
		}
	}
	kit.ClearSlice(c, out)
	watch := kit.Watching(c)
	wide, mid, y := kit.Make[float32](c, e.wide), kit.Make[float32](c, e.inner), kit.Make[float32](c, e.hidden)
	for i, list := range visits {
		if len(list) == 0 {
			continue
		}
		w1, w2 := e.first.weights(i), e.second.weights(i)
		for _, v := range list {
			e.first.apply(&watch, w1, i, wide, x[v.token*e.hidden:][:e.hidden])
			e.act(mid, wide)
			e.second.apply(&watch, w2, i, y, mid)
			kit.AddScaled(out[v.token*e.hidden:][:e.hidden], v.p, y)
		}
	}
}

func evalMoE(c *ops.Call) {
	w1, w2 := c.Array(2), c.Array(4)
	kit.WantRank("fc1_experts_weights", w1, 3)
	kit.WantRank("fc2_experts_weights", w2, 3)
	if c.Has(6) || c.Has(7) {
		kit.Failf("a third layer (fc3): %w", ops.ErrUnsupported)
	}
	e := newExperts(c, w2.Shape[2])
	plain := func(what string, at, rows, cols int) expertLayer {
		a := c.Array(at)
		kit.WantShape(what+"_weights", a, e.count, rows, cols)
		v := kit.Elements[float32](c, a)
		kit.WantShape(what+"_bias", c.Array(at+1), e.count, rows)
		return expertLayer{func(i int) []float32 { return v[i*rows*cols:][:rows*cols] }, kit.Elements[float32](c, c.Array(at+1))}
	}
	e.first = plain("fc1_experts", 2, e.wide, e.hidden)
	e.second = plain("fc2_experts", 4, e.hidden, e.inner)
	e.store(c, nil)
}

// store runs the experts and writes result 0.
func (e *experts) store(c *ops.Call, weights []float32) {
	x := c.Array(0)
	out := kit.Make[float32](c, e.tokens*e.hidden)
	e.run(c, kit.Elements[float32](c, x), kit.Elements[float32](c, c.Array(1)), weights, out)
	kit.SetResult(c, 0, x.DType, x.Shape, out)
}

// QMoE is MoE with weights of 2, 4 or 8 bits, of the com.microsoft domain:
//
//	w = (q - zero point) * scale        one scale per row, or per block of block_size columns
//
// Several weights share a byte, the first in its low bits. The zero point is half
// the range where none is given. router_weights, if given, are the experts'
// weights, and router_probs only choose; else the probabilities are always those
// among the chosen experts.
var QMoE = ops.Op{
	Domain: contrib.Microsoft, Name: "QMoE", Since: 1, Doc: "MoE with weights (q - zero point) * scale",
	MinIn: 3, MaxIn: 21, MinOut: 1, MaxOut: 1,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("accuracy_level", 0), ops.IntAttr("block_size").AtLeast(0), ops.IntAttr("expert_weight_bits", 4),
		ops.IntAttr("fc1_expert_weight_bits"), ops.IntAttr("fc2_expert_weight_bits"), ops.IntAttr("fc3_expert_weight_bits"),
		ops.StrAttr("quant_type", "int"), ops.IntAttr("weights_prepacked", -1)}, moeAttrs...),
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: moeCost}, Eval: kit.FloatKernel(evalQMoE, nil),
}

func evalQMoE(c *ops.Call) {
	n := c.Node
	qmoeSupported(c)
	bits := ops.Int(n, "expert_weight_bits")
	bits1, bits2 := int(ops.IntOr(n, "fc1_expert_weight_bits", bits)), int(ops.IntOr(n, "fc2_expert_weight_bits", bits))
	w2 := c.Array(5)
	kit.WantRank("fc2_experts_weights", w2, 3)
	for _, b := range []int{bits1, bits2} {
		if b != 2 && b != 4 && b != 8 {
			kit.Failf("weights of %d bits: %w", b, ops.ErrUnsupported)
		}
	}
	e := newExperts(c, w2.Shape[2]*8/bits2)
	e.first = e.quantized(c, 2, 11, e.wide, e.hidden, bits1)
	e.second = e.quantized(c, 5, 12, e.hidden, e.inner, bits2)
	kit.WantShape("router_weights", c.Array(14), e.tokens, e.count)
	e.normalize = e.normalize || !c.Has(14)
	e.store(c, kit.Elements[float32](c, c.Array(14)))
}

// qmoeSupported names the forms that only other devices' kernels have.
func qmoeSupported(c *ops.Call) {
	n := c.Node
	switch {
	case ops.Str(n, "quant_type") != "int":
		kit.Failf("quant_type=%q: %w", ops.Str(n, "quant_type"), ops.ErrUnsupported)
	case ops.Int(n, "weights_prepacked") > 0:
		kit.Failf("weights_prepacked=1: %w", ops.ErrUnsupported)
	case c.Has(8) || c.Has(9) || c.Has(10) || c.Has(13):
		kit.Failf("a third layer (fc3): %w", ops.ErrUnsupported)
	}
	for i := 15; i < len(c.In); i++ {
		if c.Has(i) {
			kit.Failf("operand %d, of float quantization: %w", i, ops.ErrUnsupported)
		}
	}
}

// quantized reads a layer from weights at, scales at+1, bias at+2 and zero points.
func (e *experts) quantized(c *ops.Call, at, zeroAt, rows, cols, bits int) expertLayer {
	what := fmt.Sprintf("operand %d", at)
	perByte, block := 8/bits, int(ops.Int(c.Node, "block_size"))
	if cols%perByte != 0 || block > 0 && cols%block != 0 {
		kit.Failf("%s: rows of %d weights of %d bits in blocks of %d", what, cols, bits, block)
	}
	q, scales, zeros := c.Array(at), c.Array(at+1), c.Array(zeroAt)
	kit.WantShape(what, q, e.count, rows, cols/perByte)
	if q.DType != ndarray.Uint8 || scales == nil || zeros != nil && zeros.DType != ndarray.Uint8 {
		kit.Failf("%s: weights and zero points are uint8, and scales must be given", what)
	}
	blocks, shape, zeroShape := 1, []int{e.count, rows}, []int{e.count, (rows + perByte - 1) / perByte}
	if block > 0 {
		blocks = cols / block
		shape = append(shape, blocks)
		zeroShape = []int{e.count, rows, (blocks + perByte - 1) / perByte}
	}
	kit.WantShape("scales of "+what, scales, shape...)
	kit.WantShape("zero points of "+what, zeros, zeroShape...)
	kit.WantShape("bias of "+what, c.Array(at+2), e.count, rows)
	u := unpacker{bits, perByte, rows, cols, blocks, block > 0, q.Data, nil, kit.Elements[float32](c, scales)}
	if zeros != nil {
		u.zeros = zeros.Data
	}
	return expertLayer{func(i int) []float32 { return u.weights(c, i) }, kit.Elements[float32](c, c.Array(at+2))}
}

// unpacker gives the weights of an expert as floats.
type unpacker struct {
	bits, perByte, rows, cols, blocks int
	blockwise                         bool // zero points are packed along blocks, not along rows
	q, zeros                          []byte
	scales                            []float32
}

// part is element i of packed bytes.
func (u *unpacker) part(b []byte, i int) float32 {
	return float32(b[i/u.perByte] >> (i % u.perByte * u.bits) & byte(1<<u.bits-1))
}

func (u unpacker) weights(c *ops.Call, expert int) []float32 {
	out := kit.Make[float32](c, u.rows*u.cols)
	q := u.q[expert*u.rows*u.cols/u.perByte:]
	width, w := u.cols/u.blocks, kit.Watching(c)
	for r := range u.rows {
		for b := range u.blocks {
			zero := float32(int(1) << (u.bits - 1))
			switch {
			case u.zeros != nil && u.blockwise:
				row := (u.blocks + u.perByte - 1) / u.perByte
				zero = u.part(u.zeros[(expert*u.rows+r)*row:], b)
			case u.zeros != nil:
				zero = u.part(u.zeros[expert*((u.rows+u.perByte-1)/u.perByte):], r)
			}
			scale := u.scales[(expert*u.rows+r)*u.blocks+b]
			for k := range width {
				w.Did(1)
				at := r*u.cols + b*width + k
				out[at] = (u.part(q, at) - zero) * scale
			}
		}
	}
	return out
}
