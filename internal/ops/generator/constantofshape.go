package generator

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ConstantOfShape fills a shape with one value: https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
var ConstantOfShape = ops.Op{
	Name: "ConstantOfShape", Since: 25, Form: kit.TypeForm(9, 20, 21, 23, 24, 25), Doc: "output[i] = value, with shape input",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.TensorAttr("value")},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferConstantOfShape), Eval: kit.Kernel(evalConstantOfShape),
}

// fillValue returns the one element of attribute value, float32 0 without it.
func fillValue(n *ssa.Node) *ndarray.Array {
	a := n.Attr("value")
	if a == nil {
		return ndarray.Scalar(float32(0))
	}
	if a.Tensor == nil || a.Tensor.Len() != 1 {
		kit.Failf("attribute value must hold a tensor of one element")
	}
	return kit.Try(a.Tensor.Array())
}

func inferConstantOfShape(n *ssa.Node) []ops.Inferred {
	v := fillValue(n)
	dims := kit.ShapeOperand(n, 0)
	if dims == nil {
		return ops.One(ssa.UnrankedTensor(v.DType))
	}
	kit.CheckDims(dims)
	t := ssa.TensorOf(v.DType, dims...)
	k, ok := t.NumElems().Const()
	if !ok || k > ssa.MaxContent || !kit.TracksContent(v.DType) {
		return ops.One(t)
	}
	content := make([]ssa.Dim, k)
	for i := range content {
		content[i] = kit.FloatDim(v.Float(0))
		if v.DType.IsInteger() {
			content[i] = ssa.D(v.Int(0))
		}
	}
	return kit.FactOf(t, content)
}

func evalConstantOfShape(c *ops.Call) {
	v := fillValue(c.Node)
	kit.FillWhole(c, kit.Result(c, 0, v.DType, kit.ShapeOfInts(kit.Ints(c, 0))...), v)
}
