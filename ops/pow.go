package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Pow raises to a power: https://onnx.ai/onnx/operators/onnx__Pow.html
// The result has the type of the base; the exponent may have another.
// Integer powers of integers are exact (wrapping); for a negative exponent they
// are the truncated quotient, 0 for base 0.
var Pow = Op{
	Name: "Pow", Since: 15, Doc: "Z = X^Y", Form: powForm,
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(inferPow), Eval: kernel(evalPow),
	Facts:    Facts{Elementwise: true},
	Upgrades: legacyBroadcast("Pow"),
}

func powForm(n *ssa.Node) int {
	x, y := InType(n, 0).DType, InType(n, 1).DType
	if x == y && floatTypes.has(x) {
		return 7
	}
	return max(versionFor(x, typeStep{12, floatTypes | integerTypes}, typeStep{13, anyType}),
		versionFor(y, typeStep{12, floatTypes | integerTypes}, typeStep{15, anyType}))
}

func inferPow(n *ssa.Node) []Inferred {
	t := try(BroadcastTypes(InType(n, 0).DType, InType(n, 0), InType(n, 1)))
	return factOf(t, powContent(n, t))
}

// powContent follows small constant powers.
func powContent(n *ssa.Node, t ssa.Type) []ssa.Dim {
	if !followed(t.DType) {
		return nil
	}
	return zipContent(n, t, func(x, y ssa.Dim) ssa.Dim {
		k, ok := y.Const()
		if !ok || k < 0 || k > 4 {
			return ssa.Dim{}
		}
		p := ssa.D(1)
		for range k {
			p = p.Mul(x)
		}
		return p
	})
}

func evalPow(c *Call) {
	x, y := c.Array(0), c.Array(1)
	if x == nil || y == nil {
		failf("operands are not two tensors")
	}
	shape := try(BroadcastShapes(x.Shape, y.Shape))
	if !x.DType.IsFloat() && !x.DType.IsInteger() {
		check(unsupportedType(x.DType))
	}
	if !y.DType.IsFloat() && !y.DType.IsInteger() {
		check(unsupportedType(y.DType))
	}
	out := try(c.Output(0, x.DType, shape...))
	switch {
	case x.DType == ndarray.Float32 && y.DType == ndarray.Float32:
		binary(out, x, y, viaFloat64x2(pow))
	case x.DType.IsInteger() && y.DType.IsInteger():
		EachBroadcast(shape, x.Shape, y.Shape, func(o, i, j int) { out.SetInt(o, intPow(x.Int(i), y.Int(j))) })
	case x.DType.IsInteger():
		read := floatReader(y)
		EachBroadcast(shape, x.Shape, y.Shape, func(o, i, j int) {
			out.SetInt(o, truncToInt64(pow(x.Float(i), read(j))))
		})
	default:
		readX, readY, write := floatReader(x), floatReader(y), floatWriter(out)
		EachBroadcast(shape, x.Shape, y.Shape, func(o, i, j int) { write(o, pow(readX(i), readY(j))) })
	}
}

// pow takes the short way for squares, by far the most frequent power.
func pow(x, y float64) float64 {
	if y == 2 {
		return x * x
	}
	return math.Pow(x, y)
}

// intPow is x^y by repeated squaring, wrapping around.
func intPow(x, y int64) int64 {
	if y < 0 {
		switch {
		case x == 1, x == -1 && y%2 == 0:
			return 1
		case x == -1:
			return -1
		}
		return 0
	}
	p := int64(1)
	for ; y > 0; y >>= 1 {
		if y&1 == 1 {
			p *= x
		}
		x *= x
	}
	return p
}
