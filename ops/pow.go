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
var Pow = func() Op {
	o := binaryOp("Pow", 15, "Z = X^Y", evalPow, nil, powForm).broadcasting().but(UnitOne, FailsIntegers)
	o.Infer = rule(inferPow)
	return o
}()

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
	x, y := tensor(c, 0), tensor(c, 1)
	for _, a := range []*ndarray.Array{x, y} {
		if !a.DType.IsFloat() && !a.DType.IsInteger() {
			check(unsupportedType(a.DType))
		}
	}
	shape := try(BroadcastShapes(x.Shape, y.Shape))
	switch {
	case x.DType.IsFloat():
		combine(c, x, y, shape, pow)
	case y.DType.IsInteger():
		combine(c, x, y, shape, intPow)
	default:
		out, u, v := result(c, 0, x.DType, shape...), elements[float64](x), elements[float64](y)
		EachBroadcast(shape, x.Shape, y.Shape, func(o, i, j int) { out.SetInt(o, truncToInt64(pow(u[i], v[j]))) })
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
