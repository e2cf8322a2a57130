package ops

// bitwiseOp is one of the bit operations on two integer tensors.
func bitwiseOp(name, doc string, i func(a, b int64) int64, u func(a, b uint64) uint64) Op {
	return binaryOp(name, 18, doc, arithmetic{int: i, uint: u}.eval, nil, nil).but(Commutative, ZeroSignIgnored)
}

// BitwiseAnd keeps common bits: https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html
var BitwiseAnd = bitwiseOp("BitwiseAnd", "C = A & B",
	func(a, b int64) int64 { return a & b }, func(a, b uint64) uint64 { return a & b }).but(Idempotent)

// BitwiseOr joins bits: https://onnx.ai/onnx/operators/onnx__BitwiseOr.html
var BitwiseOr = bitwiseOp("BitwiseOr", "C = A | B",
	func(a, b int64) int64 { return a | b }, func(a, b uint64) uint64 { return a | b }).but(Idempotent, UnitZero)

// BitwiseXor keeps differing bits: https://onnx.ai/onnx/operators/onnx__BitwiseXor.html
var BitwiseXor = bitwiseOp("BitwiseXor", "C = A ^ B",
	func(a, b int64) int64 { return a ^ b }, func(a, b uint64) uint64 { return a ^ b }).but(UnitZero)

// BitwiseNot flips every bit: https://onnx.ai/onnx/operators/onnx__BitwiseNot.html
var BitwiseNot = unaryOp("BitwiseNot", 18, "Y = ^X", unary{
	int:  func(x int64) int64 { return ^x },
	uint: func(x uint64) uint64 { return ^x },
}.eval, since(18)).but(ZeroSignIgnored, Involutive)

// BitShift shifts bits: https://onnx.ai/onnx/operators/onnx__BitShift.html
// A right shift of a signed element keeps its sign. Counts below 0 or beyond the
// width leave what the sign alone gives: -1 for a negative element shifted right,
// 0 otherwise.
var BitShift = binaryOp("BitShift", 28, "Z = X << Y or X >> Y", evalBitShift, nil, formBy(typeStep{11, unsignedTypes}, typeStep{28, anyType})).
	with(strAttr("direction").required().oneOf("LEFT", "RIGHT")).but(UnitZero, ZeroSignIgnored)

func evalBitShift(c *Call) {
	a := tensor(c, 0)
	width := int64(8 * a.DType.Size())
	// A count outside [0, width) moves everything out.
	count := func(y int64) uint64 {
		if y < 0 || y >= width {
			return 64
		}
		return uint64(y)
	}
	switch dir := Str(c.Node, "direction"); dir {
	case "LEFT":
		arithmetic{
			int:  func(x, y int64) int64 { return x << count(y) },
			uint: func(x, y uint64) uint64 { return x << count(int64(y)) },
		}.eval(c)
	case "RIGHT":
		arithmetic{
			int:  func(x, y int64) int64 { return x >> count(y) },
			uint: func(x, y uint64) uint64 { return x >> count(int64(y)) },
		}.eval(c)
	default:
		check(badAttr("direction", dir, "LEFT or RIGHT"))
	}
}
