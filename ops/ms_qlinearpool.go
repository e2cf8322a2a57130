package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// QLinearAveragePool is AveragePool of a quantized tensor, of the com.microsoft
// domain; channels_last=1 puts the channels behind the spatial dimensions.
var QLinearAveragePool = Op{
	Domain: microsoft, Name: "QLinearAveragePool", Since: 1, Doc: "Y = quantize(mean over sliding windows of X)",
	MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: append([]AttrSpec{intAttr("ceil_mode", 0), intAttr("channels_last", 0), intAttr("count_include_pad", 0),
		intsAttr("kernel_shape").atLeast(1).required()}, poolAttrs...),
	Facts: Facts{Traits: general, Cost: poolCost}, Infer: rule(func(n *ssa.Node) []Inferred {
		if Int(n, "channels_last") != 0 {
			return inferPoolLast(n)
		}
		return inferPool(n)
	}),
	Eval: kernel(evalQLinearAveragePool),
}

// QLinearGlobalAveragePool is the mean of every plane of a quantized tensor.
var QLinearGlobalAveragePool = Op{
	Domain: microsoft, Name: "QLinearGlobalAveragePool", Since: 1, Doc: "Y = quantize(mean of every plane of X)",
	MinIn: 5, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("channels_last", 0)},
	Facts: Facts{Traits: general, Cost: readCost}, Infer: rule(func(n *ssa.Node) []Inferred {
		x := InType(n, 0)
		if Int(n, "channels_last") == 0 || !x.Ranked || x.Rank() < 2 {
			return inferGlobalPool(n)
		}
		out := slices.Clone(x.Shape)
		for i := range out[1 : len(out)-1] {
			out[1+i] = ssa.D(1)
		}
		return One(ssa.TensorOf(x.DType, out...))
	}),
	Eval: kernel(evalQLinearGlobalAverage),
}

// planesOf returns dequantized operand 0 with channels first, and that shape.
func planesOf(c *Call) (v []float32, shape []int, last bool) {
	v = dequantized(c, 0)
	shape, last = c.Array(0).Shape, Int(c.Node, "channels_last") != 0
	if len(shape) < 3 {
		failf("X has shape %v, without batch, channel and spatial dimensions", shape)
	}
	if last {
		shape = firstShape(shape)
		v = channelsFirst(v, shape[0], sizeOf(shape[2:]), shape[1])
	}
	return v, shape, last
}

// storePlanes quantizes planes [n, c, out...] into result 0.
func storePlanes(c *Call, p qparam, v []float32, shape []int, last bool) {
	if last {
		v = channelsLast(v, shape[0], shape[1], sizeOf(shape[2:]))
		shape = lastShape(shape)
	}
	p.storeQuantized(c, c.Array(0).DType, v, shape...)
}

func evalQLinearAveragePool(c *Call) {
	v, shape, last := planesOf(c)
	p := qparamOf(c, 3, 4, c.Array(0).DType)
	kernel := try(kernelAttr(c.Node))
	w := try(windowOf(c.Node, kernel))
	check(w.bind(shape[2:]))
	planes, out := shape[0]*shape[1], sizeOf(w.out)
	sums := make([]float32, planes*out)
	poolSum(&w, planes, v, sums, nil)
	w.eachCoverage(Int(c.Node, "count_include_pad") != 0, func(o, count int) {
		for q := range planes {
			sums[q*out+o] /= float32(max(count, 1))
		}
	})
	storePlanes(c, p, sums, append(slices.Clone(shape[:2]), w.out...), last)
}

func evalQLinearGlobalAverage(c *Call) {
	v, shape, last := planesOf(c)
	p := qparamOf(c, 3, 4, c.Array(0).DType)
	plane := sizeOf(shape[2:])
	means := make([]float32, shape[0]*shape[1])
	for i := range means {
		var sum float64
		for _, x := range v[i*plane : (i+1)*plane] {
			sum += float64(x)
		}
		means[i] = float32(sum / float64(max(plane, 1)))
	}
	out := slices.Clone(shape)
	for i := range out[2:] {
		out[2+i] = 1
	}
	storePlanes(c, p, means, out, last)
}

// MSQLinearConv is QLinearConv with an optional layout of channels last.
var MSQLinearConv = Op{
	Domain: microsoft, Name: "QLinearConv", Since: 1, Doc: "y = quantize(dequantize(w) * dequantize(x) + B)",
	MinIn: 8, MaxIn: 9, MinOut: 1, MaxOut: 1,
	Attrs: append([]AttrSpec{intAttr("channels_last", 0)}, convAttrs...),
	Infer: rule(func(n *ssa.Node) []Inferred {
		if Int(n, "channels_last") != 0 {
			return inferChannelsLast(n, 0, 3, InType(n, 7).DType)
		}
		return try(QLinearConv.Infer(n))
	}),
	Eval: kernel(evalMSQLinearConv), Facts: Facts{Traits: general, Cost: convCost(3)},
}

func evalMSQLinearConv(c *Call) {
	x := c.Array(0)
	if Int(c.Node, "channels_last") == 0 || x == nil || x.Rank() < 3 {
		evalQLinearConv(c)
		return
	}
	if !byteInts.has(x.DType) {
		check(unsupportedType(x.DType))
	}
	shape := firstShape(x.Shape)
	first := &ndarray.Array{DType: x.DType, Shape: shape, Data: channelsFirst(x.Data, shape[0], sizeOf(shape[2:]), shape[1])}
	inner := &Call{Ctx: c.Ctx, Node: c.Node, In: slices.Clone(c.In), Threads: c.Threads}
	inner.In[0] = first
	evalQLinearConv(inner)
	r := inner.Out[0].(*ndarray.Array)
	y := result(c, 0, r.DType, lastShape(r.Shape)...)
	copy(y.Data, channelsLast(r.Data, r.Shape[0], r.Shape[1], sizeOf(r.Shape[2:])))
}
