package training

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
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
var Adam = optimizer("Adam", "X' = X - r·V'/(√H' + ε)", 4, adamStep,
	ops.FloatAttr("alpha", 0.9), ops.FloatAttr("beta", 0.999), ops.FloatAttr("epsilon", 1e-6),
	ops.FloatAttr("norm_coefficient", 0), ops.FloatAttr("norm_coefficient_post", 0))

// optimizer is an operator that updates tensors, each with group operands.
func optimizer(name, doc string, group int, step optimizerStep, attrs ...*ops.AttrSpec) ops.Op {
	return ops.Op{
		Domain: trainingDomain, Name: name, Since: 1, Doc: doc,
		MinIn: 3, MaxIn: -1, MinOut: 1, MaxOut: -1, Attrs: attrs,
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return inferOptimizer(n, group) }),
		Eval:  kit.Kernel(func(c *ops.Call) { evalOptimizer(c, group, step) }),
		Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: func(n *ssa.Node) []ops.Pair { return optimizerPairs(n, group) }},
	}
}

// Adagrad does one update of the Adagrad optimizer:
// https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adagrad.html
//
//	g = norm·X + G,  H' = H + g²,  X' = X - R/(1 + T·decay)·g/(√H' + ε)
//
// Operands are R, T, then all X, all G, all H; results all X', H'.
var Adagrad = optimizer("Adagrad", "X' = X - r·g/(√H' + ε)", 3, adagradStep,
	ops.FloatAttr("decay_factor", 0), ops.FloatAttr("epsilon", 1e-6), ops.FloatAttr("norm_coefficient", 0))

// Momentum does one update of gradient descent with momentum:
// https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Momentum.html
//
//	g = norm·X + G,  V' = α·V + (T > 0 ? β : 1)·g
//	X' = X - R·V'  (standard)   or   X - R·(g + α·V')  (nesterov)
//
// Operands are R, T, then all X, all G, all V; results all X', V'.
var Momentum = optimizer("Momentum", "X' = X - R·V'", 3, momentumStep,
	ops.FloatAttr("alpha").Mandatory(), ops.FloatAttr("beta").Mandatory(),
	ops.StrAttr("mode").Mandatory().Among("standard", "nesterov"), ops.FloatAttr("norm_coefficient").Mandatory())

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

func inferOptimizer(n *ssa.Node, group int) []ops.Inferred {
	k := kit.Try(optimizerCount(n, group))
	out := make([]ops.Inferred, len(n.Out))
	for i := range out {
		out[i].Type = ops.InType(n, optimizerOperand(i, k))
	}
	return out
}

func optimizerPairs(n *ssa.Node, group int) []ops.Pair {
	k, err := optimizerCount(n, group)
	if err != nil {
		return nil
	}
	var out []ops.Pair
	for i, v := range n.Out {
		if in := optimizerOperand(i, k); v != nil && ops.SameLayout(ops.InType(n, in), v.Type) {
			out = append(out, ops.Pair{In: in, Out: i})
		}
	}
	return out
}

// optimizerStep returns the update of one element for learning rate r and count
// t: it replaces X and the accumulators in v, which holds X, G, ….
type optimizerStep func(n *ssa.Node, r float64, t int64) func(v []float64)

func evalOptimizer(c *ops.Call, group int, makeStep optimizerStep) {
	k := kit.Try(optimizerCount(c.Node, group))
	r := kit.Tensor(c, 0)
	t := kit.ScalarInt(c, 1)
	if r.Len() != 1 || !r.DType.IsFloat() {
		kit.Failf("the learning rate is %s, it must be one number", r)
	}
	step := makeStep(c.Node, r.Float(0), t)
	for i := range k {
		updateTensor(c, i, k, group, step)
	}
}

// updateTensor applies the update to every element of tensor i of k.
func updateTensor(c *ops.Call, i, k, group int, step func([]float64)) {
	x := kit.Tensor(c, 2+i)
	in, out := make([][]float64, group), make([]kit.ResultOf[float64], group)
	for g := range group {
		a := kit.Tensor(c, 2+g*k+i)
		if a.DType != x.DType || !slices.Equal(a.Shape, x.Shape) || !a.DType.IsFloat() {
			kit.Failf("operand %d is %s, the tensor it belongs to %s", 2+g*k+i, a, x)
		}
		in[g] = kit.Elements[float64](c, a)
		if g != 1 { // there is no new gradient
			out[g] = kit.NewResult[float64](c, max(g-1, 0)*k+i, a.DType, a.Shape...)
		}
	}
	v := kit.Make[float64](c, group)
	w := kit.Watching(c)
	for e := range x.Len() {
		w.Did(1)
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
			y.Store()
		}
	}
}

func adamStep(n *ssa.Node, r float64, t int64) func([]float64) {
	alpha, beta, eps := float64(ops.Float(n, "alpha")), float64(ops.Float(n, "beta")), float64(ops.Float(n, "epsilon"))
	norm, post := float64(ops.Float(n, "norm_coefficient")), float64(ops.Float(n, "norm_coefficient_post"))
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
	r /= 1 + float64(t)*float64(ops.Float(n, "decay_factor"))
	norm, eps := float64(ops.Float(n, "norm_coefficient")), float64(ops.Float(n, "epsilon"))
	return func(v []float64) {
		g := norm*v[0] + v[1]
		v[2] += g * g
		v[0] -= r * g / (math.Sqrt(v[2]) + eps)
	}
}

func momentumStep(n *ssa.Node, r float64, t int64) func([]float64) {
	alpha, beta, norm := float64(ops.Float(n, "alpha")), float64(ops.Float(n, "beta")), float64(ops.Float(n, "norm_coefficient"))
	mode := ops.Str(n, "mode")
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
