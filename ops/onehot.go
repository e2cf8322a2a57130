package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// OneHot marks indices in a new dimension: https://onnx.ai/onnx/operators/onnx__OneHot.html
//
//	output[…, k, …] = on  if k = indices[…] (negative ones count from depth), else off
//
// values holds off and on. Indices outside of [-depth, depth) mark nothing.
var OneHot = Op{
	Name: "OneHot", Since: 28, Form: oneHotForm, Doc: "output = one-hot code of indices along axis",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", -1)},
	Infer: rule(inferOneHot), Eval: kernel(evalOneHot),
	Facts: Facts{Traits: general, Cost: moveCost},
}

func oneHotForm(n *ssa.Node) int {
	idx, ok := ConstInts(n, 0)
	negative := func(i int64) bool { return i < 0 }
	if Int(n, "axis") < -1 || !ok || slices.ContainsFunc(idx, negative) {
		return typeForm(11, 28)(n)
	}
	return typeForm(9, 28)(n)
}

func inferOneHot(n *ssa.Node) []Inferred {
	t, dt := InType(n, 0), InType(n, 2).DType
	if !t.Ranked {
		return One(ssa.UnrankedTensor(dt))
	}
	axis := try(NormAxis(Int(n, "axis"), len(t.Shape)+1))
	depth := ssa.Dim{}
	if d := known(n, 1); len(d) == 1 {
		depth = d[0]
	}
	return One(ssa.TensorOf(dt, slices.Insert(slices.Clone(t.Shape), axis, depth)...))
}

func evalOneHot(c *Call) {
	ix := tensor(c, 0)
	d := tensor(c, 1)
	values := tensor(c, 2)
	if d.Len() != 1 || values.Len() != 2 {
		failf("depth %s must have one element, values %s two", d, values)
	}
	axis := try(NormAxis(Int(c.Node, "axis"), ix.Rank()+1))
	depth := shapeOfInts([]int64{d.Int(0)})
	shape := slices.Insert(slices.Clone(ix.Shape), axis, depth[0])
	try(ndarray.ByteSize(values.DType, shape))
	out := result(c, 0, values.DType, shape...)
	fillWhole(out, values) // its first element is off
	outer, dim, inner := splitDims(shape, axis)
	for i := range outer * inner {
		if k, err := wrapIndex(ix.Int(i), dim); err == nil {
			copyElems(out, (i/inner*dim+k)*inner+i%inner, values, 1, 1)
		}
	}
}
