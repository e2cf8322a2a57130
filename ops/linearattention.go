package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// LinearAttention is attention with a recurrent state S [Dk,Dv] per key head
// instead of a cache: https://onnx.ai/onnx/operators/onnx__LinearAttention.html
//
//	S = exp(g)∘S                  gated, gated_delta (decay g per head or per key element)
//	v = beta * (v - Sᵀk)          delta, gated_delta
//	S = S + k⊗v
//	o = scale * Sᵀq
//
// The state is kept in float32. chunk_size is a hint and changes nothing.
var LinearAttention = Op{
	Name: "LinearAttention", Since: 27, Doc: "S = exp(g)∘S + k⊗v, o = scale * Sᵀq over a sequence",
	MinIn: 3, MaxIn: 6, MinOut: 1, MaxOut: 2,
	Attrs: []AttrSpec{intAttr("chunk_size", 64), intAttr("kv_num_heads").required(),
		intAttr("q_num_heads").required(), floatAttr("scale", 0), strAttr("update_rule", "gated_delta", "linear", "gated", "delta")},
	Facts: Facts{Traits: general, Cost: linearAttentionCost}, Infer: rule(inferLinearAttention), Eval: kernel(evalLinearAttention),
}

// inferLinearAttention: the state has past_state's element type, else the query's.
func inferLinearAttention(n *ssa.Node) []Inferred {
	q, v := InType(n, 0), InType(n, 2)
	hq, hk := Int(n, "q_num_heads"), Int(n, "kv_num_heads")
	if hk < 1 || hq < 1 || hq%hk != 0 {
		failf("%d query heads can not share %d key heads", hq, hk)
	}
	if q.Ranked && q.Rank() != 3 || v.Ranked && v.Rank() != 3 {
		failf("query %s and value %s must have rank 3", q, v)
	}
	dv := dimOf(v, 2).FloorDiv(ssa.D(hk))
	state := q.DType
	if n.Input(3) != nil {
		state = InType(n, 3).DType
	}
	return []Inferred{{Type: ssa.TensorOf(q.DType, dimOf(q, 0), dimOf(q, 1), dv.MulN(hq))},
		{Type: ssa.TensorOf(state, dimOf(q, 0), ssa.D(hk), dimOf(q, 2).FloorDiv(ssa.D(hq)), dv)}}
}

// linearRun is one evaluation of LinearAttention.
type linearRun struct {
	q, k, v           heads[float32]
	decay, beta       heads[float32]
	gated, correcting bool
	scale             float32
	after             func(b, h, t int, state []float32) // sees the state after every position; may be nil
}

func evalLinearAttention(c *Call) {
	a := newLinearRun(c)
	q, k, v := a.q, a.k, a.v
	state := make([]float32, k.batch*k.n*k.size*v.size)
	dt := c.Array(0).DType
	if past := c.Array(3); past != nil {
		wantShape("past_state", past, k.batch, k.n, k.size, v.size)
		copy(state, elements[float32](past))
		dt = past.DType
	}
	y := newResult[float32](c, 0, c.Array(0).DType, q.batch, q.seq, q.n*v.size)
	out := bsnh(y.V, q.batch, q.seq, q.n, v.size)
	for i := range k.batch * k.n {
		a.head(i/k.n, i%k.n, state[i*k.size*v.size:][:k.size*v.size], out)
	}
	y.store()
	setResult(c, 1, dt, []int{k.batch, k.n, k.size, v.size}, state)
}

func newLinearRun(c *Call) *linearRun {
	hq, hk := int(Int(c.Node, "q_num_heads")), int(Int(c.Node, "kv_num_heads"))
	a := &linearRun{}
	for i, x := range []*heads[float32]{&a.q, &a.k, &a.v} {
		n := hk
		if i == 0 {
			n = hq
		}
		wantRank([]string{"query", "key", "value"}[i], c.Array(i), 3)
		*x = headsOf[float32]([]string{"query", "key", "value"}[i], c.Array(i), n)
	}
	q := a.q
	if q.n > 0 && a.k.n%q.n == 0 { // more key heads than query heads: checked the other way round
		q.n = a.k.n
	}
	checkHeads(q, a.k, a.v)
	if a.q.seq != a.k.seq {
		failf("query has %d positions, key %d", a.q.seq, a.k.seq)
	}
	a.scale = Float(c.Node, "scale")
	if a.scale == 0 {
		a.scale = float32(1 / math.Sqrt(float64(a.q.size)))
	}
	a.readRule(c)
	return a
}

// readRule reads the update rule and the operands it needs.
func (a *linearRun) readRule(c *Call) {
	switch rule := Str(c.Node, "update_rule"); rule {
	case "linear":
	case "gated":
		a.gated = true
	case "delta":
		a.correcting = true
	case "gated_delta":
		a.gated, a.correcting = true, true
	default:
		failf("update_rule=%q is not linear, gated, delta or gated_delta", rule)
	}
	if a.gated != c.Has(4) || a.correcting != c.Has(5) {
		failf("decay goes with the gated rules and beta with the delta rules, both only there")
	}
	if a.gated {
		a.decay = perToken("decay", c.Array(4), a.k, a.k.n, a.k.n*a.k.size)
	}
	if a.correcting {
		a.beta = perToken("beta", c.Array(5), a.k, a.k.n, 1)
	}
}

// perToken views [B,T,width] as one vector per key head; width is either of two.
// A width of 1 is shared by all heads.
func perToken(what string, a *ndarray.Array, k heads[float32], w1, w2 int) heads[float32] {
	if a == nil || a.Rank() != 3 || a.Shape[0] != k.batch || a.Shape[1] != k.seq || a.Shape[2] != w1 && a.Shape[2] != w2 {
		failf("%s does not have shape [%d,%d,%d] or [%d,%d,%d]", what, k.batch, k.seq, w1, k.batch, k.seq, w2)
	}
	if a.Shape[2] == 1 {
		h := bsnh(elements[float32](a), k.batch, k.seq, 1, 1)
		h.n, h.perHead = k.n, 0
		return h
	}
	return bsnh(elements[float32](a), k.batch, k.seq, k.n, a.Shape[2]/k.n)
}

// head runs the recurrence of one key head and writes its query heads' results;
// where several key heads share a query head, its own result.
func (a *linearRun) head(b, h int, state []float32, out heads[float32]) {
	dv, group, sharing := a.v.size, max(a.q.n/a.k.n, 1), max(a.k.n/a.q.n, 1)
	v := make([]float32, dv)
	for t := range a.q.seq {
		k := a.k.at(b, h, t)
		copy(v, a.v.at(b, h, t))
		if a.gated {
			g := a.decay.at(b, h, t)
			for i := range k {
				f := float32(math.Exp(float64(g[i%len(g)])))
				for j := range dv {
					state[i*dv+j] *= f
				}
			}
		}
		if a.correcting {
			for i, e := range k {
				addScaled(v, -e, state[i*dv:(i+1)*dv])
			}
			beta := a.beta.at(b, h, t)[0]
			for j := range v {
				v[j] *= beta
			}
		}
		for i, e := range k {
			addScaled(state[i*dv:(i+1)*dv], e, v)
		}
		for g := range group {
			o := out.at(b, h*group+g, t)
			clear(o)
			for i, e := range a.q.at(b, (h*group+g)/sharing, t) {
				addScaled(o, e*a.scale, state[i*dv:(i+1)*dv])
			}
		}
		if a.after != nil {
			a.after(b, h, t, state)
		}
	}
}
