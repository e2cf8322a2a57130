package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// logicOp is one of the binary operations on booleans.
func logicOp(name, doc string, f func(x, y bool) bool) ops.Op {
	o := broadcasting(binaryOp(name, 7, doc, func(c *ops.Call) { evalLogic(c, f) }, nil, nil)).But(ops.Commutative, ops.ZeroSignIgnored)
	o.Infer = kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return inferTruth(n, func(x, y ssa.Dim) ssa.Dim { return logicContent(x, y, f) })
	})
	return o
}

// logicContent tries the values an unknown side could have: where all give the
// same result, that is known.
func logicContent(x, y ssa.Dim, f func(x, y bool) bool) ssa.Dim {
	var seen [2]bool
	for _, a := range truths(x) {
		for _, b := range truths(y) {
			seen[kit.Btoi(f(a, b))] = true
		}
	}
	if seen[0] && seen[1] {
		return ssa.Dim{}
	}
	return truth(seen[1])
}

func truths(d ssa.Dim) []bool {
	if k, ok := d.Const(); ok {
		return []bool{k != 0}
	}
	return []bool{false, true}
}

func evalLogic(c *ops.Call, f func(x, y bool) bool) {
	a, b, shape := operandPair(c)
	if a.DType != ndarray.Bool {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	out := kit.Result(c, 0, ndarray.Bool, shape...)
	z, x, y := ndarray.Slice[bool](out), ndarray.Slice[bool](a), ndarray.Slice[bool](b)
	kit.EachBroadcast(c, shape, a.Shape, b.Shape, func(o, i, j int) { z[o] = f(x[i], y[j]) })
}

// And is logical conjunction: https://onnx.ai/onnx/operators/onnx__And.html
var And = logicOp("And", "C = A && B", func(x, y bool) bool { return x && y }).But(ops.Idempotent)

// Or is logical disjunction: https://onnx.ai/onnx/operators/onnx__Or.html
var Or = logicOp("Or", "C = A || B", func(x, y bool) bool { return x || y }).But(ops.Idempotent)

// Xor is logical inequality: https://onnx.ai/onnx/operators/onnx__Xor.html
var Xor = logicOp("Xor", "C = A != B", func(x, y bool) bool { return x != y })
