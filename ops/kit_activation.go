package ops

import (
	"math"
	"strings"

	"github.com/berth-onnx/berth/ssa"
)

// realFunc is a function of one number.
type realFunc = func(float64) float64

// sigmoid is 1/(1+e⁻ˣ). For large -x the exponential overflows to infinity and
// the quotient is 0, as it should be.
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// silu is x times its sigmoid.
func silu(x float64) float64 { return x * sigmoid(x) }

// clamp01 limits x to [0, 1]; NaN stays.
func clamp01(x float64) float64 { return max(0, min(1, x)) }

// hardSwish is x times its hard sigmoid with alpha 1/6 and beta 1/2.
func hardSwish(x float64) float64 { return x * clamp01(x/6+0.5) }

// softplus is ln(1+eˣ), arranged so that nothing overflows:
// max(x, 0) + ln(1 + e^-|x|).
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func softsign(x float64) float64 { return x / (1 + math.Abs(x)) }

// gelu uses erfc, which keeps its digits where 1+erf would cancel.
func gelu(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }

// geluTanh is the approximation of gelu by tanh.
func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// leakyRelu scales negative numbers.
func leakyRelu(alpha float64) realFunc {
	return func(x float64) float64 {
		if x < 0 {
			return alpha * x
		}
		return x
	}
}

// elu is alpha·(eˣ-1) for negative numbers.
func elu(alpha float64) realFunc {
	return func(x float64) float64 {
		if x < 0 {
			return alpha * math.Expm1(x)
		}
		return x
	}
}

// atLeast is 0 below a limit.
func atLeast(limit float64) realFunc {
	return func(x float64) float64 {
		if x < limit {
			return 0
		}
		return x
	}
}

// activation makes a named function from its alpha and beta; takes says how many
// of the two it uses.
type activation struct {
	takes       int
	alpha, beta float64 // defaults
	build       func(a, b float64) realFunc
}

func plain(f realFunc) activation {
	return activation{build: func(_, _ float64) realFunc { return f }}
}

// activations holds the named activation functions by lower-case name: those of
// https://onnx.ai/onnx/operators/onnx__LSTM.html
var activations = map[string]activation{
	"relu":            plain(func(x float64) float64 { return max(x, 0) }),
	"tanh":            plain(math.Tanh),
	"sigmoid":         plain(sigmoid),
	"softsign":        plain(softsign),
	"softplus":        plain(softplus),
	"affine":          {2, 1, 0, func(a, b float64) realFunc { return func(x float64) float64 { return a*x + b } }},
	"scaledtanh":      {2, 1, 1, func(a, b float64) realFunc { return func(x float64) float64 { return a * math.Tanh(b*x) } }},
	"hardsigmoid":     {2, 0.2, 0.5, func(a, b float64) realFunc { return func(x float64) float64 { return clamp01(a*x + b) } }},
	"leakyrelu":       {1, 0.01, 0, func(a, _ float64) realFunc { return leakyRelu(a) }},
	"thresholdedrelu": {1, 1, 0, func(a, _ float64) realFunc { return atLeast(a) }},
	"elu":             {1, 1, 0, func(a, _ float64) realFunc { return elu(a) }},
}

// gateFunctions reads a node's activations: def for every direction if absent. Each
// function that has an alpha or beta takes the next of the attribute's values
// while there are any.
func gateFunctions(n *ssa.Node, def []string, dirs int) [][]realFunc {
	names := Strings(n, "activations")
	if len(names) == 0 {
		for range dirs {
			names = append(names, def...)
		}
	}
	if len(names) != dirs*len(def) {
		failf("%d activations for %d directions, expected %d each", len(names), dirs, len(def))
	}
	alphas, betas := Floats(n, "activation_alpha"), Floats(n, "activation_beta")
	next := func(list *[]float32, def float64) float64 {
		if len(*list) == 0 {
			return def
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return float64(v)
	}
	out := make([][]realFunc, dirs)
	for i, name := range names {
		spec, ok := activations[strings.ToLower(name)]
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

// fusedActivation returns the activation that a fused operator ends with; params
// are its alpha, beta and gamma as far as they are given, an empty name is none.
func fusedActivation(name string, params []float32) func(float64) float64 {
	at := func(i int, def float64) float64 {
		if i < len(params) {
			return float64(params[i])
		}
		return def
	}
	switch strings.ToLower(name) {
	case "":
		return nil
	case "clip":
		lo, hi := at(0, -3.4028234663852886e38), at(1, 3.4028234663852886e38)
		return func(x float64) float64 { return max(lo, min(hi, x)) }
	case "selu":
		f := elu(at(0, seluAlpha))
		gamma := at(1, seluGamma)
		return func(x float64) float64 { return gamma * f(x) }
	case "gelu":
		return gelu
	case "hardswish":
		return hardSwish
	case "silu", "swish":
		return silu
	}
	spec, ok := activations[strings.ToLower(name)]
	if !ok {
		failf("activation %q: %w", name, ErrUnsupported)
	}
	return spec.build(at(0, spec.alpha), at(1, spec.beta))
}

// activate applies f, if there is one, to every element.
func activate[T realNum](v []T, f func(float64) float64) {
	if f == nil {
		return
	}
	for i, x := range v {
		v[i] = T(f(float64(x)))
	}
}

// Defaults of Selu: the fixed point of the activation's mean and variance.
const (
	seluAlpha = 1.67326319217681884765625
	seluGamma = 1.05070102214813232421875
)

// evalBiased applies f to operand 0 plus the optional vector operand 1.
func evalBiased(c *Call, f func(float64) float64) {
	byFloat(c, func(c *Call) { biased[float32](c, f) }, func(c *Call) { biased[float64](c, f) })
}

func biased[T realNum](c *Call, f func(float64) float64) {
	x := c.Array(0)
	bias := spread[T]("bias", c.Array(1), x.Shape)
	y := newResult[T](c, 0, x.DType, x.Shape...)
	for i, v := range elements[T](x) {
		if bias != nil {
			v += bias[i%len(bias)]
		}
		y.V[i] = T(f(float64(v)))
	}
	y.store()
}
