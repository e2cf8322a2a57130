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
	Infer: func(n *ssa.Node) ([]Inferred, error) {
		t, err := inferConv(n, 0, 1, ndarray.Int32)
		return One(t), err
	},
	Eval: evalConvInteger, Facts: Facts{Cost: convCost(1)},
}

func evalConvInteger(c *Call) error {
	if err := wantArrays(c, 2); err != nil {
		return err
	}
	s, x, w, err := quantConv(c, [4]*ndarray.Array{c.Array(0), c.Array(1), c.Array(2), c.Array(3)})
	if err != nil {
		return err
	}
	y, err := c.Output(0, ndarray.Int32, s.yShape()...)
	if err != nil {
		return err
	}
	convolve(&s, x, w, nil, ndarray.Slice[int32](y))
	return nil
}

// quantConv binds an integer convolution of x, w and their zero points and
// returns both operands less their zero points.
func quantConv(c *Call, in [4]*ndarray.Array) (s convShape, x, w []int32, err error) {
	for i, what := range []string{"x", "w"} {
		if !byteInts.has(in[i].DType) {
			return s, nil, nil, unsupportedType(in[i].DType)
		}
		if err := sameOrAbsent(what, in[i], in[2+i]); err != nil {
			return s, nil, nil, err
		}
	}
	if s, err = convShapeOf(c.Node, in[0].Shape, in[1].Shape); err != nil {
		return s, nil, nil, err
	}
	if err = wantLen1("x_zero_point", in[2]); err != nil {
		return s, nil, nil, err
	}
	if x, err = centered32("x", in[0], in[2]); err != nil {
		return s, nil, nil, err
	}
	w, err = centered32("w", in[1], perChannel(in[3], in[1].Rank()))
	return s, x, w, err
}

// wantLen1 checks that an operand, if present, is one number.
func wantLen1(what string, a *ndarray.Array) error { return wantLen(what, a, 1) }
