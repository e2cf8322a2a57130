package ops

import "github.com/berth-onnx/berth/ssa"

// AveragePool is the mean over sliding windows: https://onnx.ai/onnx/operators/onnx__AveragePool.html
//
//	Y[n,c,o] = (sum over k of X[n,c, o*stride + k*dilation - pad]) / count
//
// count is the number of taps inside the input; with count_include_pad=1 inside
// the padded input.
var AveragePool = Op{
	Name: "AveragePool", Since: 22, Form: averagePoolForm, Doc: "Y = mean over sliding windows",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: append([]AttrSpec{{Name: "count_include_pad", Kind: ssa.AttrInt}}, poolAttrs...),
	Infer: rule(inferPool),
	Eval:  floatKernel(evalAveragePool[float32], evalAveragePool[float64]),
	Facts: Facts{Smaller: pooledPlanes, Cost: poolCost},
}

func averagePoolForm(n *ssa.Node) int {
	switch {
	case bf16Since22(1)(n) == 22:
		return 22
	case n.Has("dilations"):
		return 19
	case n.Has("ceil_mode"):
		return 10
	case n.Has("count_include_pad"):
		return 7
	}
	return 1
}

func evalAveragePool[T float32 | float64](c *Call) {
	w, shape := poolWindow(c)
	x := c.Array(0)
	y := newResult[T](c, 0, x.DType, shape...)
	planes, out := shape[0]*shape[1], sizeOf(w.out)
	poolSum(&w, planes, elements[T](x), y.V, nil)
	w.eachCoverage(c.Node.Int("count_include_pad", 0) != 0, func(o, count int) {
		if count < 2 {
			return
		}
		for p := range planes {
			y.V[p*out+o] /= T(count)
		}
	})
	y.store()
}
