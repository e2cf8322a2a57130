package ops

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// MeanVarianceNormalization standardizes over the listed axes:
// https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html
//
//	Y = (X - mean(X)) / (sqrt(mean(X²) - mean(X)²) + 1e-9)
var MeanVarianceNormalization = Op{
	Name: "MeanVarianceNormalization", Since: 13, Form: sinceTypes(9, 13, ndarray.BFloat16), Doc: "Y = (X - EX) / sqrt(E(X - EX)²) over axes",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("axes", 0, 2, 3)},
	Infer: SameAs,
	Eval:  floatKernel(evalMVN[float32], evalMVN[float64]),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: normCost},
}

// mvnEpsilon keeps the deviation off zero; the function body in the standard
// has the same number.
const mvnEpsilon = 1e-9

func evalMVN[T float32 | float64](c *Call) {
	x := c.Array(0)
	axes := Ints(c.Node, "axes")
	if !c.Node.Has("axes") {
		axes = []int64{0, 2, 3}
	}
	reduced := try(normAxes(axes, x.Rank()))
	y := newResult[T](c, 0, x.DType, x.Shape...)
	kept := slices.Clone(x.Shape)
	for _, a := range reduced {
		kept[a] = 1
	}
	groups := sizeOf(kept)
	if len(y.V) == 0 {
		y.store()
		return
	}
	v, count := elements[T](x), float64(len(y.V)/groups)
	mean, variance := make([]float64, groups), make([]float64, groups)
	EachBroadcast(x.Shape, kept, nil, func(o, g, _ int) { mean[g] += float64(v[o]) / count })
	EachBroadcast(x.Shape, kept, nil, func(o, g, _ int) {
		d := float64(v[o]) - mean[g]
		variance[g] += d * d / count
	})
	EachBroadcast(x.Shape, kept, nil, func(o, g, _ int) {
		y.V[o] = T((float64(v[o]) - mean[g]) / (math.Sqrt(variance[g]) + mvnEpsilon))
	})
	y.store()
}
