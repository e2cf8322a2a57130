package backward

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ConvWeights is the derivative of a convolution by its weights, from its operand X [N, C, …] and the derivative D [N, M, …] by its result:
//
//	W[m,c,k] = Σ over n and o of D[n,m,o] · X[n,c, o*stride + k*dilation - pad]
var ConvWeights = ops.Op{
	Domain: ops.Private, Name: "ConvWeights", Since: 1, Doc: "W = derivative of a convolution by its weights",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: windowAttrs(ops.IntAttr("group", 1)),
	Infer: kit.Rule(inferConvWeights),
	Eval:  kit.FloatKernel(evalConvWeights[float32], evalConvWeights[float64]),
	Facts: ops.Facts{Traits: ops.IgnoringTraits.But(ops.FailsNever), Cost: convWeightsCost},
}

func init() { ops.Register(&ConvWeights, &MaxPoolGradient, &Accumulate) }

func inferConvWeights(n *ssa.Node) []ops.Inferred {
	x, d := ops.InType(n, 0), ops.InType(n, 1)
	kernel := ops.Ints(n, "kernel_shape")
	if !x.Ranked || !d.Ranked || len(x.Shape) != len(kernel)+2 || len(d.Shape) != len(kernel)+2 {
		kit.Check(fmt.Errorf("operands %s and %s for a kernel of %d dimensions", x, d, len(kernel)))
	}
	channels, ok := x.Shape[1].Const()
	group := ops.Int(n, "group")
	if !ok || group < 1 || channels%group != 0 {
		kit.Check(fmt.Errorf("%s channels in %d groups", x.Shape[1], group))
	}
	dims := []ssa.Dim{d.Shape[1], ssa.D(channels / group)}
	for _, k := range kernel {
		dims = append(dims, ssa.D(k))
	}
	return ops.One(ssa.TensorOf(x.DType, dims...))
}

func convWeightsCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	d, okD := n.In[1].Type.Static()
	w, okW := n.Out[0].Type.Static()
	if okD && okW {
		c.FLOPs = 2 * int64(kit.SizeOf(w)) * int64(d[0]*kit.SizeOf(d[2:]))
	}
	return c
}

func evalConvWeights[T float32 | float64](c *ops.Call) {
	xs, ds := c.Array(0).Shape, c.Array(1).Shape
	g, group := geometryOf(c, xs[2:], ds[2:]), int(ops.Int(c.Node, "group"))
	shape := []int{ds[1], xs[1] / group}
	for _, k := range ops.Ints(c.Node, "kernel_shape") {
		shape = append(shape, int(k))
	}
	y := kit.NewResult[T](c, 0, c.Array(0).DType, shape...)
	x, d, w := kit.Elements[T](c, c.Array(0)), kit.Elements[T](c, c.Array(1)), kit.Watching(c)
	channels, filters, taps := xs[1]/group, ds[1]/group, g.kernel[0]*g.kernel[1]
	in, out := g.in[0]*g.in[1], g.out[0]*g.out[1]
	for i := range y.V {
		m, ch, tap := i/(channels*taps), i/taps%channels, i%taps
		w.Did(xs[0] * out)
		sum := T(0)
		for n := range xs[0] {
			from, by := x[(n*xs[1]+m/filters*channels+ch)*in:][:in], d[(n*ds[1]+m)*out:][:out]
			for row := range g.out[0] {
				lo, hi, at := g.line(row, tap/g.kernel[1], tap%g.kernel[1])
				for o := lo; o < hi; o++ {
					sum += by[row*g.out[1]+o] * from[at]
					at += g.strides[1]
				}
			}
		}
		y.V[i] = sum
	}
	y.Store()
}
