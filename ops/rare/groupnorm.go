package rare

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

var msGroupNormAttrs = []*ops.AttrSpec{ops.IntAttr("activation").Mandatory().Between(0, 1), ops.IntAttr("channels_last", 1),
	ops.FloatAttr("epsilon", 1e-5), ops.IntAttr("groups").Mandatory().AtLeast(1)}

// MSGroupNorm is group normalization with channels last (unless channels_last is
// 0) and an optional SiLU, of the com.microsoft domain.
var MSGroupNorm = ops.Op{
	Domain: contrib.Microsoft, Name: "GroupNorm", Since: 1, Doc: "Y = act(GroupNormalization(X))",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: msGroupNormAttrs, Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
	Eval: kit.FloatKernel(evalGroupNormLast[float32], evalGroupNormLast[float64]),
}

// SkipGroupNorm is GroupNorm of X + skip + bias, which is result 1. The skip may
// be the same for all positions.
var SkipGroupNorm = ops.Op{
	Domain: contrib.Microsoft, Name: "SkipGroupNorm", Since: 1, Doc: "Y = act(GroupNormalization(X + skip + bias))",
	MinIn: 4, MaxIn: 5, MinOut: 1, MaxOut: 2,
	Attrs: msGroupNormAttrs, Infer: kit.Rule(kit.FirstType(2)), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.NormCost},
	Eval: kit.FloatKernel(evalGroupNormLast[float32], evalGroupNormLast[float64]),
}

// BiasAdd is Y = X + bias + skip, the bias along the last dimension.
var BiasAdd = ops.Op{
	Domain: contrib.Microsoft, Name: "BiasAdd", Since: 1, Doc: "Y = X + bias + skip",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.FloatKernel(evalBiasAdd[float32], evalBiasAdd[float64]),
}

func evalBiasAdd[T float32 | float64](c *ops.Call) {
	x := kit.Tensor(c, 0)
	bias := kit.Spread[T](c, "bias", kit.Tensor(c, 1), x.Shape)
	skip := kit.Spread[T](c, "skip", kit.Tensor(c, 2), x.Shape)
	sum := kit.Copy(c, kit.Elements[T](c, x))
	nn.ScaleShift(c, sum, nil, bias)
	nn.ScaleShift(c, sum, nil, skip)
	kit.SetResult(c, 0, x.DType, x.Shape, sum)
}

func evalGroupNormLast[T float32 | float64](c *ops.Call) {
	x := kit.Tensor(c, 0)
	groups := int(ops.Int(c.Node, "groups"))
	if x.Rank() < 3 {
		kit.Failf("X has shape %v, without batch, channel and spatial dimensions", x.Shape)
	}
	sum := skipSum[T](c)
	last := ops.Int(c.Node, "channels_last") != 0
	shape := x.Shape
	if last {
		shape = nn.FirstShape(shape)
		sum = nn.ChannelsFirst(c, sum, shape[0], kit.SizeOf(shape[2:]), shape[1])
	}
	ch, plane := shape[1], kit.SizeOf(shape[2:])
	if ch%groups != 0 {
		kit.Failf("%d groups do not divide %d channels", groups, ch)
	}
	for i, what := range []string{"gamma", "beta"} {
		kit.WantShape(what, c.Array(1+i), ch)
	}
	size := ch / groups * plane
	w := kit.Watching(c)
	for at := 0; at < len(sum); at += size {
		nn.Standardize(&w, sum[at:at+size], sum[at:at+size], float64(ops.Float(c.Node, "epsilon")), true)
	}
	gamma, beta := kit.Elements[T](c, kit.Tensor(c, 1)), kit.Elements[T](c, kit.Tensor(c, 2))
	for i := range sum {
		w.Did(1)
		k := i / plane % ch
		sum[i] = sum[i]*gamma[k] + beta[k]
	}
	if ops.Int(c.Node, "activation") == 1 {
		kit.Activate(c, sum, kit.Silu)
	}
	if last {
		sum = nn.ChannelsLast(c, sum, shape[0], ch, plane)
	}
	kit.SetResult(c, 0, x.DType, x.Shape, sum)
}

// skipSum is X + skip + bias, stored as result 1 if it is wanted.
func skipSum[T kit.RealNum](c *ops.Call) []T {
	x, skip := c.Array(0), c.Array(3)
	sum := kit.Copy(c, kit.Elements[T](c, x))
	if skip != nil && skip.Rank() == 2 { // [N,C] for all positions
		shape := slices.Repeat([]int{1}, x.Rank())
		shape[0], shape[len(shape)-1] = skip.Shape[0], skip.Shape[1]
		skip = skip.Reshaped(shape...)
	}
	for i, a := range []*ndarray.Array{skip, c.Array(4)} {
		nn.ScaleShift(c, sum, nil, kit.Spread[T](c, []string{"skip", "bias"}[i], a, x.Shape))
	}
	kit.SetResult(c, 1, x.DType, x.Shape, sum)
	return sum
}
