package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ConvInteger is convolution of small integers into int32: https://onnx.ai/onnx/operators/onnx__ConvInteger.html
//
//	y = (w - w_zero_point) * (x - x_zero_point)
//
// Padding stands for x_zero_point. w_zero_point may have one element per output
// channel.
var ConvInteger = Op{
	Name: "ConvInteger", Since: 10, Doc: "y = (w - w_zero_point) * (x - x_zero_point) in int32",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: convAttrs,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferConv(n, 0, 1, ndarray.Int32)
		return One(t)
	}),
	Eval: kernel(evalConvInteger), Facts: Facts{Cost: convCost(1)},
}

func evalConvInteger(c *Call) {
	s, x, w := quantConv(c, [4]*ndarray.Array{tensor(c, 0), tensor(c, 1), c.Array(2), c.Array(3)})
	y := result(c, 0, ndarray.Int32, s.yShape()...)
	convolve(&s, x, w, nil, ndarray.Slice[int32](y))
}

// quantConv binds an integer convolution of x, w and their zero points and
// returns both operands less their zero points.
func quantConv(c *Call, in [4]*ndarray.Array) (s convShape, x, w []int32) {
	for i, what := range []string{"x", "w"} {
		if !byteInts.has(in[i].DType) {
			check(unsupportedType(in[i].DType))
		}
		sameOrAbsent(what, in[i], in[2+i])
	}
	s = convShapeOf(c.Node, in[0].Shape, in[1].Shape)
	wantLen1("x_zero_point", in[2])
	x = centered32("x", in[0], in[2])
	w = centered32("w", in[1], perChannel(in[3], in[1].Rank()))
	return s, x, w
}

// wantLen1 checks that an operand, if present, is one number.
func wantLen1(what string, a *ndarray.Array) { wantLen(what, a, 1) }
