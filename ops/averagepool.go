package ops

// AveragePool is the mean over sliding windows: https://onnx.ai/onnx/operators/onnx__AveragePool.html
//
//	Y[n,c,o] = (sum over k of X[n,c, o*stride + k*dilation - pad]) / count
//
// count is the number of taps inside the input; with count_include_pad=1 inside
// the padded input.
var AveragePool = Op{
	Name: "AveragePool", Since: 22, Form: bf16Since22(1), Doc: "Y = mean over sliding windows",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: append([]AttrSpec{intAttr("ceil_mode", 0).since(10), intAttr("count_include_pad", 0).since(7), intsAttr("dilations").atLeast(1).since(19),
		intsAttr("kernel_shape").atLeast(1).required()}, poolAttrs...),
	Infer: rule(inferPool),
	Eval:  floatKernel(evalAveragePool[float32], evalAveragePool[float64]),
	Facts: Facts{Traits: passing, Smaller: pooledPlanes, Cost: poolCost},
}

func evalAveragePool[T float32 | float64](c *Call) {
	w, shape := poolWindow(c)
	x := c.Array(0)
	y := newResult[T](c, 0, x.DType, shape...)
	planes, out := shape[0]*shape[1], sizeOf(w.out)
	poolSum(&w, planes, elements[T](x), y.V, nil)
	w.eachCoverage(Int(c.Node, "count_include_pad") != 0, func(o, count int) {
		if count < 2 {
			return
		}
		for p := range planes {
			y.V[p*out+o] /= T(count)
		}
	})
	y.store()
}
