package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// LayerNormalization normalizes over the dimensions from axis on:
// https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
//
//	Y = (X - mean) / sqrt(var + epsilon) * Scale + B
//
// Results 1 and 2 are mean and 1/sqrt(var + epsilon) of every row.
var LayerNormalization = ops.Op{
	Name: "LayerNormalization", Since: 17, Doc: "Y = (X - mean) / sqrt(var + epsilon) * Scale + B over the last dimensions",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 3,
	Attrs: NormAttrs, Infer: kit.Rule(inferLayerNorm),
	Eval:  kit.FloatKernel(evalLayerNorm[float32], evalLayerNorm[float64]),
	Facts: ops.Facts{Traits: ops.PassingTraits, Linear: ops.LastNormLinear(2), InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
}

// RMSNormalization scales by the root mean square of the dimensions from axis
// on: https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
//
//	Y = X / sqrt(mean(X²) + epsilon) * scale
//
// The result has scale's element type. Source: https://arxiv.org/abs/1910.07467
var RMSNormalization = ops.Op{
	Name: "RMSNormalization", Since: 23, Doc: "Y = X / sqrt(mean(X²) + epsilon) * scale over the last dimensions",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: NormAttrs,
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		_ = InferSuffixStats(n, ndarray.Float32) // checks axis
		return ops.One(kit.Retyped(ops.InType(n, 0), ops.InType(n, 1).DType))
	}),
	Eval:  kit.FloatKernel(evalRMSNorm[float32], evalRMSNorm[float64]),
	Facts: ops.Facts{Traits: ops.PassingTraits, Linear: ops.LastNormLinear(-1), InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
}

func inferLayerNorm(n *ssa.Node) []ops.Inferred {
	dt := stashType(n)
	stats := InferSuffixStats(n, dt)
	return []ops.Inferred{{Type: ops.InType(n, 0)}, {Type: stats}, {Type: stats}}
}

func evalLayerNorm[T float32 | float64](c *ops.Call) {
	x := kit.Tensor(c, 0)
	s := SuffixNormOf(c.Node, x.Shape, true)
	scale := kit.Spread[T](c, "Scale", kit.Tensor(c, 1), x.Shape)
	bias := kit.Spread[T](c, "B", c.Array(2), x.Shape)
	var stats [2]*ndarray.Array
	for i := range stats {
		if c.Wants(1 + i) {
			stats[i] = kit.Result(c, 1+i, s.Stash, s.StatShape(x.Shape)...)
		}
	}
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	NormalizeSuffix(c, s, kit.Elements[T](c, x), y.V, func(r int, mean, inv float64) {
		for i, v := range [2]float64{mean, inv} {
			if stats[i] != nil {
				stats[i].SetFloat(r, v)
			}
		}
	})
	ScaleShift(c, y.V, scale, bias)
	y.Store()
}

func evalRMSNorm[T float32 | float64](c *ops.Call) {
	x := kit.Tensor(c, 0)
	s := SuffixNormOf(c.Node, x.Shape, false)
	scale := kit.Spread[T](c, "scale", kit.Tensor(c, 1), x.Shape)
	y := kit.NewResult[T](c, 0, c.Array(1).DType, x.Shape...)
	NormalizeSuffix(c, s, kit.Elements[T](c, x), y.V, nil)
	ScaleShift(c, y.V, scale, nil)
	y.Store()
}
