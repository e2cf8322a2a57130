package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// CumSum gives running sums along an axis: https://onnx.ai/onnx/operators/onnx__CumSum.html
//
//	exclusive  every result leaves its own element out, the first one is 0
//	reverse    runs from the end
//
// Narrow floats accumulate in float32, rounding only what is stored.
var CumSum = cumulativeOp("CumSum", 14, "Y[i] = Σ X[j], j ≤ i", addition, 0,
	formBy(typeStep{11, wideTypes | typesOf(ndarray.Float32, ndarray.Float64)}, typeStep{14, anyType}))

// CumProd gives running products along an axis: https://onnx.ai/onnx/operators/onnx__CumProd.html
// exclusive and reverse are as in [CumSum]; the empty product is 1.
var CumProd = cumulativeOp("CumProd", 26, "Y[i] = Π X[j], j ≤ i", arithmetic{
	float: func(a, b float64) float64 { return a * b },
	int:   func(a, b int64) int64 { return a * b },
}, 1, since(26))

func cumulativeOp(name string, since int, doc string, step arithmetic, empty int64, form func(*ssa.Node) int) Op {
	return Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
		Attrs: []AttrSpec{intAttr("exclusive", 0), intAttr("reverse", 0)},
		Infer: rule(inferCumulative), Eval: kernel(func(c *Call) { evalCumulative(c, step, empty) }),
		Facts: Facts{Traits: passing, InPlace: inPlaceFirst},
	}
}

func inferCumulative(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if axis, ok := ConstInts(n, 1); ok && t.Ranked {
		if len(axis) != 1 {
			failf("operand 1 has %d elements, it must be one axis", len(axis))
		}
		try(NormAxis(axis[0], len(t.Shape)))
	}
	return try(SameAs(n))
}

func evalCumulative(c *Call, step arithmetic, empty int64) {
	a := tensor(c, 0)
	k := scalarInt(c, 1)
	axis := try(NormAxis(k, len(a.Shape)))
	if !a.DType.IsFloat() && !a.DType.IsInteger() {
		check(unsupportedType(a.DType))
	}
	p := cumulation{exclusive: Int(c.Node, "exclusive") != 0, reverse: Int(c.Node, "reverse") != 0}
	p.outer, p.size, p.inner = splitDims(a.Shape, axis)
	switch {
	case a.DType.IsInteger(): // unsigned sums and products have the same low bits
		cumulate(c, a, p, step.int, empty)
	case a.DType == ndarray.Float64:
		cumulate(c, a, p, step.float, float64(empty))
	default:
		cumulate(c, a, p, func(x, y float32) float32 { return float32(step.float(float64(x), float64(y))) }, float32(empty))
	}
}

// cumulation is the way through the lines along the axis.
type cumulation struct {
	outer, size, inner int
	exclusive, reverse bool
}

// cumulate reads every element before it writes that place.
func cumulate[T number](c *Call, a *ndarray.Array, p cumulation, step func(x, y T) T, empty T) {
	y, x := newResult[T](c, 0, a.DType, a.Shape...), elements[T](a)
	for line := range p.outer * p.inner {
		at, by := line/p.inner*p.size*p.inner+line%p.inner, p.inner
		if p.reverse {
			at, by = at+(p.size-1)*p.inner, -p.inner
		}
		acc := empty
		for range p.size {
			next := step(acc, x[at])
			y.V[at] = next
			if p.exclusive {
				y.V[at] = acc
			}
			acc = next
			at += by
		}
	}
	y.store()
}
