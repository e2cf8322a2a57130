package nn

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// LpNormalization divides by the p-norm along an axis: https://onnx.ai/onnx/operators/onnx__LpNormalization.html
//
//	output = input / (sum |input|^p)^(1/p)     0 where the norm is 0; p is 1 or 2
var LpNormalization = ops.Op{
	Name: "LpNormalization", Since: 22, Form: bf16Since22(1), Doc: "output = input / p-norm(input) along axis",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", -1), ops.IntAttr("p", 2).Between(1, 2)},
	Infer: ops.SameAs,
	Eval:  kit.FloatKernel(evalLpNormalization[float32], evalLpNormalization[float64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
}

func evalLpNormalization[T float32 | float64](c *ops.Call) {
	x, p := c.Array(0), ops.Int(c.Node, "p")
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), x.Rank()))
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	v := kit.Elements[T](c, x)
	outer, dim, inner := kit.SplitDims(x.Shape, axis)
	norm := kit.Make[float64](c, inner)
	w := kit.Watching(c)
	for o := range outer {
		clear(norm)
		block := v[o*dim*inner : (o+1)*dim*inner]
		for k, e := range block {
			w.Did(1)
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
			w.Did(1)
			q := T(0)
			if d := norm[k%inner]; d != 0 {
				q = T(float64(e) / d)
			}
			y.V[o*dim*inner+k] = q
		}
	}
	y.Store()
}
