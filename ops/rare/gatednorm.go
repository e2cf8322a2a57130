package rare

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Root-mean-square norms with gates, of the com.microsoft domain. All compute in
// float32 and round once:
//
//	rms(x) = x / sqrt(mean(x²) + epsilon) * scale

// GatedRMSNorm normalizes groups of as many elements as scale has and multiplies
// by an activated gate.
var GatedRMSNorm = ops.Op{
	Domain: contrib.Microsoft, Name: "GatedRMSNorm", Since: 1, Doc: "Y = rms(X) * activation(gate)",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("activation", "silu", "swish", "sigmoid"), ops.FloatAttr("epsilon", 1e-5)},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.NormCost}, Eval: kit.FloatKernel(evalGatedRMS, nil),
}

func evalGatedRMS(c *ops.Call) {
	x, scale, gate := c.Array(0), c.Array(1), c.Array(2)
	kit.WantRank("scale", scale, 1)
	width := scale.Len()
	if x.Rank() < 1 || width < 1 || x.Shape[x.Rank()-1]%width != 0 {
		kit.Failf("X has shape %v, which does not split into groups of %d", x.Shape, width)
	}
	kit.WantShape("gate", gate, x.Shape...)
	act := kit.Silu
	if ops.Str(c.Node, "activation") == "sigmoid" {
		act = kit.Sigmoid
	}
	y := kit.NewResult[float32](c, 0, x.DType, x.Shape...)
	v, g := kit.Elements[float32](c, x), kit.Copy(c, kit.Elements[float32](c, gate))
	rmsGroups(c, y.V, v, width, float64(ops.Float(c.Node, "epsilon")))
	nn.ScaleShift(c, y.V, kit.Elements[float32](c, scale), nil)
	w := kit.Watching(c)
	for i := range y.V {
		w.Did(1)
		y.V[i] *= float32(act(float64(g[i])))
	}
	y.Store()
}

// rmsGroups normalizes every group of width elements; y and x may be the same.
func rmsGroups(c *ops.Call, y, x []float32, width int, eps float64) {
	w := kit.Watching(c)
	for i := 0; i+width <= len(x) && width > 0; i += width {
		nn.Standardize(&w, y[i:i+width], x[i:i+width], eps, false)
	}
}

// BranchwiseRMSNorm normalizes every stream by itself; see streams.go for their
// layouts.
var BranchwiseRMSNorm = ops.Op{
	Domain: contrib.Microsoft, Name: "BranchwiseRMSNorm", Since: 1, Doc: "Y = rms(X) along every branch",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-5), numBranches},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
	Eval: kit.FloatKernel(func(c *ops.Call) {
		x := c.Array(0)
		s := streamsOf(c.Node, x.Shape)
		scale := c.Array(1)
		if scale != nil && scale.Len() != s.width && scale.Len() != s.branches*s.width {
			kit.Failf("scale has shape %v for %d branches of %d", scale.Shape, s.branches, s.width)
		}
		y := kit.NewResult[float32](c, 0, x.DType, x.Shape...)
		rmsGroups(c, y.V, kit.Elements[float32](c, x), s.width, float64(ops.Float(c.Node, "epsilon")))
		nn.ScaleShift(c, y.V, kit.Elements[float32](c, scale), nil)
		y.Store()
	}, nil),
}

// EngramGate gates a value by how well normalized keys and queries agree:
//
//	dot  = sum(rms(key) * rms(query)) / sqrt(H)
//	gate = sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6)))
//	output = gate * value          gated_value_normed = rms(output)
//
// Keys and queries are [B,S,M,H], the value [B,S,H] is shared by the M of them.
var EngramGate = ops.Op{
	Domain: contrib.Microsoft, Name: "EngramGate", Since: 1, Doc: "output = sigmoid(±√|rms(key)·rms(query)/√H|) * value",
	MinIn: 5, MaxIn: 6, MinOut: 1, MaxOut: 2, Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-5)},
	Infer: kit.Rule(kit.FirstType(2)), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.NormCost}, Eval: kit.FloatKernel(evalEngramGate, nil),
}

func evalEngramGate(c *ops.Call) {
	key := c.Array(0)
	kit.WantRank("key", key, 4)
	b, s, m, h := key.Shape[0], key.Shape[1], key.Shape[2], key.Shape[3]
	for i, want := range [][]int{{b, s, m, h}, {b, s, h}, {m, h}, {m, h}, {m, h}} {
		kit.WantShape([]string{"query", "value", "key_norm_scale", "query_norm_scale", "conv_norm_scale"}[i], c.Array(1+i), want...)
	}
	if c.Wants(1) && !c.Has(5) {
		kit.Failf("gated_value_normed needs conv_norm_scale")
	}
	eps := float64(ops.Float(c.Node, "epsilon"))
	normed := func(a, scale *ndarray.Array) []float32 {
		out := kit.Copy(c, kit.Elements[float32](c, a))
		rmsGroups(c, out, out, h, eps)
		nn.ScaleShift(c, out, kit.Elements[float32](c, scale), nil)
		return out
	}
	k, q, value := normed(key, c.Array(3)), normed(c.Array(1), c.Array(4)), kit.Elements[float32](c, c.Array(2))
	y := kit.NewResult[float32](c, 0, key.DType, key.Shape...)
	w := kit.Watching(c)
	for r := range b * s * m {
		w.Did(2 * h)
		d := 0.0
		for i := r * h; i < (r+1)*h; i++ {
			d += float64(k[i]) * float64(q[i])
		}
		d /= math.Sqrt(float64(h))
		gate := kit.Sigmoid(math.Copysign(math.Sqrt(math.Max(math.Abs(d), 1e-6)), d))
		if d == 0 {
			gate = 0.5
		}
		for i := range h {
			y.V[r*h+i] = float32(gate) * value[r/m*h+i]
		}
	}
	if c.Wants(1) {
		out := kit.Copy(c, y.V)
		kit.RoundTo(c, out, key.DType)
		rmsGroups(c, out, out, h, eps)
		nn.ScaleShift(c, out, kit.Elements[float32](c, c.Array(5)), nil)
		kit.SetResult(c, 1, key.DType, key.Shape, out)
	}
	y.Store()
}

// LinearAttentionGate makes the gates of LinearAttention's gated delta rule:
//
//	decay = decay_scale * softplus(a + dt_bias)        beta = sigmoid(b)
var LinearAttentionGate = ops.Op{
	Domain: contrib.Microsoft, Name: "LinearAttentionGate", Since: 1, Doc: "decay = decay_scale * softplus(a + dt_bias); beta = sigmoid(b)",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 2,
	Infer: kit.Rule(kit.FirstType(2)), Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.FloatKernel(func(c *ops.Call) {
		a := c.Array(0)
		if a.Rank() < 1 {
			kit.Failf("a is a scalar")
		}
		heads := a.Shape[a.Rank()-1]
		for i, what := range []string{"dt_bias", "decay_scale"} {
			kit.WantShape(what, kit.Tensor(c, 1+i), heads)
		}
		kit.WantShape("b", c.Array(3), a.Shape...)
		if c.Wants(1) {
			beta := kit.Copy(c, kit.Elements[float32](c, kit.Tensor(c, 3)))
			kit.Activate(c, beta, kit.Sigmoid)
			kit.SetResult(c, 1, a.DType, a.Shape, beta)
		}
		y := kit.NewResult[float32](c, 0, a.DType, a.Shape...)
		bias, scale := kit.Elements[float32](c, c.Array(1)), kit.Elements[float32](c, c.Array(2))
		w := kit.Watching(c)
		for i, v := range kit.Elements[float32](c, a) {
			w.Did(1)
			y.V[i] = scale[i%heads] * float32(kit.Softplus(float64(v+bias[i%heads])))
		}
		y.Store()
	}, nil),
}
