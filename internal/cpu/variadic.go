package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/ops"
)

// Operators that fold any number of operands: two of them are an operation of two
// operands, more float32 ones an expression, so that the result may overwrite any
// operand.

var variadicOps = []entry{
	{op: "Sum", prepare: variadic(simd.Add, opAdd, false)},
	{op: "Mean", prepare: variadic(simd.Add, opAdd, true)},
	{op: "Max", prepare: variadic(simd.Max, opMax, false)},
	{op: "Min", prepare: variadic(simd.Min, opMin, false)},
}

func variadic(f simd.BinaryOp, op binaryOp, mean bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		switch {
		case len(p.in) == 1:
			return newCopy(p.in[0])
		case len(p.in) == 2 && !mean:
			return arithmetic(f, op)(p)
		case !p.allF32():
			return nil, nil
		}
		e := p.expr()
		acc := leafRef(0)
		for i := range p.in[1:] {
			e.steps = append(e.steps, binaryStep(f, acc, leafRef(i+1)))
			acc = stepRef(i)
		}
		if mean {
			e.steps = append(e.steps, binaryStep(simd.Div, acc, constantRef(float32(len(p.in)))))
		}
		return p.tape(e), nil
	}
}

// expr is an expression over all operands, still without steps.
func (p *prep) expr() expr {
	e := expr{shape: p.out[0].shape}
	for _, x := range p.in {
		e.leaves = append(e.leaves, x.shape)
	}
	return e
}

// tape prepares an expression, the node's only workspace; nil if it is too large.
func (p *prep) tape(e expr) ops.Kernel {
	t := newTape(e, p.threads)
	if t == nil {
		return nil
	}
	p.workspace(t.scratch())
	return t
}
