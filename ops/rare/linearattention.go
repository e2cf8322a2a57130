package rare

import (
	"math"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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
var LinearAttention = ops.Op{
	Name: "LinearAttention", Since: 27, Doc: "S = exp(g)∘S + k⊗v, o = scale * Sᵀq over a sequence",
	MinIn: 3, MaxIn: 6, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.IntAttr("chunk_size", 64), ops.IntAttr("kv_num_heads").Mandatory().AtLeast(1),
		ops.IntAttr("q_num_heads").Mandatory().AtLeast(1), ops.FloatAttr("scale", 0), ops.StrAttr("update_rule", "gated_delta", "linear", "gated", "delta")},
	Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits, Cost: kit.LinearAttentionCost}, Infer: kit.Rule(inferLinearAttention), Eval: kit.Kernel(evalLinearAttention),
}

// inferLinearAttention: the state has past_state's element type, else the query's.
func inferLinearAttention(n *ssa.Node) []ops.Inferred {
	q, v := ops.InType(n, 0), ops.InType(n, 2)
	hq, hk := nn.HeadCounts(n, "q_num_heads")
	if q.Ranked && q.Rank() != 3 || v.Ranked && v.Rank() != 3 {
		kit.Failf("query %s and value %s must have rank 3", q, v)
	}
	kit.MatchShapes(n, "B T _", "B T K", "B T V", "B _ _ _", "B T _", "B T _")
	dv := kit.DimOf(v, 2).FloorDiv(ssa.D(hk))
	state := q.DType
	if n.Input(3) != nil {
		state = ops.InType(n, 3).DType
	}
	return []ops.Inferred{{Type: ssa.TensorOf(q.DType, kit.DimOf(q, 0), kit.DimOf(q, 1), dv.MulN(hq))},
		{Type: ssa.TensorOf(state, kit.DimOf(q, 0), ssa.D(hk), kit.DimOf(q, 2).FloorDiv(ssa.D(hq)), dv)}}
}

// linearRun is one evaluation of [LinearAttention].
type linearRun struct {
	Q, K, V           nn.Heads[float32]
	decay, beta       nn.Heads[float32]
	gated, correcting bool
	scale             float32
	watch             kit.Watch
	After             func(b, h, t int, state []float32) // sees the state after every position; may be nil
}

func evalLinearAttention(c *ops.Call) {
	a := newLinearRun(c)
	q, k, v := a.Q, a.K, a.V
	state := kit.Make[float32](c, k.Batch*k.N*k.Size*v.Size)
	dt := c.Array(0).DType
	if past := c.Array(3); past != nil {
		kit.WantShape("past_state", past, k.Batch, k.N, k.Size, v.Size)
		copy(state, kit.Elements[float32](c, past))
		dt = past.DType
	}
	y := kit.NewResult[float32](c, 0, c.Array(0).DType, q.Batch, q.Seq, q.N*v.Size)
	out := nn.Bsnh(y.V, q.Batch, q.Seq, q.N, v.Size)
	for i := range k.Batch * k.N {
		a.Head(i/k.N, i%k.N, state[i*k.Size*v.Size:][:k.Size*v.Size], out)
	}
	y.Store()
	kit.SetResult(c, 1, dt, []int{k.Batch, k.N, k.Size, v.Size}, state)
}

// newLinearRun checks the operands of a LinearAttention call.
func newLinearRun(c *ops.Call) *linearRun {
	hq, hk := int(ops.Int(c.Node, "q_num_heads")), int(ops.Int(c.Node, "kv_num_heads"))
	a := &linearRun{watch: kit.Watching(c)}
	for i, x := range []*nn.Heads[float32]{&a.Q, &a.K, &a.V} {
		n := hk
		if i == 0 {
			n = hq
		}
		kit.WantRank([]string{"query", "key", "value"}[i], c.Array(i), 3)
		*x = nn.HeadsOf[float32](c, []string{"query", "key", "value"}[i], c.Array(i), n)
	}
	q := a.Q
	if q.N > 0 && a.K.N%q.N == 0 { // more key heads than query heads: checked the other way round
		q.N = a.K.N
	}
	nn.CheckHeads(q, a.K, a.V)
	if a.Q.Seq != a.K.Seq {
		kit.Failf("query has %d positions, key %d", a.Q.Seq, a.K.Seq)
	}
	a.scale = float32(nn.ScaleOf(c.Node, a.Q.Size))
	a.readRule(c)
	return a
}

// readRule reads the update rule and the operands it needs.
func (a *linearRun) readRule(c *ops.Call) {
	rule := ops.Str(c.Node, "update_rule")
	a.gated, a.correcting = strings.HasPrefix(rule, "gated"), strings.HasSuffix(rule, "delta")
	if a.gated != c.Has(4) || a.correcting != c.Has(5) {
		kit.Failf("decay goes with the gated rules and beta with the delta rules, both only there")
	}
	if a.gated {
		a.decay = perToken(c, "decay", c.Array(4), a.K, a.K.N, a.K.N*a.K.Size)
	}
	if a.correcting {
		a.beta = perToken(c, "beta", c.Array(5), a.K, a.K.N, 1)
	}
}

// perToken views [B,T,width] as one vector per key head; width is either of two.
// A width of 1 is shared by all heads.
func perToken(c *ops.Call, what string, a *ndarray.Array, k nn.Heads[float32], w1, w2 int) nn.Heads[float32] {
	if a == nil || a.Rank() != 3 || a.Shape[0] != k.Batch || a.Shape[1] != k.Seq || a.Shape[2] != w1 && a.Shape[2] != w2 {
		kit.Failf("%s does not have shape [%d,%d,%d] or [%d,%d,%d]", what, k.Batch, k.Seq, w1, k.Batch, k.Seq, w2)
	}
	if a.Shape[2] == 1 {
		h := nn.Bsnh(kit.Elements[float32](c, a), k.Batch, k.Seq, 1, 1)
		h.N, h.PerHead = k.N, 0
		return h
	}
	return nn.Bsnh(kit.Elements[float32](c, a), k.Batch, k.Seq, k.N, a.Shape[2]/k.N)
}

// Head runs the recurrence of one key head and writes its query heads' results;
// where several key heads share a query head, its own result.
func (a *linearRun) Head(b, h int, state []float32, out nn.Heads[float32]) {
	dv, group, sharing := a.V.Size, max(a.Q.N/a.K.N, 1), max(a.K.N/a.Q.N, 1)
	v := make([]float32, dv)
	for t := range a.Q.Seq {
		a.watch.Did((4 + group) * len(state))
		k := a.K.At(b, h, t)
		copy(v, a.V.At(b, h, t))
		if a.gated {
			g := a.decay.At(b, h, t)
			for i := range k {
				f := float32(math.Exp(float64(g[i%len(g)])))
				for j := range dv {
					state[i*dv+j] *= f
				}
			}
		}
		if a.correcting {
			for i, e := range k {
				kit.AddScaled(v, -e, state[i*dv:(i+1)*dv])
			}
			beta := a.beta.At(b, h, t)[0]
			for j := range v {
				v[j] *= beta
			}
		}
		for i, e := range k {
			kit.AddScaled(state[i*dv:(i+1)*dv], e, v)
		}
		for g := range group {
			o := out.At(b, h*group+g, t)
			clear(o)
			for i, e := range a.Q.At(b, (h*group+g)/sharing, t) {
				kit.AddScaled(o, e*a.scale, state[i*dv:(i+1)*dv])
			}
		}
		if a.After != nil {
			a.After(b, h, t, state)
		}
	}
}
