package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

var msGroupNormAttrs = []AttrSpec{intAttr("activation").required(), intAttr("channels_last", 1),
	floatAttr("epsilon", 1e-5), intAttr("groups").required()}

// MSGroupNorm is group normalization with channels last (unless channels_last is
// 0) and an optional SiLU, of the com.microsoft domain.
var MSGroupNorm = Op{
	Domain: microsoft, Name: "GroupNorm", Since: 1, Doc: "Y = act(GroupNormalization(X))",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: msGroupNormAttrs, Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: normCost},
	Eval: floatKernel(evalGroupNormLast[float32], evalGroupNormLast[float64]),
}

// SkipGroupNorm is GroupNorm of X + skip + bias, which is result 1. The skip may
// be the same for all positions.
var SkipGroupNorm = Op{
	Domain: microsoft, Name: "SkipGroupNorm", Since: 1, Doc: "Y = act(GroupNormalization(X + skip + bias))",
	MinIn: 4, MaxIn: 5, MinOut: 1, MaxOut: 2,
	Attrs: msGroupNormAttrs, Infer: rule(firstType(2)), Facts: Facts{Traits: general, Cost: normCost},
	Eval: floatKernel(evalGroupNormLast[float32], evalGroupNormLast[float64]),
}

// BiasAdd is Y = X + bias + skip, the bias along the last dimension.
var BiasAdd = Op{
	Domain: microsoft, Name: "BiasAdd", Since: 1, Doc: "Y = X + bias + skip",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: floatKernel(evalBiasAdd[float32], evalBiasAdd[float64]),
}

func evalBiasAdd[T float32 | float64](c *Call) {
	x := tensor(c, 0)
	bias := spread[T]("bias", tensor(c, 1), x.Shape)
	skip := spread[T]("skip", tensor(c, 2), x.Shape)
	sum := slices.Clone(elements[T](x))
	scaleShift(sum, nil, bias)
	scaleShift(sum, nil, skip)
	y := newResult[T](c, 0, x.DType, x.Shape...)
	copy(y.V, sum)
	y.store()
}

func evalGroupNormLast[T float32 | float64](c *Call) {
	x := tensor(c, 0)
	groups, act := int(Int(c.Node, "groups")), Int(c.Node, "activation")
	if x.Rank() < 3 || act != 0 && act != 1 {
		failf("X of shape %v with activation=%d", x.Shape, act)
	}
	sum := skipSum[T](c)
	last := Int(c.Node, "channels_last") != 0
	shape := x.Shape
	if last {
		shape = firstShape(shape)
		sum = channelsFirst(sum, shape[0], sizeOf(shape[2:]), shape[1])
	}
	ch, plane := shape[1], sizeOf(shape[2:])
	if groups < 1 || ch%groups != 0 {
		failf("%d groups do not divide %d channels", groups, ch)
	}
	for i, what := range []string{"gamma", "beta"} {
		wantShape(what, c.Array(1+i), ch)
	}
	size := ch / groups * plane
	for at := 0; at < len(sum); at += size {
		standardize(sum[at:at+size], sum[at:at+size], float64(Float(c.Node, "epsilon")), true)
	}
	gamma, beta := elements[T](tensor(c, 1)), elements[T](tensor(c, 2))
	for i := range sum {
		k := i / plane % ch
		sum[i] = sum[i]*gamma[k] + beta[k]
	}
	if act == 1 {
		activate(sum, silu)
	}
	if last {
		sum = channelsLast(sum, shape[0], ch, plane)
	}
	y := newResult[T](c, 0, x.DType, x.Shape...)
	copy(y.V, sum)
	y.store()
}

// skipSum is X + skip + bias, stored as result 1 where wanted.
func skipSum[T realNum](c *Call) []T {
	x, skip := c.Array(0), c.Array(3)
	sum := slices.Clone(elements[T](x))
	if skip != nil && skip.Rank() == 2 { // [N,C] for all positions
		shape := make([]int, x.Rank())
		for i := range shape {
			shape[i] = 1
		}
		shape[0], shape[len(shape)-1] = skip.Shape[0], skip.Shape[1]
		skip = skip.Reshaped(shape...)
	}
	for i, a := range []*ndarray.Array{skip, c.Array(4)} {
		v := spread[T]([]string{"skip", "bias"}[i], a, x.Shape)
		scaleShift(sum, nil, v)
	}
	setResult(c, 1, x.DType, x.Shape, sum)
	return sum
}
