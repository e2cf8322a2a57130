package ops

import (
	"math"
)

// LpNormalization divides by the p-norm along an axis: https://onnx.ai/onnx/operators/onnx__LpNormalization.html
//
//	output = input / (sum |input|^p)^(1/p)     0 where the norm is 0; p is 1 or 2
var LpNormalization = Op{
	Name: "LpNormalization", Since: 22, Form: bf16Since22(1), Doc: "output = input / p-norm(input) along axis",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", -1), intAttr("p", 2)},
	Infer: SameAs,
	Eval:  floatKernel(evalLpNormalization[float32], evalLpNormalization[float64]),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: normCost},
}

func evalLpNormalization[T float32 | float64](c *Call) {
	x, p := c.Array(0), Int(c.Node, "p")
	if p != 1 && p != 2 {
		failf("p=%d is neither 1 nor 2", p)
	}
	axis := try(NormAxis(Int(c.Node, "axis"), x.Rank()))
	y := newResult[T](c, 0, x.DType, x.Shape...)
	v := elements[T](x)
	outer, dim, inner := splitDims(x.Shape, axis)
	norm := make([]float64, inner)
	for o := range outer {
		clear(norm)
		block := v[o*dim*inner : (o+1)*dim*inner]
		for k, e := range block {
			if p == 1 {
				norm[k%inner] += math.Abs(float64(e))
			} else {
				norm[k%inner] += float64(e) * float64(e)
			}
		}
		for i, s := range norm {
			if p == 2 {
				norm[i] = math.Sqrt(s)
			}
		}
		for k, e := range block {
			q := T(0)
			if d := norm[k%inner]; d != 0 {
				q = T(float64(e) / d)
			}
			y.V[o*dim*inner+k] = q
		}
	}
	y.store()
}
