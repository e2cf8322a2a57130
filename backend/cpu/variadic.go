package cpu

import (
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Operators that fold any number of operands: two of them are an operation of two
// operands, more float32 ones an expression, so that the result may take the place
// of any operand.

var variadicOps = []entry{
	{op: "Sum", prepare: variadic(kern.Add, opAdd, false)},
	{op: "Mean", prepare: variadic(kern.Add, opAdd, true)},
	{op: "Max", prepare: variadic(kern.Max, opMax, false)},
	{op: "Min", prepare: variadic(kern.Min, opMin, false)},
}

func variadic(f kern.BinaryOp, op binaryOp, mean bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		switch {
		case len(p.in) == 1:
			return newCopy(p.in[0])
		case len(p.in) == 2 && !mean:
			return arithmetic(f, op)(p)
		case len(p.in) > maxOperands || !p.allF32():
			return nil, nil
		}
		e := p.expr()
		acc := LeafRef(0)
		for i := range p.in[1:] {
			e.Steps = append(e.Steps, Step{Kind: StepBinary, Binary: f, A: acc, B: LeafRef(i + 1)})
			acc = StepRef(i)
		}
		if mean {
			e.Steps = append(e.Steps, Step{Kind: StepBinary, Binary: kern.Div, A: acc, B: Number(float32(len(p.in)))})
		}
		return p.tape(e)
	}
}

// expr is an expression over all operands, still without steps.
func (p *prep) expr() Expr {
	e := Expr{Shape: p.out[0].shape, Result: ndarray.Float32}
	for _, x := range p.in {
		e.Leaves = append(e.Leaves, Leaf{Shape: x.shape, DType: x.dt})
	}
	return e
}

// tape prepares an expression and reserves its workspace.
func (p *prep) tape(e Expr) (ops.Kernel, error) {
	t, err := NewTape(e, p.threads)
	if err != nil {
		return nil, err
	}
	p.workspace(t.Scratch())
	return t, nil
}
