package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// Root-mean-square norms with gates, of the com.microsoft domain. All compute in
// float32 and round once:
//
//	rms(x) = x / sqrt(mean(x²) + epsilon) * scale

// GatedRMSNorm normalizes groups of as many elements as scale has and multiplies
// by an activated gate.
var GatedRMSNorm = Op{
	Domain: microsoft, Name: "GatedRMSNorm", Since: 1, Doc: "Y = rms(X) * activation(gate)",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{strAttr("activation", "silu", "swish", "sigmoid"), floatAttr("epsilon", 1e-5)},
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: normCost}, Eval: floatKernel(evalGatedRMS, nil),
}

func evalGatedRMS(c *Call) {
	x, scale, gate := c.Array(0), c.Array(1), c.Array(2)
	wantRank("scale", scale, 1)
	width := scale.Len()
	if x.Rank() < 1 || width < 1 || x.Shape[x.Rank()-1]%width != 0 {
		failf("X has shape %v, which does not split into groups of %d", x.Shape, width)
	}
	wantShape("gate", gate, x.Shape...)
	var act func(float64) float64
	switch name := Str(c.Node, "activation"); name {
	case "silu", "swish":
		act = silu
	case "sigmoid":
		act = sigmoid
	default:
		failf("activation=%q is not silu, swish or sigmoid", name)
	}
	y := newResult[float32](c, 0, x.DType, x.Shape...)
	v, g := elements[float32](x), append([]float32{}, elements[float32](gate)...)
	rmsGroups(y.V, v, width, float64(Float(c.Node, "epsilon")))
	scaleShift(y.V, elements[float32](scale), nil)
	for i := range y.V {
		y.V[i] *= float32(act(float64(g[i])))
	}
	y.store()
}

// rmsGroups normalizes every group of width elements; y and x may be the same.
func rmsGroups(y, x []float32, width int, eps float64) {
	for i := 0; i+width <= len(x) && width > 0; i += width {
		standardize(y[i:i+width], x[i:i+width], eps, false)
	}
}

// BranchwiseRMSNorm normalizes every stream by itself; see ms_streams.go for their
// layouts.
var BranchwiseRMSNorm = Op{
	Domain: microsoft, Name: "BranchwiseRMSNorm", Since: 1, Doc: "Y = rms(X) along every branch",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatAttr("epsilon", 1e-5), intAttr("num_branches", 0)},
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: normCost},
	Eval: floatKernel(func(c *Call) {
		x := c.Array(0)
		s := streamsOf(c.Node, x.Shape)
		scale := c.Array(1)
		if scale != nil && scale.Len() != s.width && scale.Len() != s.branches*s.width {
			failf("scale has shape %v for %d branches of %d", scale.Shape, s.branches, s.width)
		}
		y := newResult[float32](c, 0, x.DType, x.Shape...)
		rmsGroups(y.V, elements[float32](x), s.width, float64(Float(c.Node, "epsilon")))
		scaleShift(y.V, elements[float32](scale), nil)
		y.store()
	}, nil),
}

// EngramGate gates a value by how well normalized keys and queries agree:
//
//	dot  = sum(rms(key) * rms(query)) / sqrt(H)
//	gate = sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6)))
//	output = gate * value          gated_value_normed = rms(output)
//
// Keys and queries are [B,S,M,H], the value [B,S,H] is shared by the M of them.
var EngramGate = Op{
	Domain: microsoft, Name: "EngramGate", Since: 1, Doc: "output = sigmoid(±√|rms(key)·rms(query)/√H|) * value",
	MinIn: 5, MaxIn: 6, MinOut: 1, MaxOut: 2, Attrs: []AttrSpec{floatAttr("epsilon", 1e-5)},
	Infer: rule(firstType(2)), Facts: Facts{Traits: general, Cost: normCost}, Eval: floatKernel(evalEngramGate, nil),
}

func evalEngramGate(c *Call) {
	key := c.Array(0)
	wantRank("key", key, 4)
	b, s, m, h := key.Shape[0], key.Shape[1], key.Shape[2], key.Shape[3]
	for i, want := range [][]int{1: {b, s, m, h}, 2: {b, s, h}, 3: {m, h}, 4: {m, h}, 5: {m, h}} {
		if want != nil {
			wantShape([]string{"", "query", "value", "key_norm_scale", "query_norm_scale", "conv_norm_scale"}[i], c.Array(i), want...)
		}
	}
	if c.Wants(1) && !c.Has(5) {
		failf("gated_value_normed needs conv_norm_scale")
	}
	eps := float64(Float(c.Node, "epsilon"))
	normed := func(a, scale *ndarray.Array) []float32 {
		out := append([]float32{}, elements[float32](a)...)
		rmsGroups(out, out, h, eps)
		scaleShift(out, elements[float32](scale), nil)
		return out
	}
	k, q, value := normed(key, c.Array(3)), normed(c.Array(1), c.Array(4)), elements[float32](c.Array(2))
	y := newResult[float32](c, 0, key.DType, key.Shape...)
	for r := range b * s * m {
		d := 0.0
		for i := r * h; i < (r+1)*h; i++ {
			d += float64(k[i]) * float64(q[i])
		}
		d /= math.Sqrt(float64(h))
		gate := sigmoid(math.Copysign(math.Sqrt(math.Max(math.Abs(d), 1e-6)), d))
		if d == 0 {
			gate = 0.5
		}
		for i := range h {
			y.V[r*h+i] = float32(gate) * value[r/m*h+i]
		}
	}
	if c.Wants(1) {
		out := append([]float32{}, y.V...)
		roundTo(out, key.DType)
		rmsGroups(out, out, h, eps)
		scaleShift(out, elements[float32](c.Array(5)), nil)
		setResult(c, 1, key.DType, key.Shape, out)
	}
	y.store()
}

// LinearAttentionGate makes the gates of LinearAttention's gated delta rule:
//
//	decay = decay_scale * softplus(a + dt_bias)        beta = sigmoid(b)
var LinearAttentionGate = Op{
	Domain: microsoft, Name: "LinearAttentionGate", Since: 1, Doc: "decay = decay_scale * softplus(a + dt_bias); beta = sigmoid(b)",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 2,
	Infer: rule(firstType(2)), Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: floatKernel(func(c *Call) {
		a, b := c.Array(0), c.Array(3)
		if a.Rank() < 1 {
			failf("a is a scalar")
		}
		heads := a.Shape[a.Rank()-1]
		for i, what := range []string{"dt_bias", "decay_scale"} {
			wantShape(what, tensor(c, 1+i), heads)
		}
		wantShape("b", b, a.Shape...)
		if c.Wants(1) {
			if b == nil {
				failf("beta needs b")
			}
			beta := append([]float32{}, elements[float32](b)...)
			for i, v := range beta {
				beta[i] = float32(sigmoid(float64(v)))
			}
			setResult(c, 1, a.DType, a.Shape, beta)
		}
		y := newResult[float32](c, 0, a.DType, a.Shape...)
		bias, scale := elements[float32](c.Array(1)), elements[float32](c.Array(2))
		for i, v := range elements[float32](a) {
			y.V[i] = scale[i%heads] * float32(softplus(float64(v+bias[i%heads])))
		}
		y.store()
	}, nil),
}
