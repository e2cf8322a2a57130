package nn

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// GlobalAveragePool is the mean of every plane: https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html
var GlobalAveragePool = ops.Op{
	Name: "GlobalAveragePool", Since: 22, Form: bf16Since22(1), Doc: "Y[n,c] = mean of X[n,c,...]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(InferGlobalPool), Facts: ops.Facts{Traits: ops.PassingTraits, Smaller: globalPlanes},
	Eval: kit.FloatKernel(evalGlobalAverage[float32], evalGlobalAverage[float64]),
}

// GlobalMaxPool is the maximum of every plane: https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html
var GlobalMaxPool = ops.Op{
	Name: "GlobalMaxPool", Since: 22, Form: bf16Since22(1), Doc: "Y[n,c] = max of X[n,c,...]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(InferGlobalPool), Facts: ops.Facts{Traits: ops.PassingTraits, Smaller: globalPlanes},
	Eval: kit.FloatKernel(evalGlobalMax[float32], evalGlobalMax[float64]),
}

func evalGlobalAverage[T float32 | float64](c *ops.Call) {
	globalPool(c, func(w *kit.Watch, plane []T) T {
		var sum float64
		for _, v := range plane {
			w.Did(1)
			sum += float64(v)
		}
		return T(sum / float64(len(plane)))
	})
}

func evalGlobalMax[T float32 | float64](c *ops.Call) {
	globalPool(c, func(w *kit.Watch, plane []T) T {
		most := T(math.Inf(-1))
		for _, v := range plane {
			w.Did(1)
			if v > most || v != v {
				most = v
			}
		}
		return most
	})
}
