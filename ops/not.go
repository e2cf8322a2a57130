package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Not is logical negation: https://onnx.ai/onnx/operators/onnx__Not.html
var Not = unaryOp("Not", 1, "Y = !X", evalNot, since(1)).following(notContent).but(ZeroSignIgnored, Involutive)

func notContent(d ssa.Dim) ssa.Dim {
	if k, ok := d.Const(); ok && k != 0 {
		return ssa.D(0)
	} else if ok {
		return ssa.D(1)
	}
	return ssa.Dim{}
}

func evalNot(c *Call) {
	a := tensor(c, 0)
	if a.DType != ndarray.Bool {
		check(unsupportedType(a.DType))
	}
	out := result(c, 0, ndarray.Bool, a.Shape...)
	convert(out.Data, a.Data, func(x uint8) uint8 { return 1 - min(x, 1) })
}
