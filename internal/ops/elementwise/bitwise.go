package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// bitwiseOp is one of the bit operations on two integer tensors.
func bitwiseOp(name, doc string, i func(a, b int64) int64, u func(a, b uint64) uint64) ops.Op {
	return binaryOp(name, 18, doc, binary{int: i, uint: u}.eval, nil, nil).But(ops.Commutative, ops.ZeroSignIgnored)
}

// BitwiseAnd keeps common bits: https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html
var BitwiseAnd = bitwiseOp("BitwiseAnd", "C = A & B",
	func(a, b int64) int64 { return a & b }, func(a, b uint64) uint64 { return a & b }).But(ops.Idempotent)

// BitwiseOr joins bits: https://onnx.ai/onnx/operators/onnx__BitwiseOr.html
var BitwiseOr = bitwiseOp("BitwiseOr", "C = A | B",
	func(a, b int64) int64 { return a | b }, func(a, b uint64) uint64 { return a | b }).But(ops.Idempotent, ops.UnitZero)

// BitwiseXor keeps differing bits: https://onnx.ai/onnx/operators/onnx__BitwiseXor.html
var BitwiseXor = bitwiseOp("BitwiseXor", "C = A ^ B",
	func(a, b int64) int64 { return a ^ b }, func(a, b uint64) uint64 { return a ^ b }).But(ops.UnitZero)

// BitwiseNot flips every bit: https://onnx.ai/onnx/operators/onnx__BitwiseNot.html
var BitwiseNot = unaryOp("BitwiseNot", 18, "Y = ^X", unary{
	int:  func(x int64) int64 { return ^x },
	uint: func(x uint64) uint64 { return ^x },
}.eval, kit.Since(18)).But(ops.ZeroSignIgnored, ops.Involutive)

// BitShift shifts bits: https://onnx.ai/onnx/operators/onnx__BitShift.html
// A right shift of a signed element keeps its sign. Counts below 0 or beyond the
// width leave what the sign alone gives: -1 for a negative element shifted right,
// 0 otherwise.
var BitShift = kit.WithAttrs(binaryOp("BitShift", 28, "Z = X << Y or X >> Y", evalBitShift, nil,
	kit.FormBy(kit.From(11, kit.UnsignedTypes), kit.From(28, kit.AnyType))),
	ops.StrAttr("direction").Mandatory().Among("LEFT", "RIGHT")).But(ops.UnitZero, ops.ZeroSignIgnored)

func evalBitShift(c *ops.Call) {
	a := kit.Tensor(c, 0)
	width := int64(8 * a.DType.Size())
	// A count outside [0, width) moves everything out.
	count := func(y int64) uint64 {
		if y < 0 || y >= width {
			return 64
		}
		return uint64(y)
	}
	shift := binary{
		int:  func(x, y int64) int64 { return x >> count(y) },
		uint: func(x, y uint64) uint64 { return x >> count(int64(y)) },
	}
	if ops.Str(c.Node, "direction") == "LEFT" {
		shift = binary{
			int:  func(x, y int64) int64 { return x << count(y) },
			uint: func(x, y uint64) uint64 { return x << count(int64(y)) },
		}
	}
	shift.eval(c)
}
