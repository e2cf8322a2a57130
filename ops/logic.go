package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// logicOp is one of the binary operations on booleans.
func logicOp(name, doc string, f func(x, y bool) bool) Op {
	return Op{
		Name: name, Since: 7, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Infer:    rule(func(n *ssa.Node) []Inferred { return inferLogic(n, f) }),
		Eval:     kernel(func(c *Call) { evalLogic(c, f) }),
		Facts:    Facts{Elementwise: true, Commutative: true},
		Upgrades: legacyBroadcast(name),
	}
}

func inferLogic(n *ssa.Node, f func(x, y bool) bool) []Inferred {
	_ = sameDType(n, 0, 1)
	t := try(BroadcastTypes(ndarray.Bool, InType(n, 0), InType(n, 1)))
	return factOf(t, zipContent(n, t, func(x, y ssa.Dim) ssa.Dim { return logicContent(x, y, f) }))
}

// logicContent tries the values an unknown side could have: where all give the
// same result, that is known.
func logicContent(x, y ssa.Dim, f func(x, y bool) bool) ssa.Dim {
	var seen [2]bool
	for _, a := range truths(x) {
		for _, b := range truths(y) {
			if f(a, b) {
				seen[1] = true
			} else {
				seen[0] = true
			}
		}
	}
	switch {
	case seen[0] && seen[1]:
		return ssa.Dim{}
	case seen[1]:
		return ssa.D(1)
	}
	return ssa.D(0)
}

func truths(d ssa.Dim) []bool {
	if k, ok := d.Const(); ok {
		return []bool{k != 0}
	}
	return []bool{false, true}
}

func evalLogic(c *Call, f func(x, y bool) bool) {
	a, b := c.Array(0), c.Array(1)
	if a == nil || b == nil || a.DType != ndarray.Bool || b.DType != ndarray.Bool {
		failf("operands are not two tensors of booleans")
	}
	shape := try(BroadcastShapes(a.Shape, b.Shape))
	out := try(c.Output(0, ndarray.Bool, shape...))
	binary(out, a, b, func(x, y uint8) bool { return f(x != 0, y != 0) })
}

// And is logical conjunction: https://onnx.ai/onnx/operators/onnx__And.html
var And = logicOp("And", "C = A && B", func(x, y bool) bool { return x && y })

// Or is logical disjunction: https://onnx.ai/onnx/operators/onnx__Or.html
var Or = logicOp("Or", "C = A || B", func(x, y bool) bool { return x || y })

// Xor is logical inequality: https://onnx.ai/onnx/operators/onnx__Xor.html
var Xor = logicOp("Xor", "C = A != B", func(x, y bool) bool { return x != y })
