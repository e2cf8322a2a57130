package nn

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// LRN is local response normalization across channels: https://onnx.ai/onnx/operators/onnx__LRN.html
//
//	Y[n,c] = X[n,c] / (bias + alpha/size * sum of X[n,i]² )^beta
//	i from c - floor((size-1)/2) to c + ceil((size-1)/2), inside the channels
var LRN = ops.Op{
	Name: "LRN", Since: 13, Form: kit.SinceTypes(1, 13, ndarray.BFloat16), Doc: "Y = X / (bias + alpha/size * sum over neighbour channels of X²)^beta",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("alpha", 0.0001), ops.FloatAttr("beta", 0.75), ops.FloatAttr("bias", 1),
		ops.IntAttr("size").Mandatory().AtLeast(1)},
	Infer: ops.SameAs,
	Eval:  kit.FloatKernel(evalLRN[float32], evalLRN[float64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.NormCost},
}

func evalLRN[T float32 | float64](c *ops.Call) {
	x, size := c.Array(0), int(ops.Int(c.Node, "size"))
	if x.Rank() < 2 {
		kit.Failf("operand 0 has shape %v, without batch and channel dimensions", x.Shape)
	}
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	v := kit.Elements[T](c, x)
	ch, plane := x.Shape[1], kit.SizeOf(x.Shape[2:])
	scale := float64(ops.Float(c.Node, "alpha")) / float64(size)
	bias, beta := float64(ops.Float(c.Node, "bias")), float64(ops.Float(c.Node, "beta"))
	squares := kit.Make[T](c, plane)
	w := kit.Watching(c)
	for i := range x.Shape[0] * ch {
		at := i % ch
		first, last := max(0, at-(size-1)/2), min(ch-1, at+size/2)
		clear(squares)
		for k := first; k <= last; k++ {
			row := v[(i-at+k)*plane:][:plane]
			for j, e := range row {
				w.Did(1)
				squares[j] += e * e
			}
		}
		in, out := v[i*plane:(i+1)*plane], y.V[i*plane:(i+1)*plane]
		for j, s := range squares {
			w.Did(1)
			out[j] = T(float64(in[j]) / math.Pow(bias+scale*float64(s), beta))
		}
	}
	y.Store()
}
