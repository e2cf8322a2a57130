package ops

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Experimental operators of the default domain. The standard dropped them with
// operator set 10; converters of those years wrote them into files, and ONNX
// Runtime still runs them.
// https://github.com/onnx/onnx/blob/rel-1.4.1/docs/Operators.md#experimental-onnx-operators

// Affine is alpha*X + beta.
var Affine = mappedOp("Affine", "Y = alpha * X + beta", []AttrSpec{floatAttr("alpha", 1), floatAttr("beta", 0)}, func(x, alpha, beta float64) float64 { return alpha*x + beta }).but(ZeroSignRead)

// ParametricSoftplus is alpha * ln(1 + e^(beta*X)).
var ParametricSoftplus = mappedOp("ParametricSoftplus", "Y = alpha * ln(1 + exp(beta * X))", []AttrSpec{floatAttr("alpha"), floatAttr("beta")}, func(x, alpha, beta float64) float64 { return alpha * softplus(beta*x) }).but(ZeroSignRead)

// ScaledTanh is alpha * tanh(beta*X).
var ScaledTanh = mappedOp("ScaledTanh", "Y = alpha * tanh(beta * X)", []AttrSpec{floatAttr("alpha"), floatAttr("beta")}, func(x, alpha, beta float64) float64 { return alpha * math.Tanh(beta*x) }).but(ZeroSignPassed)

// mappedOp is an elementwise operator with two parameters.
func mappedOp(name, doc string, attrs []AttrSpec, f func(x, alpha, beta float64) float64) Op {
	return Op{
		Name: name, Since: 1, Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: attrs,
		Infer: SameAs, Facts: Facts{Traits: elementwise.but(ZeroSign(0))},
		Eval: kernel(func(c *Call) {
			alpha, beta := float64(Float(c.Node, "alpha")), float64(Float(c.Node, "beta"))
			evalBiased(c, func(x float64) float64 { return f(x, alpha, beta) })
		}),
	}
}

// Scale is scale*X.
var Scale = Op{
	Name: "Scale", Since: 1, Doc: "Y = scale * X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: []AttrSpec{floatAttr("scale", 1)},
	Infer: SameAs, Facts: Facts{Traits: elementwise},
	Eval: kernel(func(c *Call) {
		scale := float64(Float(c.Node, "scale"))
		evalBiased(c, func(x float64) float64 { return scale * x })
	}),
}

// ImageScaler is scale*X plus a bias for every channel of images [N,C,H,W].
var ImageScaler = Op{
	Name: "ImageScaler", Since: 1, Doc: "Y[n,c] = scale * X[n,c] + bias[c]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: []AttrSpec{floatsAttr("bias"), floatAttr("scale", 1)},
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: floatKernel(evalImageScaler[float32], evalImageScaler[float64]),
}

func evalImageScaler[T float32 | float64](c *Call) {
	x := c.Array(0)
	var bias []float32
	if a := c.Node.Attr("bias"); a != nil {
		bias = a.Floats
	}
	if x.Rank() != 4 || len(bias) != x.Shape[1] {
		failf("images of shape %v with %d biases", x.Shape, len(bias))
	}
	y := newResult[T](c, 0, x.DType, x.Shape...)
	scale, plane := T(Float(c.Node, "scale")), x.Shape[2]*x.Shape[3]
	for i, v := range elements[T](x) {
		y.V[i] = v*scale + T(bias[i/plane%len(bias)])
	}
	y.store()
}

// Crop cuts borders [left, top, right, bottom] off images [N,C,H,W]; with scale
// [height, width] it cuts out as much as that from left and top on.
var Crop = Op{
	Name: "Crop", Since: 1, Doc: "Y = X without its borders, or scale of it from left and top on",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: []AttrSpec{intsAttr("border").until(10), intsAttr("border").required().since(10), intsAttr("scale")},
	Infer: rule(func(n *ssa.Node) []Inferred {
		x := InType(n, 0)
		if !x.Ranked {
			return One(x)
		}
		if x.Rank() != 4 {
			failf("images %s, expected [N,C,H,W]", x)
		}
		out := slices.Clone(x.Shape)
		border, scale := Ints(n, "border"), Ints(n, "scale")
		if len(border) != 4 || len(scale) != 0 && len(scale) != 2 {
			failf("border=%v with scale=%v", border, scale)
		}
		for i := range 2 {
			out[2+i] = out[2+i].AddN(-border[1-i]).AddN(-border[3-i])
			if len(scale) > 0 {
				out[2+i] = ssa.D(scale[i])
			}
		}
		return One(ssa.TensorOf(x.DType, out...))
	}),
	Facts: Facts{Traits: general, Cost: moveCost}, Eval: kernel(evalCrop),
}

func evalCrop(c *Call) {
	x := c.Array(0)
	border, scale := Ints(c.Node, "border"), Ints(c.Node, "scale")
	if x.DType == ndarray.String {
		check(unsupportedType(x.DType))
	}
	if x.Rank() != 4 || len(border) != 4 || len(scale) != 0 && len(scale) != 2 {
		failf("images of shape %v with border=%v and scale=%v", x.Shape, border, scale)
	}
	var from, size [2]int64
	for i := range from {
		length := int64(x.Shape[2+i])
		from[i], size[i] = border[1-i], length-border[1-i]-border[3-i]
		if len(scale) > 0 {
			size[i] = scale[i]
		}
		if from[i] < 0 || size[i] < 0 || from[i] > length || size[i] > length-from[i] {
			failf("border=%v and scale=%v cut more than there is of images of shape %v", border, scale, x.Shape)
		}
	}
	out := result(c, 0, x.DType, x.Shape[0], x.Shape[1], int(size[0]), int(size[1]))
	width, line := x.DType.Size(), int(size[1])
	for p := range x.Shape[0] * x.Shape[1] {
		for i := range int(size[0]) {
			at := (p*x.Shape[2]+int(from[0])+i)*x.Shape[3] + int(from[1])
			copy(out.Data[(p*int(size[0])+i)*line*width:][:line*width], x.Data[at*width:])
		}
	}
}

// DynamicSlice is Slice without steps, from before ranges could be operands.
var DynamicSlice = Op{
	Name: "DynamicSlice", Since: 1, Doc: "output = data[starts:ends] along axes",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Infer: rule(inferSlice), Eval: kernel(evalSlice), Facts: Facts{Traits: general, Alias: sliceAlias, Smaller: forwardSlice, Cost: moveCost},
}
