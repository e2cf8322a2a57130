package ops

import "github.com/berth-onnx/berth/ssa"

// bitwiseOp is one of the bit operations on two integer tensors.
func bitwiseOp(name, doc string, i func(a, b int64) int64, u func(a, b uint64) uint64) Op {
	return Op{
		Name: name, Since: 18, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Infer: rule(inferArithmetic), Eval: kernel(arithmetic{int: i, uint: u}.eval),
		Facts: Facts{Elementwise: true, Commutative: true},
	}
}

// BitwiseAnd keeps common bits: https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html
var BitwiseAnd = bitwiseOp("BitwiseAnd", "C = A & B",
	func(a, b int64) int64 { return a & b }, func(a, b uint64) uint64 { return a & b })

// BitwiseOr joins bits: https://onnx.ai/onnx/operators/onnx__BitwiseOr.html
var BitwiseOr = bitwiseOp("BitwiseOr", "C = A | B",
	func(a, b int64) int64 { return a | b }, func(a, b uint64) uint64 { return a | b })

// BitwiseXor keeps differing bits: https://onnx.ai/onnx/operators/onnx__BitwiseXor.html
var BitwiseXor = bitwiseOp("BitwiseXor", "C = A ^ B",
	func(a, b int64) int64 { return a ^ b }, func(a, b uint64) uint64 { return a ^ b })

// BitwiseNot flips every bit: https://onnx.ai/onnx/operators/onnx__BitwiseNot.html
var BitwiseNot = unaryOp("BitwiseNot", 18, "Y = ^X", unary{
	int:  func(x int64) int64 { return ^x },
	uint: func(x uint64) uint64 { return ^x },
}.eval, since(18))

// BitShift shifts bits: https://onnx.ai/onnx/operators/onnx__BitShift.html
// A right shift of a signed element keeps its sign. Counts below 0 or beyond the
// width leave what the sign alone gives: -1 for a negative element shifted right,
// 0 otherwise.
var BitShift = Op{
	Name: "BitShift", Since: 28, Doc: "Z = X << Y or X >> Y",
	Form:  formBy(typeStep{11, unsignedTypes}, typeStep{28, anyType}),
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "direction", Kind: ssa.AttrString, Required: true}},
	Infer: rule(inferArithmetic), Eval: kernel(evalBitShift),
	Facts: Facts{Elementwise: true},
}

func evalBitShift(c *Call) {
	a := needTensor(c, 0)
	width := int64(8 * a.DType.Size())
	// A count outside [0, width) moves everything out.
	count := func(y int64) uint64 {
		if y < 0 || y >= width {
			return 64
		}
		return uint64(y)
	}
	switch dir := c.Node.Str("direction", ""); dir {
	case "LEFT":
		evalArithmetic(c, arithmetic{
			int:  func(x, y int64) int64 { return x << count(y) },
			uint: func(x, y uint64) uint64 { return x << count(int64(y)) },
		})
	case "RIGHT":
		evalArithmetic(c, arithmetic{
			int:  func(x, y int64) int64 { return x >> count(y) },
			uint: func(x, y uint64) uint64 { return x >> count(int64(y)) },
		})
	default:
		check(badAttr("direction", dir, "LEFT or RIGHT"))
	}
}
