package cpu

import (
	"github.com/berth-onnx/berth/backend/cpu/kern"
)

// activation is a function applied to the elements of a result before they are
// stored.
type activation struct {
	op     kern.UnaryOp
	p0, p1 float32
}

// activations are the names that fused operators use: those of ONNX Runtime, and
// in the same manner the other elementwise functions with a vector kernel. The
// numbers are the default parameters.
var activations = map[string]activation{
	"":            {op: kern.Identity},
	"Identity":    {op: kern.Identity},
	"Relu":        {op: kern.Relu},
	"Clip":        {op: kern.Clip, p0: minFloat, p1: maxFloat},
	"LeakyRelu":   {op: kern.LeakyRelu, p0: 0.01},
	"HardSigmoid": {op: kern.HardSigmoid, p0: 0.2, p1: 0.5},
	"HardSwish":   {op: kern.HardSwish},
	"Sigmoid":     {op: kern.Sigmoid},
	"Tanh":        {op: kern.Tanh},
	"Elu":         {op: kern.Elu, p0: 1},
	"Silu":        {op: kern.Silu, p0: 1},
	"Swish":       {op: kern.Silu, p0: 1},
	"QuickGelu":   {op: kern.Silu, p0: 1.702},
	"Gelu":        {op: kern.Gelu},
	"GeluTanh":    {op: kern.GeluTanh},
	"Softplus":    {op: kern.Softplus},
	"Softsign":    {op: kern.Softsign},
	"Mish":        {op: kern.Mish},
}

const (
	minFloat = -3.40282346638528859811704183484516925440e+38
	maxFloat = -minFloat
)

// activation reads the attributes activation and activation_params, or
// activation_alpha and activation_beta; ok is false for an unknown function.
func (p *prep) activation() (a activation, ok bool) {
	a, ok = activations[p.node.Str("activation", "")]
	if params := p.node.Floats("activation_params"); len(params) > 0 {
		a.p0 = params[0]
		if len(params) > 1 {
			a.p1 = params[1]
		}
		return a, ok
	}
	a.p0 = p.node.Float("activation_alpha", a.p0)
	a.p1 = p.node.Float("activation_beta", a.p1)
	return a, ok
}

// into sets the activation of an epilogue.
func (a activation) into(e *kern.Epilogue) { e.Act, e.P0, e.P1 = a.op, a.p0, a.p1 }
