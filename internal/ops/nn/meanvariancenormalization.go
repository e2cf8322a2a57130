package nn

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// MeanVarianceNormalization standardizes over the listed axes:
// https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html
//
//	Y = (X - mean(X)) / (sqrt(mean(X²) - mean(X)²) + 1e-9)
var MeanVarianceNormalization = ops.Op{
	Name: "MeanVarianceNormalization", Since: 13, Form: kit.SinceTypes(9, 13, ndarray.BFloat16), Doc: "Y = (X - EX) / sqrt(E(X - EX)²) over axes",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("axes", 0, 2, 3)},
	Infer: ops.SameAs,
	Eval:  kit.FloatKernel(evalMVN[float32], evalMVN[float64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
}

// mvnEpsilon keeps the deviation off zero; the function body in the standard
// has the same number.
const mvnEpsilon = 1e-9

func evalMVN[T float32 | float64](c *ops.Call) {
	x := c.Array(0)
	reduced := kit.Try(kit.NormAxes(ops.Ints(c.Node, "axes"), x.Rank()))
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	kept := slices.Clone(x.Shape)
	for _, a := range reduced {
		kept[a] = 1
	}
	groups := kit.SizeOf(kept)
	if len(y.V) == 0 {
		y.Store()
		return
	}
	v, count := kit.Elements[T](c, x), float64(len(y.V)/groups)
	mean, variance := kit.Make[float64](c, groups), kit.Make[float64](c, groups)
	kit.EachBroadcast(c, x.Shape, kept, nil, func(o, g, _ int) { mean[g] += float64(v[o]) / count })
	kit.EachBroadcast(c, x.Shape, kept, nil, func(o, g, _ int) {
		d := float64(v[o]) - mean[g]
		variance[g] += d * d / count
	})
	kit.EachBroadcast(c, x.Shape, kept, nil, func(o, g, _ int) {
		y.V[o] = T((float64(v[o]) - mean[g]) / (math.Sqrt(variance[g]) + mvnEpsilon))
	})
	y.Store()
}
