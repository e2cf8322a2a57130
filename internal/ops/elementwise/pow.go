package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Pow raises to a power: https://onnx.ai/onnx/operators/onnx__Pow.html
// The result has the type of the base; the exponent may have another.
// Integer powers of integers are exact (wrapping); for a negative exponent they
// are the truncated quotient, 0 for base 0.
var Pow = func() ops.Op {
	o := broadcasting(binaryOp("Pow", 15, "Z = X^Y", evalPow, nil, powForm)).But(ops.UnitOne, ops.FailsIntegers)
	o.Infer = kit.Rule(inferPow)
	return o
}()

func powForm(n *ssa.Node) int {
	x, y := ops.InType(n, 0).DType, ops.InType(n, 1).DType
	if x == y && kit.FloatTypes.Has(x) {
		return 7
	}
	return max(kit.VersionFor(x, kit.From(12, kit.FloatTypes|kit.IntegerTypes), kit.From(13, kit.AnyType)),
		kit.VersionFor(y, kit.From(12, kit.FloatTypes|kit.IntegerTypes), kit.From(15, kit.AnyType)))
}

func inferPow(n *ssa.Node) []ops.Inferred {
	t := kit.Try(ops.BroadcastTypes(ops.InType(n, 0).DType, ops.InType(n, 0), ops.InType(n, 1)))
	return kit.FactOf(t, powContent(n, t))
}

// powContent follows small constant powers.
func powContent(n *ssa.Node, t ssa.Type) []ssa.Dim {
	if !kit.TracksContent(t.DType) {
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

func evalPow(c *ops.Call) {
	x, y := kit.Tensor(c, 0), kit.Tensor(c, 1)
	for _, a := range []*ndarray.Array{x, y} {
		if !a.DType.IsFloat() && !a.DType.IsInteger() {
			kit.Check(kit.UnsupportedType(a.DType))
		}
	}
	shape := kit.Try(ops.BroadcastShapes(x.Shape, y.Shape))
	switch {
	case x.DType.IsFloat():
		combine(c, x, y, shape, math.Pow)
	case y.DType.IsInteger():
		combine(c, x, y, shape, intPow)
	default:
		out, u, v := kit.Result(c, 0, x.DType, shape...), kit.Elements[float64](c, x), kit.Elements[float64](c, y)
		kit.EachBroadcast(c, shape, x.Shape, y.Shape, func(o, i, j int) { out.SetFloat(o, math.Pow(u[i], v[j])) })
	}
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
