package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// fusedConvAttrs are those of Conv and an activation.
var fusedConvAttrs = append([]*ops.AttrSpec{ops.StrAttr("activation"), ops.FloatsAttr("activation_params")}, nn.ConvAttrs...)

// FusedConv is Conv followed by a residual sum and an activation, of the
// com.microsoft domain: Y = act(Conv(X, W, B) + Z).
var FusedConv = ops.Op{
	Domain: Microsoft, Name: "FusedConv", Since: 1, Doc: "Y = act(Conv(X, W, B) + Z)",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: fusedConvAttrs, Infer: nn.Conv.Infer, Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ConvCost(1)},
	Eval: kit.FloatKernel(evalFusedConv[float32](false), evalFusedConv[float64](false)),
}

// NhwcConv is Conv with channels last in X and Y.
var NhwcConv = nhwcConv("NhwcConv", "Y = Conv(X, W, B), channels last", nn.ConvAttrs, 3)

// NhwcFusedConv is FusedConv with channels last in X, Z and Y.
var NhwcFusedConv = nhwcConv("NhwcFusedConv", "Y = act(Conv(X, W, B) + Z), channels last", fusedConvAttrs, 4)

func nhwcConv(name, doc string, attrs []*ops.AttrSpec, operands int) ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: 2, MaxIn: operands, MinOut: 1, MaxOut: 1,
		Attrs: attrs, Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ConvCost(1)},
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return nn.InferChannelsLast(n, 0, 1, ops.InType(n, 0).DType) }),
		Eval:  kit.FloatKernel(evalFusedConv[float32](true), evalFusedConv[float64](true)),
	}
}

func evalFusedConv[T float32 | float64](last bool) func(c *ops.Call) {
	return func(c *ops.Call) { fusedConv[T](c, last) }
}

func fusedConv[T kit.RealNum](c *ops.Call, last bool) {
	watch := kit.Watching(c)
	x, w, b, z := kit.Tensor(c, 0), kit.Tensor(c, 1), c.Array(2), c.Array(3)
	shape, data := x.Shape, kit.Elements[T](c, x)
	if last && len(shape) > 2 {
		shape = nn.FirstShape(shape)
		data = nn.ChannelsFirst(c, data, shape[0], kit.SizeOf(shape[2:]), shape[1])
	}
	s := nn.ConvShapeOf(c.Node, shape, w.Shape)
	kit.WantLen("bias", b, s.M)
	act := kit.FusedActivation(ops.Str(c.Node, "activation"), ops.Floats(c.Node, "activation_params"))
	yShape := s.YShape()
	out := kit.Make[T](c, kit.SizeOf(yShape))
	nn.Convolve(c, &s, data, kit.Elements[T](c, w), kit.Elements[T](c, b), out)
	if last {
		out = nn.ChannelsLast(c, out, s.N, s.M, kit.SizeOf(s.Win.Out))
		yShape = nn.LastShape(yShape)
	}
	kit.WantShape("Z", z, yShape...)
	for i, v := range kit.Elements[T](c, z) {
		watch.Did(1)
		out[i] += v
	}
	kit.Activate(c, out, act)
	kit.SetResult(c, 0, x.DType, yShape, out)
}

// NhwcMaxPool is MaxPool of 8-bit integers with channels last.
var NhwcMaxPool = ops.Op{
	Domain: Microsoft, Name: "NhwcMaxPool", Since: 1, Doc: "y = max over sliding windows, channels last",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: append([]*ops.AttrSpec{ops.IntAttr("ceil_mode", 0), ops.IntsAttr("dilations").AtLeast(1), ops.IntsAttr("kernel_shape").AtLeast(1).Mandatory()}, nn.PoolAttrs...),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: nn.PoolCost}, Infer: kit.Rule(inferPoolLast), Eval: kit.Kernel(evalNhwcMaxPool),
}

// inferPoolLast is the type rule of pooling with channels last.
func inferPoolLast(n *ssa.Node) []ops.Inferred { return nn.InferPoolAt(n, 1) }

func evalNhwcMaxPool(c *ops.Call) {
	x := c.Array(0)
	if x == nil || x.Rank() < 3 || !kit.ByteInts.Has(x.DType) {
		kit.Failf("operand 0 is no tensor of 8-bit integers with batch, spatial and channel dimensions")
	}
	shape := nn.FirstShape(x.Shape)
	w := nn.PoolWindow(c.Node, shape[2:])
	n, ch, in, out := shape[0], shape[1], kit.SizeOf(w.In), kit.SizeOf(w.Out)
	least, _ := kit.IntegerRange(x.DType)
	pooled := kit.Make[int64](c, n*ch*out)
	nn.PoolMax(c, &w, n*ch, nn.ChannelsFirst(c, kit.Elements[int64](c, x), n, in, ch), least, pooled, nil)
	kit.SetResult(c, 0, x.DType, nn.LastShape(append([]int{n, ch}, w.Out...)), nn.ChannelsLast(c, pooled, n, ch, out))
}
