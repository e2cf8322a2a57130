package ops

import "github.com/berth-onnx/berth/ssa"

var fusedConvAttrs = append([]AttrSpec{strAttr("activation"), floatsAttr("activation_params")}, convAttrs...)

// FusedConv is Conv followed by a residual sum and an activation, of the
// com.microsoft domain: Y = act(Conv(X, W, B) + Z).
var FusedConv = Op{
	Domain: microsoft, Name: "FusedConv", Since: 1, Doc: "Y = act(Conv(X, W, B) + Z)",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: fusedConvAttrs, Infer: Conv.Infer, Facts: Facts{Traits: general, Cost: convCost(1)},
	Eval: floatKernel(evalFusedConv[float32](false), evalFusedConv[float64](false)),
}

// NhwcConv is Conv with channels last in X and Y.
var NhwcConv = nhwcConv("NhwcConv", "Y = Conv(X, W, B), channels last", convAttrs, 3)

// NhwcFusedConv is FusedConv with channels last in X, Z and Y.
var NhwcFusedConv = nhwcConv("NhwcFusedConv", "Y = act(Conv(X, W, B) + Z), channels last", fusedConvAttrs, 4)

func nhwcConv(name, doc string, attrs []AttrSpec, operands int) Op {
	return Op{
		Domain: microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: 2, MaxIn: operands, MinOut: 1, MaxOut: 1,
		Attrs: attrs, Facts: Facts{Traits: general, Cost: convCost(1)},
		Infer: rule(func(n *ssa.Node) []Inferred { return inferChannelsLast(n, 0, 1, InType(n, 0).DType) }),
		Eval:  floatKernel(evalFusedConv[float32](true), evalFusedConv[float64](true)),
	}
}

func evalFusedConv[T float32 | float64](last bool) func(c *Call) {
	return func(c *Call) { fusedConv[T](c, last) }
}

func fusedConv[T realNum](c *Call, last bool) {
	x, w, b, z := tensor(c, 0), tensor(c, 1), c.Array(2), c.Array(3)
	shape, data := x.Shape, elements[T](x)
	if last && len(shape) > 2 {
		shape = firstShape(shape)
		data = channelsFirst(data, shape[0], sizeOf(shape[2:]), shape[1])
	}
	s := convShapeOf(c.Node, shape, w.Shape)
	wantLen("bias", b, s.m)
	act := fusedActivation(Str(c.Node, "activation"), Floats(c.Node, "activation_params"))
	yShape := s.yShape()
	out := make([]T, sizeOf(yShape))
	convolve(&s, data, elements[T](w), elements[T](b), out)
	if last {
		out = channelsLast(out, s.n, s.m, sizeOf(s.win.out))
		yShape = lastShape(yShape)
	}
	wantShape("Z", z, yShape...)
	y := newResult[T](c, 0, x.DType, yShape...)
	for i, v := range elements[T](z) {
		out[i] += v
	}
	activate(out, act)
	copy(y.V, out)
	y.store()
}

// NhwcMaxPool is MaxPool of 8-bit integers with channels last.
var NhwcMaxPool = Op{
	Domain: microsoft, Name: "NhwcMaxPool", Since: 1, Doc: "y = max over sliding windows, channels last",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: append([]AttrSpec{intAttr("ceil_mode", 0), intsAttr("dilations").atLeast(1), intsAttr("kernel_shape").atLeast(1).required()}, poolAttrs...),
	Facts: Facts{Traits: general, Cost: poolCost}, Infer: rule(inferPoolLast), Eval: kernel(evalNhwcMaxPool),
}

// poolLast binds a pooling window over data with channels last.
func poolLast(c *Call) (w window, shape []int) {
	x := c.Array(0)
	if x == nil || x.Rank() < 3 || !byteInts.has(x.DType) {
		failf("operand 0 is no tensor of 8-bit integers with batch, spatial and channel dimensions")
	}
	kernel := try(kernelAttr(c.Node))
	w = try(windowOf(c.Node, kernel))
	shape = firstShape(x.Shape)
	check(w.bind(shape[2:]))
	return w, shape
}

func evalNhwcMaxPool(c *Call) {
	w, shape := poolLast(c)
	x := c.Array(0)
	n, ch, in, out := shape[0], shape[1], sizeOf(w.in), sizeOf(w.out)
	least, _ := integerRange(x.DType)
	pooled := make([]int64, n*ch*out)
	maxPool(&w, n*ch, channelsFirst(elements[int64](x), n, in, ch), least, pooled, nil)
	setResult(c, 0, x.DType, lastShape(append([]int{n, ch}, w.out...)), channelsLast(pooled, n, ch, out))
}
