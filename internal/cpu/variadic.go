package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Operators that fold any number of operands: two of them are an operation of two
// operands, more float32 ones a tile program, so that the result may overwrite any
// operand.

var variadicOps = []entry{
	{op: "Sum", prepare: variadic("Add", simd.Add, opAdd, false)},
	{op: "Mean", prepare: variadic("Add", simd.Add, opAdd, true)},
	{op: "Max", prepare: variadic("Max", simd.Max, opMax, false)},
	{op: "Min", prepare: variadic("Min", simd.Min, opMin, false)},
}

func variadic(name tile.Op, f simd.BinaryOp, op binaryOp, mean bool) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		switch {
		case len(p.in) == 1:
			return newCopy(p.in[0])
		case len(p.in) == 2 && !mean:
			return arithmetic(f, op)(p)
		case !p.allF32():
			return nil, nil
		}
		return p.group(folded(p, name, mean))
	}
}

// folded is the program of an operation on all operands from the first on.
func folded(p *prep, op tile.Op, mean bool) *tile.Program {
	t := p.program()
	acc := tile.Ref(0)
	for i := 1; i < len(p.in); i++ {
		acc = t.Add(tile.Instr{Op: op, DType: ndarray.Float32, Args: []tile.Ref{acc, tile.Ref(i)}})
	}
	if mean {
		n := t.Number(ndarray.Float32, float64(len(p.in)))
		acc = t.Add(tile.Instr{Op: "Div", DType: ndarray.Float32, Args: []tile.Ref{acc, n}})
	}
	t.Store(acc)
	return t
}

// program is a tile program over all operands, still without instructions.
func (p *prep) program() *tile.Program {
	t := &tile.Program{}
	for _, x := range p.in {
		t.Operands = append(t.Operands, x.dt)
	}
	return t
}
