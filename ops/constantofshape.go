package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ConstantOfShape fills a shape with one value: https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
var ConstantOfShape = Op{
	Name: "ConstantOfShape", Since: 25, Form: typeForm(9, 20, 21, 23, 24, 25), Doc: "output[i] = value, with shape input",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{tensorAttr("value")},
	Facts: Facts{Traits: general}, Infer: rule(inferConstantOfShape), Eval: kernel(evalConstantOfShape),
}

// fillValue returns the one element of attribute value, float32 0 without it.
func fillValue(n *ssa.Node) *ndarray.Array {
	a := n.Attr("value")
	if a == nil {
		return ndarray.Scalar(float32(0))
	}
	if a.Tensor == nil || a.Tensor.Len() != 1 {
		failf("attribute value must hold a tensor of one element")
	}
	return try(a.Tensor.Array())
}

func inferConstantOfShape(n *ssa.Node) []Inferred {
	v := fillValue(n)
	dims := ContentOf(n, 0)
	if dims == nil {
		return One(tensorOfRank(v.DType, lenOf(n, 0)))
	}
	checkDims(dims)
	t := ssa.TensorOf(v.DType, dims...)
	k, ok := t.NumElems().Const()
	if !ok || k > ssa.MaxContent || !followed(v.DType) {
		return One(t)
	}
	content := make([]ssa.Dim, k)
	for i := range content {
		content[i] = floatDim(v.Float(0))
		if v.DType.IsInteger() {
			content[i] = ssa.D(v.Int(0))
		}
	}
	return factOf(t, content)
}

func evalConstantOfShape(c *Call) {
	v := fillValue(c.Node)
	dims := ints(c, 0)
	shape := shapeOfInts(dims)
	out := result(c, 0, v.DType, shape...)
	fillWhole(out, v)
}
