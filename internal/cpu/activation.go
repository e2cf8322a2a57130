package cpu

import (
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/cpu/epilogue"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ops"
)

// activation is a function applied to the elements of a result before they are
// stored.
type activation struct {
	op     simd.UnaryOp
	p0, p1 float32
}

// activations are the names that fused operators use, in lower case, with the
// default parameters.
var activations = map[string]activation{
	"":            {op: simd.Identity},
	"relu":        {op: simd.Relu},
	"clip":        {op: simd.Clip, p0: minFloat, p1: maxFloat},
	"leakyrelu":   {op: simd.LeakyRelu, p0: 0.01},
	"hardsigmoid": {op: simd.HardSigmoid, p0: 0.2, p1: 0.5},
	"hardswish":   {op: simd.HardSwish},
	"sigmoid":     {op: simd.Sigmoid},
	"tanh":        {op: simd.Tanh},
	"elu":         {op: simd.Elu, p0: 1},
	"silu":        {op: simd.Silu, p0: 1},
	"swish":       {op: simd.Silu, p0: 1},
	"gelu":        {op: simd.Gelu},
	"softplus":    {op: simd.Softplus},
	"softsign":    {op: simd.Softsign},
}

const (
	minFloat = -3.40282346638528859811704183484516925440e+38
	maxFloat = -minFloat
)

// activation reads the attribute activation with activation_params, or with
// activation_alpha and activation_beta, or the epilogue of a product; ok is false for an
// unknown function.
func (p *prep) activation() (a activation, ok bool) {
	if fused.HasEpilogue(p.node) {
		e, ok := epilogue.Of(p.node)
		return activation{e.Act, e.P0, e.P1}, ok
	}
	a, ok = activations[strings.ToLower(ops.Str(p.node, "activation"))]
	params := ops.Floats(p.node, "activation_params")
	for _, name := range []string{"activation_alpha", "activation_beta"} {
		if len(params) > 1 || !p.node.Has(name) {
			break
		}
		params = append(slices.Clip(params), ops.Float(p.node, name))
	}
	switch {
	case a.op == simd.Silu: // has no parameter here
	case len(params) > 1:
		a.p0, a.p1 = params[0], params[1]
	case len(params) > 0:
		a.p0 = params[0]
	}
	return a, ok
}

// into sets the activation of an epilogue.
func (a activation) into(e *simd.Epilogue) { e.Act, e.P0, e.P1 = a.op, a.p0, a.p1 }
