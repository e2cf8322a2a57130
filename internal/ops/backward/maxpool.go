package backward

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MaxPoolGradient is the derivative of a MaxPool by its operand, from that operand X and the derivative D by its result: each element of D is
// added where the first maximum of its window is. Where windows do not overlap the result may lie over X. Which element of a window that
// holds a NaN gets it is not said.
var MaxPoolGradient = ops.Op{
	Domain: ops.Private, Name: "MaxPoolGradient", Since: 1, Doc: "derivative of a maximum over windows",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: windowAttrs(),
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return ops.One(ops.InType(n, 0)) }),
	Eval:  kit.FloatKernel(evalMaxPoolGradient[float32], evalMaxPoolGradient[float64]),
	Facts: ops.Facts{Traits: ops.PassingTraits, InPlace: overOperand},
}

// overOperand pairs the result with X where a window is written before the next one is read.
func overOperand(n *ssa.Node) []ops.Pair {
	isOne := func(v int64) bool { return v == 1 }
	isNone := func(v int64) bool { return v == 0 }
	all := func(list []int64, is func(int64) bool) bool {
		return !slices.ContainsFunc(list, func(v int64) bool { return !is(v) })
	}
	if !slices.Equal(ops.Ints(n, "kernel_shape"), ops.Ints(n, "strides")) || !all(ops.Ints(n, "dilations"), isOne) || !all(ops.Ints(n, "pads"), isNone) {
		return nil
	}
	return kit.InPlaceFirst(n)
}

func evalMaxPoolGradient[T float32 | float64](c *ops.Call) {
	xs, ds := c.Array(0).Shape, c.Array(1).Shape
	g := geometryOf(c, xs[2:], ds[2:])
	x, d, w := kit.Elements[T](c, kit.Beside(c, 0, 0)), kit.Elements[T](c, c.Array(1)), kit.Watching(c)
	y := kit.NewResult[T](c, 0, c.Array(0).DType, xs...)
	clear(y.V)
	in, out := g.in[0]*g.in[1], g.out[0]*g.out[1]
	for i, v := range d {
		w.Did(g.kernel[0] * g.kernel[1])
		plane, best := x[i/out*in:][:in], -1
		for tap := range g.kernel[0] * g.kernel[1] {
			at, ok := g.at(i%out/g.out[1], i%g.out[1], tap/g.kernel[1], tap%g.kernel[1])
			if ok && (best < 0 || plane[at] > plane[best]) {
				best = at
			}
		}
		if best >= 0 {
			y.V[i/out*in+best] += v
		}
	}
	y.Store()
}
