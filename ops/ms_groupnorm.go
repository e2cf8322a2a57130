package ops

import (
	"fmt"
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
	Eval: func(c *Call) error { return byReal(c, 0, evalGroupNormLast[float32], evalGroupNormLast[float64]) },
}

// SkipGroupNorm is GroupNorm of X + skip + bias, which is result 1. The skip may
// be the same for all positions.
var SkipGroupNorm = Op{
	Domain: microsoft, Name: "SkipGroupNorm", Since: 1, Doc: "Y = act(GroupNormalization(X + skip + bias))",
	MinIn: 4, MaxIn: 5, MinOut: 1, MaxOut: 2,
	Attrs: msGroupNormAttrs, Infer: firstType(2), Facts: Facts{Traits: general, Cost: normCost},
	Eval: func(c *Call) error { return byReal(c, 0, evalGroupNormLast[float32], evalGroupNormLast[float64]) },
}

// BiasAdd is Y = X + bias + skip, the bias along the last dimension.
var BiasAdd = Op{
	Domain: microsoft, Name: "BiasAdd", Since: 1, Doc: "Y = X + bias + skip",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: func(c *Call) error { return byReal(c, 0, evalBiasAdd[float32], evalBiasAdd[float64]) },
}

func evalBiasAdd[T float32 | float64](c *Call) error {
	if err := wantArrays(c, 3); err != nil {
		return err
	}
	x := c.Array(0)
	bias, err := spread[T]("bias", c.Array(1), x.Shape)
	if err != nil {
		return err
	}
	skip, err := spread[T]("skip", c.Array(2), x.Shape)
	if err != nil {
		return err
	}
	sum := slices.Clone(reals[T](x))
	scaleShift(sum, nil, bias)
	scaleShift(sum, nil, skip)
	y, err := newReal[T](c, 0, x.DType, x.Shape...)
	if err != nil {
		return err
	}
	copy(y.V, sum)
	return y.store()
}

func evalGroupNormLast[T float32 | float64](c *Call) error {
	if err := wantArrays(c, 3); err != nil {
		return err
	}
	x := c.Array(0)
	groups, act := int(Int(c.Node, "groups")), Int(c.Node, "activation")
	if x.Rank() < 3 || act != 0 && act != 1 {
		return fmt.Errorf("X of shape %v with activation=%d", x.Shape, act)
	}
	sum, err := skipSum[T](c)
	if err != nil {
		return err
	}
	last := Int(c.Node, "channels_last") != 0
	shape := x.Shape
	if last {
		shape = firstShape(shape)
		sum = channelsFirst(sum, shape[0], sizeOf(shape[2:]), shape[1])
	}
	ch, plane := shape[1], sizeOf(shape[2:])
	if groups < 1 || ch%groups != 0 {
		return fmt.Errorf("%d groups do not divide %d channels", groups, ch)
	}
	for i, what := range []string{"gamma", "beta"} {
		if err := wantShape(what, c.Array(1+i), ch); err != nil {
			return err
		}
	}
	size := ch / groups * plane
	for at := 0; at < len(sum); at += size {
		standardize(sum[at:at+size], sum[at:at+size], float64(Float(c.Node, "epsilon")), true)
	}
	gamma, beta := reals[T](c.Array(1)), reals[T](c.Array(2))
	for i := range sum {
		k := i / plane % ch
		sum[i] = sum[i]*gamma[k] + beta[k]
	}
	if act == 1 {
		activate(sum, func(v float64) float64 { return v * sigmoid(v) })
	}
	if last {
		sum = channelsLast(sum, shape[0], ch, plane)
	}
	y, err := newReal[T](c, 0, x.DType, x.Shape...)
	if err != nil {
		return err
	}
	copy(y.V, sum)
	return y.store()
}

// skipSum is X + skip + bias, stored as result 1 where wanted.
func skipSum[T realNum](c *Call) ([]T, error) {
	x, skip := c.Array(0), c.Array(3)
	sum := slices.Clone(reals[T](x))
	if skip != nil && skip.Rank() == 2 { // [N,C] for all positions
		shape := make([]int, x.Rank())
		for i := range shape {
			shape[i] = 1
		}
		shape[0], shape[len(shape)-1] = skip.Shape[0], skip.Shape[1]
		skip = skip.Reshaped(shape...)
	}
	for i, a := range []*ndarray.Array{skip, c.Array(4)} {
		v, err := spread[T]([]string{"skip", "bias"}[i], a, x.Shape)
		if err != nil {
			return nil, err
		}
		scaleShift(sum, nil, v)
	}
	return sum, storeWanted(c, 1, x, sum)
}
