package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// LayerNormalization normalizes over the dimensions from axis on:
// https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
//
//	Y = (X - mean) / sqrt(var + epsilon) * Scale + B
//
// Results 1 and 2 are mean and 1/sqrt(var + epsilon) of every row.
var LayerNormalization = Op{
	Name: "LayerNormalization", Since: 17, Doc: "Y = (X - mean) / sqrt(var + epsilon) * Scale + B over the last dimensions",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 3,
	Attrs: normAttrs, Infer: rule(inferLayerNorm),
	Eval:  floatKernel(evalLayerNorm[float32], evalLayerNorm[float64]),
	Facts: Facts{Traits: passing, Linear: lastNormLinear(2), InPlace: inPlaceFirst, Cost: normCost},
}

// RMSNormalization scales by the root mean square of the dimensions from axis
// on: https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
//
//	Y = X / sqrt(mean(X²) + epsilon) * scale
//
// The result has scale's element type. Source: https://arxiv.org/abs/1910.07467
var RMSNormalization = Op{
	Name: "RMSNormalization", Since: 23, Doc: "Y = X / sqrt(mean(X²) + epsilon) * scale over the last dimensions",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: normAttrs,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := InType(n, 0)
		_ = inferSuffixStats(n, t.DType)
		t.DType = InType(n, 1).DType
		return One(t)
	}),
	Eval:  floatKernel(evalRMSNorm[float32], evalRMSNorm[float64]),
	Facts: Facts{Traits: passing, Linear: lastNormLinear(-1), InPlace: inPlaceFirst, Cost: normCost},
}

func inferLayerNorm(n *ssa.Node) []Inferred {
	dt := stashType(n)
	stats := inferSuffixStats(n, dt)
	return []Inferred{{Type: InType(n, 0)}, {Type: stats}, {Type: stats}}
}

func evalLayerNorm[T float32 | float64](c *Call) {
	x := tensor(c, 0)
	s := suffixNormOf(c.Node, x.Shape, true)
	scale := spread[T]("Scale", tensor(c, 1), x.Shape)
	bias := spread[T]("B", c.Array(2), x.Shape)
	var stats [2]*ndarray.Array
	for i := range stats {
		if c.Wants(1 + i) {
			stats[i] = result(c, 1+i, s.stash, s.statShape(x.Shape)...)
		}
	}
	y := newResult[T](c, 0, x.DType, x.Shape...)
	normalizeSuffix(s, elements[T](x), y.V, func(r int, mean, inv float64) {
		for i, v := range [2]float64{mean, inv} {
			if stats[i] != nil {
				stats[i].SetFloat(r, v)
			}
		}
	})
	scaleShift(y.V, scale, bias)
	y.store()
}

func evalRMSNorm[T float32 | float64](c *Call) {
	x := tensor(c, 0)
	s := suffixNormOf(c.Node, x.Shape, false)
	scale := spread[T]("scale", tensor(c, 1), x.Shape)
	y := newResult[T](c, 0, c.Array(1).DType, x.Shape...)
	if len(y.V) == 0 {
		return
	}
	normalizeSuffix(s, elements[T](x), y.V, nil)
	scaleShift(y.V, scale, nil)
	y.store()
}
