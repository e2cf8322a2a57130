package ops

import (
	"math"
	"strings"

	"github.com/berth-onnx/berth/ssa"
)

// gateFunc is an activation function of a recurrent operator.
type gateFunc func(float64) float64

// gateSpec makes an activation from its alpha and beta; takes says how many of
// the two it uses.
type gateSpec struct {
	takes       int
	alpha, beta float64 // defaults
	build       func(a, b float64) gateFunc
}

func plainGate(f gateFunc) gateSpec {
	return gateSpec{build: func(_, _ float64) gateFunc { return f }}
}

// gateSpecs holds the activation functions of https://onnx.ai/onnx/operators/onnx__LSTM.html
// by lower-case name.
var gateSpecs = map[string]gateSpec{
	"relu":     plainGate(func(x float64) float64 { return max(x, 0) }),
	"tanh":     plainGate(math.Tanh),
	"sigmoid":  plainGate(sigmoid),
	"softsign": plainGate(func(x float64) float64 { return x / (1 + math.Abs(x)) }),
	"softplus": plainGate(func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }),
	"affine":   {2, 1, 0, func(a, b float64) gateFunc { return func(x float64) float64 { return a*x + b } }},
	"scaledtanh": {2, 1, 1, func(a, b float64) gateFunc {
		return func(x float64) float64 { return a * math.Tanh(b*x) }
	}},
	"hardsigmoid": {2, 0.2, 0.5, func(a, b float64) gateFunc {
		return func(x float64) float64 { return min(max(a*x+b, 0), 1) }
	}},
	"leakyrelu": {1, 0.01, 0, func(a, _ float64) gateFunc {
		return func(x float64) float64 {
			if x < 0 {
				return a * x
			}
			return x
		}
	}},
	"thresholdedrelu": {1, 1, 0, func(a, _ float64) gateFunc {
		return func(x float64) float64 {
			if x < a {
				return 0
			}
			return x
		}
	}},
	"elu": {1, 1, 0, func(a, _ float64) gateFunc {
		return func(x float64) float64 {
			if x < 0 {
				return a * math.Expm1(x)
			}
			return x
		}
	}},
}

// gateFuncs reads a node's activations: def for every direction if absent. Each
// function that has an alpha or beta takes the next of the attribute's values
// while there are any.
func gateFuncs(n *ssa.Node, def []string, dirs int) [][]gateFunc {
	names := n.Strings("activations")
	if len(names) == 0 {
		for range dirs {
			names = append(names, def...)
		}
	}
	if len(names) != dirs*len(def) {
		failf("%d activations for %d directions, expected %d each", len(names), dirs, len(def))
	}
	alphas, betas := n.Floats("activation_alpha"), n.Floats("activation_beta")
	next := func(list *[]float32, def float64) float64 {
		if len(*list) == 0 {
			return def
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return float64(v)
	}
	out := make([][]gateFunc, dirs)
	for i, name := range names {
		spec, ok := gateSpecs[strings.ToLower(name)]
		if !ok {
			failf("activation %q: %w", name, ErrUnsupported)
		}
		a, b := spec.alpha, spec.beta
		if spec.takes > 0 {
			a = next(&alphas, a)
		}
		if spec.takes > 1 {
			b = next(&betas, b)
		}
		out[i/len(def)] = append(out[i/len(def)], spec.build(a, b))
	}
	return out
}
