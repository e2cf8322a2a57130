package reduction

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// CumSum gives running sums along an axis: https://onnx.ai/onnx/operators/onnx__CumSum.html
//
//	exclusive  every result leaves its own element out, the first one is 0
//	reverse    runs from the end
//
// Narrow floats accumulate in float32, rounding only what is stored.
var CumSum = cumulativeOp("CumSum", 14, "Y[i] = Σ X[j], j ≤ i", step{addFloat, addInt}, 0,
	kit.FormBy(kit.From(11, kit.WideTypes|kit.TypesOf(ndarray.Float32, ndarray.Float64)), kit.From(14, kit.AnyType)))

// CumProd gives running products along an axis: https://onnx.ai/onnx/operators/onnx__CumProd.html
// exclusive and reverse are as in [CumSum]; the empty product is 1.
var CumProd = cumulativeOp("CumProd", 26, "Y[i] = Π X[j], j ≤ i", step{
	float: func(a, b float64) float64 { return a * b },
	int:   func(a, b int64) int64 { return a * b },
}, 1, kit.Since(26))

// step takes one more element into a sum or product.
type step struct {
	float func(acc, x float64) float64
	int   func(acc, x int64) int64
}

func cumulativeOp(name string, since int, doc string, s step, empty int64, form func(*ssa.Node) int) ops.Op {
	return ops.Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntAttr("exclusive", 0), ops.IntAttr("reverse", 0)},
		Infer: kit.Rule(inferCumulative), Eval: kit.Kernel(func(c *ops.Call) { evalCumulative(c, s, empty) }),
		Facts: ops.Facts{Traits: ops.PassingTraits, InPlace: kit.InPlaceFirst},
	}
}

func inferCumulative(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if axis, ok := ops.ConstInts(n, 1); ok && t.Ranked {
		if len(axis) != 1 {
			kit.Failf("operand 1 has %d elements, it must be one axis", len(axis))
		}
		kit.Try(ops.NormAxis(axis[0], len(t.Shape)))
	}
	return kit.Try(ops.SameAs(n))
}

func evalCumulative(c *ops.Call, s step, empty int64) {
	a := kit.Tensor(c, 0)
	axis := kit.Try(ops.NormAxis(kit.ScalarInt(c, 1), len(a.Shape)))
	if !a.DType.IsFloat() && !a.DType.IsInteger() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	p := cumulation{exclusive: ops.Int(c.Node, "exclusive") != 0, reverse: ops.Int(c.Node, "reverse") != 0}
	p.outer, p.size, p.inner = kit.SplitDims(a.Shape, axis)
	switch {
	case a.DType.IsInteger(): // unsigned sums and products have the same low bits
		cumulate(c, a, p, s.int, empty)
	case a.DType == ndarray.Float64:
		cumulate(c, a, p, s.float, float64(empty))
	default:
		cumulate(c, a, p, func(x, y float32) float32 { return float32(s.float(float64(x), float64(y))) }, float32(empty))
	}
}

// cumulation says which elements a result covers, along lines of size elements.
type cumulation struct {
	outer, size, inner int
	exclusive, reverse bool
}

// cumulate reads every element before it writes that place.
func cumulate[T kit.Number](c *ops.Call, a *ndarray.Array, p cumulation, step func(x, y T) T, empty T) {
	y, x := kit.NewResult[T](c, 0, a.DType, a.Shape...), kit.Elements[T](c, a)
	w := kit.Watching(c)
	for line := range p.outer * p.inner {
		at, by := line/p.inner*p.size*p.inner+line%p.inner, p.inner
		if p.reverse {
			at, by = at+(p.size-1)*p.inner, -p.inner
		}
		acc := empty
		for range p.size {
			w.Did(1)
			next := step(acc, x[at])
			y.V[at] = next
			if p.exclusive {
				y.V[at] = acc
			}
			acc = next
			at += by
		}
	}
	y.Store()
}
