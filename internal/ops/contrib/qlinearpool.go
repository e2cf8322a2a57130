package contrib

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/internal/ops/quant"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// QLinearAveragePool is AveragePool of a quantized tensor, of the com.microsoft
// domain; channels_last=1 puts the channels behind the spatial dimensions.
var QLinearAveragePool = ops.Op{
	Domain: Microsoft, Name: "QLinearAveragePool", Since: 1, Doc: "Y = quantize(mean over sliding windows of X)",
	MinIn: 2, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("ceil_mode", 0), ops.IntAttr("channels_last", 0), ops.IntAttr("count_include_pad", 0),
		ops.IntsAttr("kernel_shape").AtLeast(1).Mandatory()}, nn.PoolAttrs...),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: nn.PoolCost}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		if ops.Int(n, "channels_last") != 0 {
			return inferPoolLast(n)
		}
		return nn.InferPool(n)
	}),
	Eval: kit.Kernel(evalQLinearAveragePool),
}

// QLinearGlobalAveragePool is the mean of every plane of a quantized tensor.
var QLinearGlobalAveragePool = ops.Op{
	Domain: Microsoft, Name: "QLinearGlobalAveragePool", Since: 1, Doc: "Y = quantize(mean of every plane of X)",
	MinIn: 5, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("channels_last", 0)},
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ReadCost}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		if ops.Int(n, "channels_last") == 0 || !x.Ranked || x.Rank() < 2 {
			return nn.InferGlobalPool(n)
		}
		out := slices.Repeat([]ssa.Dim{ssa.D(1)}, x.Rank())
		out[0], out[len(out)-1] = x.Shape[0], x.Shape[x.Rank()-1]
		return ops.One(ssa.TensorOf(x.DType, out...))
	}),
	Eval: kit.Kernel(evalQLinearGlobalAverage),
}

// planesOf returns dequantized operand 0 with channels first, and that shape.
func planesOf(c *ops.Call) (v []float32, shape []int, last bool) {
	v = dequantized(c, 0)
	shape, last = c.Array(0).Shape, ops.Int(c.Node, "channels_last") != 0
	if len(shape) < 3 {
		kit.Failf("X has shape %v, without batch, channel and spatial dimensions", shape)
	}
	if last {
		shape = nn.FirstShape(shape)
		v = nn.ChannelsFirst(c, v, shape[0], kit.SizeOf(shape[2:]), shape[1])
	}
	return v, shape, last
}

// storePlanes quantizes planes [n, c, out...] into result 0.
func storePlanes(c *ops.Call, p quantParams, v []float32, shape []int, last bool) {
	if last {
		v = nn.ChannelsLast(c, v, shape[0], shape[1], kit.SizeOf(shape[2:]))
		shape = nn.LastShape(shape)
	}
	p.storeQuantized(c, c.Array(0).DType, v, shape...)
}

func evalQLinearAveragePool(c *ops.Call) {
	watch := kit.Watching(c)
	v, shape, last := planesOf(c)
	p := quantParamsOf(c, 3, 4, c.Array(0).DType)
	w := nn.PoolWindow(c.Node, shape[2:])
	planes, out := shape[0]*shape[1], kit.SizeOf(w.Out)
	sums := kit.Make[float32](c, planes*out)
	nn.PoolSum(c, &w, planes, v, sums, func(x float32) float32 { return x })
	w.EachCoverage(c, ops.Int(c.Node, "count_include_pad") != 0, func(o, count int) {
		for q := range planes {
			watch.Did(1)
			sums[q*out+o] /= float32(max(count, 1))
		}
	})
	storePlanes(c, p, sums, append(slices.Clone(shape[:2]), w.Out...), last)
}

func evalQLinearGlobalAverage(c *ops.Call) {
	watch := kit.Watching(c)
	v, shape, last := planesOf(c)
	p := quantParamsOf(c, 3, 4, c.Array(0).DType)
	plane := kit.SizeOf(shape[2:])
	means := kit.Make[float32](c, shape[0]*shape[1])
	for i := range means {
		var sum float64
		for _, x := range v[i*plane : (i+1)*plane] {
			watch.Did(1)
			sum += float64(x)
		}
		means[i] = float32(sum / float64(max(plane, 1)))
	}
	storePlanes(c, p, means, append(slices.Clone(shape[:2]), slices.Repeat([]int{1}, len(shape)-2)...), last)
}

// MSQLinearConv is QLinearConv with an optional layout of channels last.
var MSQLinearConv = ops.Op{
	Domain: Microsoft, Name: "QLinearConv", Since: 1, Doc: "y = quantize(dequantize(w) * dequantize(x) + B)",
	MinIn: 8, MaxIn: 9, MinOut: 1, MaxOut: 1,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("channels_last", 0)}, nn.ConvAttrs...),
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		if ops.Int(n, "channels_last") != 0 {
			return nn.InferChannelsLast(n, 0, 3, ops.InType(n, 7).DType)
		}
		return kit.Try(quant.QLinearConv.Infer(n))
	}),
	Eval: kit.Kernel(evalMSQLinearConv), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ConvCost(3)},
}

func evalMSQLinearConv(c *ops.Call) {
	x := c.Array(0)
	if ops.Int(c.Node, "channels_last") == 0 || x == nil || x.Rank() < 3 {
		quant.EvalQLinearConv(c)
		return
	}
	if !kit.ByteInts.Has(x.DType) {
		kit.Check(kit.UnsupportedType(x.DType))
	}
	shape := nn.FirstShape(x.Shape)
	first := &ndarray.Array{DType: x.DType, Shape: shape, Data: nn.ChannelsFirst(c, x.Data, shape[0], kit.SizeOf(shape[2:]), shape[1])}
	inner := &ops.Call{Ctx: c.Ctx, Node: c.Node, In: slices.Clone(c.In), Threads: c.Threads, Memory: c.Memory}
	inner.In[0] = first
	quant.EvalQLinearConv(inner)
	r := inner.Out[0].(*ndarray.Array)
	y := kit.Result(c, 0, r.DType, nn.LastShape(r.Shape)...)
	copy(y.Data, nn.ChannelsLast(c, r.Data, r.Shape[0], r.Shape[1], kit.SizeOf(r.Shape[2:])))
}
