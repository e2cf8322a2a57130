package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// AveragePool is the mean over sliding windows: https://onnx.ai/onnx/operators/onnx__AveragePool.html
//
//	Y[n,c,o] = (sum over k of X[n,c, o*stride + k*dilation - pad]) / count
//
// count is the number of taps inside the input; with count_include_pad=1 inside
// the padded input.
var AveragePool = ops.Op{
	Name: "AveragePool", Since: 22, Form: bf16Since22(1), Doc: "Y = mean over sliding windows",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("ceil_mode", 0).From(10), ops.IntAttr("count_include_pad", 0).From(7), ops.IntsAttr("dilations").AtLeast(1).From(19),
		ops.IntsAttr("kernel_shape").AtLeast(1).Mandatory()}, PoolAttrs...),
	Infer: kit.Rule(InferPool),
	Eval:  kit.FloatKernel(evalAveragePool[float32], evalAveragePool[float64]),
	Facts: ops.Facts{Traits: ops.PassingTraits, Smaller: pooledPlanes, Cost: PoolCost, Disputed: disputedPool},
}

func evalAveragePool[T float32 | float64](c *ops.Call) {
	w, shape := poolWindow(c)
	x := c.Array(0)
	y := kit.NewResult[T](c, 0, x.DType, shape...)
	planes, out := shape[0]*shape[1], kit.SizeOf(w.Out)
	PoolSum(c, &w, planes, kit.Elements[T](c, x), y.V, func(v T) T { return v })
	w.EachCoverage(c, ops.Int(c.Node, "count_include_pad") != 0, func(o, count int) {
		if count < 2 {
			return
		}
		for p := range planes {
			y.V[p*out+o] /= T(count)
		}
	})
	y.Store()
}
