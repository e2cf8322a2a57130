package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Not is logical negation: https://onnx.ai/onnx/operators/onnx__Not.html
var Not = unaryOp("Not", 1, "Y = !X", evalNot, since(1)).following(notContent)

func notContent(d ssa.Dim) ssa.Dim {
	if k, ok := d.Const(); ok && k != 0 {
		return ssa.D(0)
	} else if ok {
		return ssa.D(1)
	}
	return ssa.Dim{}
}

func evalNot(c *Call) {
	a := needTensor(c, 0)
	if a.DType != ndarray.Bool {
		check(unsupportedType(a.DType))
	}
	out := try(c.Output(0, ndarray.Bool, a.Shape...))
	eachElem(out, a, func(x uint8) bool { return x == 0 })
}
