package kit

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// RealFunc is a function of one number.
type RealFunc = func(float64) float64

// Silu is x times its sigmoid.
func Silu(x float64) float64 { return x * Sigmoid(x) }

// HardSwish is x times its hard sigmoid with alpha 1/6 and beta 1/2.
func HardSwish(x float64) float64 { return x * Clamp01(x/6+0.5) }

func softsign(x float64) float64 { return x / (1 + math.Abs(x)) }

// LeakyRelu scales negative numbers.
func LeakyRelu(alpha float64) RealFunc {
	return func(x float64) float64 {
		if x < 0 {
			return alpha * x
		}
		return x
	}
}

// Elu is alpha·(eˣ-1) for negative numbers.
func Elu(alpha float64) RealFunc {
	return func(x float64) float64 {
		if x < 0 {
			return alpha * math.Expm1(x)
		}
		return x
	}
}

// atLeast is 0 below a limit.
func atLeast(limit float64) RealFunc {
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
	build       func(a, b float64) RealFunc
}

func plain(f RealFunc) activation {
	return activation{build: func(_, _ float64) RealFunc { return f }}
}

// activations holds the named activation functions by lower-case name: those of
// https://onnx.ai/onnx/operators/onnx__LSTM.html
var activations = map[string]activation{
	"relu":            plain(func(x float64) float64 { return max(x, 0) }),
	"tanh":            plain(math.Tanh),
	"sigmoid":         plain(Sigmoid),
	"softsign":        plain(softsign),
	"softplus":        plain(Softplus),
	"affine":          {2, 1, 0, func(a, b float64) RealFunc { return func(x float64) float64 { return a*x + b } }},
	"scaledtanh":      {2, 1, 1, func(a, b float64) RealFunc { return func(x float64) float64 { return a * math.Tanh(b*x) } }},
	"hardsigmoid":     {2, 0.2, 0.5, func(a, b float64) RealFunc { return func(x float64) float64 { return Clamp01(a*x + b) } }},
	"leakyrelu":       {1, 0.01, 0, func(a, _ float64) RealFunc { return LeakyRelu(a) }},
	"thresholdedrelu": {1, 1, 0, func(a, _ float64) RealFunc { return atLeast(a) }},
	"elu":             {1, 1, 0, func(a, _ float64) RealFunc { return Elu(a) }},
}

// Gate is the activation of a gate of a recurrent layer: its name in lower case, and its parameters.
type Gate struct {
	Name        string
	Alpha, Beta float64
}

// Gates reads a node's activations by direction: def for every direction if absent. Each
// function that has an alpha or beta takes the next of the attribute's values
// while there are any.
func Gates(n *ssa.Node, def []string, dirs int) ([][]Gate, error) {
	names := ops.Strings(n, "activations")
	if len(names) == 0 {
		for range dirs {
			names = append(names, def...)
		}
	}
	if len(names) != dirs*len(def) {
		return nil, fmt.Errorf("%d activations for %d directions, expected %d each", len(names), dirs, len(def))
	}
	alphas, betas := ops.Floats(n, "activation_alpha"), ops.Floats(n, "activation_beta")
	next := func(list *[]float32, def float64) float64 {
		if len(*list) == 0 {
			return def
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return float64(v)
	}
	out := make([][]Gate, dirs)
	for i, name := range names {
		g := Gate{Name: strings.ToLower(name)}
		spec, ok := activations[g.Name]
		if !ok {
			return nil, fmt.Errorf("activation %q: %w", name, ops.ErrUnsupported)
		}
		g.Alpha, g.Beta = spec.alpha, spec.beta
		if spec.takes > 0 {
			g.Alpha = next(&alphas, g.Alpha)
		}
		if spec.takes > 1 {
			g.Beta = next(&betas, g.Beta)
		}
		out[i/len(def)] = append(out[i/len(def)], g)
	}
	return out, nil
}

// GateFunctions are the functions of [Gates].
func GateFunctions(n *ssa.Node, def []string, dirs int) [][]RealFunc {
	gates, err := Gates(n, def, dirs)
	if err != nil {
		Failf("%w", err)
	}
	out := make([][]RealFunc, dirs)
	for d, list := range gates {
		for _, g := range list {
			out[d] = append(out[d], activations[g.Name].build(g.Alpha, g.Beta))
		}
	}
	return out
}

// FusedActivation returns the activation that a fused operator ends with; params
// are its alpha, beta and gamma as far as they are given, an empty name is none.
func FusedActivation(name string, params []float32) func(float64) float64 {
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
		f := Elu(at(0, SeluAlpha))
		gamma := at(1, SeluGamma)
		return func(x float64) float64 { return gamma * f(x) }
	case "gelu":
		return Gelu
	case "hardswish":
		return HardSwish
	case "silu", "swish":
		return Silu
	}
	spec, ok := activations[strings.ToLower(name)]
	if !ok {
		Failf("activation %q: %w", name, ops.ErrUnsupported)
	}
	return spec.build(at(0, spec.alpha), at(1, spec.beta))
}

// Activate applies f, if there is one, to every element.
func Activate[T RealNum](c *ops.Call, v []T, f func(float64) float64) {
	if f == nil {
		return
	}
	w := Watching(c)
	for i, x := range v {
		w.Did(1)
		v[i] = T(f(float64(x)))
	}
}

// Defaults of Selu: the fixed point of the activation's mean and variance.
const (
	SeluAlpha = 1.67326319217681884765625
	SeluGamma = 1.05070102214813232421875
)

// EvalBiased applies f to operand 0 plus the optional vector operand 1.
func EvalBiased(c *ops.Call, f func(float64) float64) {
	ByFloat(c, func(c *ops.Call) { biased[float32](c, f) }, func(c *ops.Call) { biased[float64](c, f) })
}

func biased[T RealNum](c *ops.Call, f func(float64) float64) {
	x := c.Array(0)
	bias := Spread[T](c, "bias", c.Array(1), x.Shape)
	y := NewResult[T](c, 0, x.DType, x.Shape...)
	w := Watching(c)
	for i, v := range Elements[T](c, x) {
		w.Did(1)
		if bias != nil {
			v += bias[i%len(bias)]
		}
		y.V[i] = T(f(float64(v)))
	}
	y.Store()
}
