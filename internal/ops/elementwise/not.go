package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Not is logical negation: https://onnx.ai/onnx/operators/onnx__Not.html
var Not = withContent(unaryOp("Not", 1, "Y = !X", evalNot, kit.Since(1)), notContent).But(ops.ZeroSignIgnored, ops.Involutive)

func notContent(d ssa.Dim) ssa.Dim {
	if k, ok := d.Const(); ok {
		return truth(k == 0)
	}
	return ssa.Dim{}
}

func evalNot(c *ops.Call) {
	a := kit.Tensor(c, 0)
	if a.DType != ndarray.Bool {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	out := kit.Result(c, 0, ndarray.Bool, a.Shape...)
	kit.Convert(c, out.Data, a.Data, func(x uint8) uint8 { return 1 - min(x, 1) })
}
