package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// trainingDomain is the domain of the training operators.
const trainingDomain = "ai.onnx.preview.training"

// Adam does one update of the Adam optimizer:
// https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html
//
//	g = norm·X + G,  V' = α·V + (1-α)·g,  H' = β·H + (1-β)·g²
//	r = T > 0 ? R·√(1-βᵀ)/(1-αᵀ) : R
//	X' = (1 - norm_post)·(X - r·V'/(√H' + ε))
//
// Operands are R, T, then all X, all G, all V, all H; results all X', V', H'.
var Adam = Op{
	Domain: trainingDomain, Name: "Adam", Since: 1, Doc: "X' = X - r·V'/(√H' + ε)",
	MinIn: 3, MaxIn: -1, MinOut: 1, MaxOut: -1,
	Attrs: []AttrSpec{floatAttr("alpha", 0.9), floatAttr("beta", 0.999), floatAttr("epsilon", 1e-6),
		floatAttr("norm_coefficient", 0), floatAttr("norm_coefficient_post", 0)},
	Infer: rule(func(n *ssa.Node) []Inferred { return inferOptimizer(n, 4) }),
	Eval:  kernel(func(c *Call) { evalOptimizer(c, 4, adamStep) }),
	Facts: Facts{Traits: general, InPlace: func(n *ssa.Node) []Pair { return optimizerPairs(n, 4) }},
}

// Adagrad does one update of the Adagrad optimizer:
// https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adagrad.html
//
//	g = norm·X + G,  H' = H + g²,  X' = X - R/(1 + T·decay)·g/(√H' + ε)
//
// Operands are R, T, then all X, all G, all H; results all X', H'.
var Adagrad = Op{
	Domain: trainingDomain, Name: "Adagrad", Since: 1, Doc: "X' = X - r·g/(√H' + ε)",
	MinIn: 3, MaxIn: -1, MinOut: 1, MaxOut: -1,
	Attrs: []AttrSpec{floatAttr("decay_factor", 0), floatAttr("epsilon", 1e-6), floatAttr("norm_coefficient", 0)},
	Infer: rule(func(n *ssa.Node) []Inferred { return inferOptimizer(n, 3) }),
	Eval:  kernel(func(c *Call) { evalOptimizer(c, 3, adagradStep) }),
	Facts: Facts{Traits: general, InPlace: func(n *ssa.Node) []Pair { return optimizerPairs(n, 3) }},
}

// Momentum does one update of gradient descent with momentum:
// https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Momentum.html
//
//	g = norm·X + G,  V' = α·V + (T > 0 ? β : 1)·g
//	X' = X - R·V'  (standard)   or   X - R·(g + α·V')  (nesterov)
//
// Operands are R, T, then all X, all G, all V; results all X', V'.
var Momentum = Op{
	Domain: trainingDomain, Name: "Momentum", Since: 1, Doc: "X' = X - R·V'",
	MinIn: 3, MaxIn: -1, MinOut: 1, MaxOut: -1,
	Attrs: []AttrSpec{floatAttr("alpha").required(), floatAttr("beta").required(),
		strAttr("mode").required().oneOf("standard", "nesterov"), floatAttr("norm_coefficient").required()},
	Infer: rule(func(n *ssa.Node) []Inferred { return inferOptimizer(n, 3) }),
	Eval:  kernel(func(c *Call) { evalOptimizer(c, 3, momentumStep) }),
	Facts: Facts{Traits: general, InPlace: func(n *ssa.Node) []Pair { return optimizerPairs(n, 3) }},
}

// optimizerCount returns how many tensors a node updates; each has group
// operands (X, G and the rest) and group-1 results (no G).
func optimizerCount(n *ssa.Node, group int) (int, error) {
	k := (len(n.In) - 2) / group
	if k < 1 || len(n.In) != 2+k*group || len(n.Out) > k*(group-1) {
		return 0, fmt.Errorf("%d operands and %d results are not R, T and %d lists of one length", len(n.In), len(n.Out), group)
	}
	return k, nil
}

// optimizerOperand returns which operand has the same shape as result i.
func optimizerOperand(i, k int) int {
	if i >= k { // G lies between X and the rest
		i += k
	}
	return 2 + i
}

func inferOptimizer(n *ssa.Node, group int) []Inferred {
	k := try(optimizerCount(n, group))
	out := make([]Inferred, len(n.Out))
	for i := range out {
		out[i].Type = InType(n, optimizerOperand(i, k))
	}
	return out
}

func optimizerPairs(n *ssa.Node, group int) []Pair {
	k, err := optimizerCount(n, group)
	if err != nil {
		return nil
	}
	var out []Pair
	for i, v := range n.Out {
		if in := optimizerOperand(i, k); v != nil && sameLayout(InType(n, in), v.Type) {
			out = append(out, Pair{In: in, Out: i})
		}
	}
	return out
}

// optimizerStep returns the update of one element for learning rate r and count
// t: it replaces X and the accumulators in v, which holds X, G, ….
type optimizerStep func(n *ssa.Node, r float64, t int64) func(v []float64)

func evalOptimizer(c *Call, group int, makeStep optimizerStep) {
	k := try(optimizerCount(c.Node, group))
	r := tensor(c, 0)
	t := scalarInt(c, 1)
	if r.Len() != 1 || !r.DType.IsFloat() {
		failf("the learning rate is %s, it must be one number", r)
	}
	step := makeStep(c.Node, r.Float(0), t)
	for i := range k {
		updateTensor(c, i, k, group, step)
	}
}

// updateTensor applies the update to every element of tensor i of k.
func updateTensor(c *Call, i, k, group int, step func([]float64)) {
	x := tensor(c, 2+i)
	in, out := make([][]float64, group), make([]resultOf[float64], group)
	for g := range group {
		a := tensor(c, 2+g*k+i)
		if a.DType != x.DType || !slices.Equal(a.Shape, x.Shape) || !a.DType.IsFloat() {
			failf("operand %d is %s, the tensor it belongs to %s", 2+g*k+i, a, x)
		}
		in[g] = elements[float64](a)
		if g != 1 { // there is no new gradient
			out[g] = newResult[float64](c, max(g-1, 0)*k+i, a.DType, a.Shape...)
		}
	}
	v := make([]float64, group)
	for e := range x.Len() {
		for g := range v {
			v[g] = in[g][e]
		}
		step(v)
		for g := range v {
			if g != 1 {
				out[g].V[e] = v[g]
			}
		}
	}
	for g, y := range out {
		if g != 1 {
			y.store()
		}
	}
}

func adamStep(n *ssa.Node, r float64, t int64) func([]float64) {
	alpha, beta, eps := float64(Float(n, "alpha")), float64(Float(n, "beta")), float64(Float(n, "epsilon"))
	norm, post := float64(Float(n, "norm_coefficient")), float64(Float(n, "norm_coefficient_post"))
	if t > 0 {
		r *= math.Sqrt(1-math.Pow(beta, float64(t))) / (1 - math.Pow(alpha, float64(t)))
	}
	return func(v []float64) {
		g := norm*v[0] + v[1]
		v[2] = alpha*v[2] + (1-alpha)*g
		v[3] = beta*v[3] + (1-beta)*g*g
		v[0] = (1 - post) * (v[0] - r*v[2]/(math.Sqrt(v[3])+eps))
	}
}

func adagradStep(n *ssa.Node, r float64, t int64) func([]float64) {
	r /= 1 + float64(t)*float64(Float(n, "decay_factor"))
	norm, eps := float64(Float(n, "norm_coefficient")), float64(Float(n, "epsilon"))
	return func(v []float64) {
		g := norm*v[0] + v[1]
		v[2] += g * g
		v[0] -= r * g / (math.Sqrt(v[2]) + eps)
	}
}

func momentumStep(n *ssa.Node, r float64, t int64) func([]float64) {
	alpha, beta, norm := float64(Float(n, "alpha")), float64(Float(n, "beta")), float64(Float(n, "norm_coefficient"))
	mode := Str(n, "mode")
	if t <= 0 {
		beta = 1
	}
	return func(v []float64) {
		g := norm*v[0] + v[1]
		v[2] = alpha*v[2] + beta*g
		if mode == "nesterov" {
			g += alpha * v[2]
		} else {
			g = v[2]
		}
		v[0] -= r * g
	}
}
