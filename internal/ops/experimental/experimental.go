package experimental

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/movement"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Experimental operators of the default domain. The standard dropped them with
// operator set 10; converters of those years wrote them into files, and ONNX
// Runtime still runs them.
// https://github.com/onnx/onnx/blob/rel-1.4.1/docs/Operators.md#experimental-onnx-operators

// Affine is alpha*X + beta.
var Affine = mappedOp("Affine", "Y = alpha * X + beta", []*ops.AttrSpec{ops.FloatAttr("alpha", 1), ops.FloatAttr("beta", 0)},
	func(x, alpha, beta float64) float64 { return alpha*x + beta }).But(ops.ZeroSignRead)

// ParametricSoftplus is alpha * ln(1 + e^(beta*X)).
var ParametricSoftplus = mappedOp("ParametricSoftplus", "Y = alpha * ln(1 + exp(beta * X))", []*ops.AttrSpec{ops.FloatAttr("alpha"), ops.FloatAttr("beta")},
	func(x, alpha, beta float64) float64 { return alpha * kit.Softplus(beta*x) }).But(ops.ZeroSignRead)

// ScaledTanh is alpha * tanh(beta*X).
var ScaledTanh = mappedOp("ScaledTanh", "Y = alpha * tanh(beta * X)", []*ops.AttrSpec{ops.FloatAttr("alpha"), ops.FloatAttr("beta")},
	func(x, alpha, beta float64) float64 { return alpha * math.Tanh(beta*x) }).But(ops.ZeroSignPassed)

// mappedOp is an elementwise operator with two parameters.
func mappedOp(name, doc string, attrs []*ops.AttrSpec, f func(x, alpha, beta float64) float64) ops.Op {
	return ops.Op{
		Name: name, Since: 1, Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: attrs,
		Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.ZeroSign(0))},
		Eval: kit.Kernel(func(c *ops.Call) {
			alpha, beta := float64(ops.Float(c.Node, "alpha")), float64(ops.Float(c.Node, "beta"))
			kit.EvalBiased(c, func(x float64) float64 { return f(x, alpha, beta) })
		}),
	}
}

// Scale is scale*X.
var Scale = ops.Op{
	Name: "Scale", Since: 1, Doc: "Y = scale * X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: []*ops.AttrSpec{ops.FloatAttr("scale", 1)},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.ElementwiseTraits},
	Eval: kit.Kernel(func(c *ops.Call) {
		scale := float64(ops.Float(c.Node, "scale"))
		kit.EvalBiased(c, func(x float64) float64 { return scale * x })
	}),
}

// ImageScaler is scale*X plus a bias for every channel of images [N,C,H,W].
var ImageScaler = ops.Op{
	Name: "ImageScaler", Since: 1, Doc: "Y[n,c] = scale * X[n,c] + bias[c]",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: []*ops.AttrSpec{ops.FloatsAttr("bias"), ops.FloatAttr("scale", 1)},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.FloatKernel(evalImageScaler[float32], evalImageScaler[float64]),
}

func evalImageScaler[T float32 | float64](c *ops.Call) {
	x := c.Array(0)
	bias := ops.Floats(c.Node, "bias")
	if x.Rank() != 4 || len(bias) != x.Shape[1] {
		kit.Failf("images of shape %v with %d biases", x.Shape, len(bias))
	}
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	scale, plane := T(ops.Float(c.Node, "scale")), x.Shape[2]*x.Shape[3]
	w := kit.Watching(c)
	for i, v := range kit.Elements[T](c, x) {
		w.Did(1)
		y.V[i] = v*scale + T(bias[i/plane%len(bias)])
	}
	y.Store()
}

// Crop cuts borders [left, top, right, bottom] off images [N,C,H,W]; with scale
// [height, width] it cuts out as much as that from left and top on.
var Crop = ops.Op{
	Name: "Crop", Since: 1, Doc: "Y = X without its borders, or scale of it from left and top on",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1, Attrs: []*ops.AttrSpec{ops.IntsAttr("border").Before(10), ops.IntsAttr("border").Mandatory().From(10), ops.IntsAttr("scale")},
	Infer: kit.Rule(inferCrop), Eval: kit.Kernel(evalCrop),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MoveCost},
}

// cropOf returns the first row and column of the part that stays of images of rank 4,
// and its height and width.
func cropOf(n *ssa.Node, shape []ssa.Dim) (from [2]int64, size [2]ssa.Dim) {
	border, scale := ops.Ints(n, "border"), ops.Ints(n, "scale")
	if len(shape) != 4 || len(border) != 4 || len(scale) != 0 && len(scale) != 2 {
		kit.Failf("images of shape %v with border=%v and scale=%v", shape, border, scale)
	}
	for i := range size {
		from[i], size[i] = border[1-i], shape[2+i].AddN(-border[1-i]).AddN(-border[3-i])
		if len(scale) > 0 {
			size[i] = ssa.D(scale[i])
		}
	}
	return from, size
}

func inferCrop(n *ssa.Node) []ops.Inferred {
	x := ops.InType(n, 0)
	if !x.Ranked {
		return ops.One(x)
	}
	_, size := cropOf(n, x.Shape)
	return ops.One(ssa.TensorOf(x.DType, append(slices.Clone(x.Shape[:2]), size[:]...)...))
}

func evalCrop(c *ops.Call) {
	x := kit.Tensor(c, 0)
	from, size := cropOf(c.Node, ssa.StaticTensor(x.DType, x.Shape...).Shape)
	b := kit.Block{Shape: slices.Clone(x.Shape), Sstr: ops.Strides(x.Shape)}
	for i, d := range size {
		length, k := int64(x.Shape[2+i]), 2+i
		n, _ := d.Const()
		if from[i] < 0 || n < 0 || from[i] > length || n > length-from[i] {
			kit.Failf("%v of images of shape %v from row and column %v on reach out of them", size, x.Shape, from)
		}
		b.Shape[k] = int(n)
		b.Src += int(from[i]) * b.Sstr[k]
	}
	b.Dstr = ops.Strides(b.Shape)
	kit.MoveBlock(c, kit.Result(c, 0, x.DType, b.Shape...), x, b)
}

// DynamicSlice is Slice without steps, from before ranges could be operands.
var DynamicSlice = ops.Op{
	Name: "DynamicSlice", Since: 1, Doc: "output = data[starts:ends] along axes",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(movement.InferSlice), Eval: kit.Kernel(movement.EvalSlice),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Alias: movement.SliceAlias, Smaller: movement.ForwardSlice, Cost: kit.MoveCost},
}
