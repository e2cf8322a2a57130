package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ArgMax is the position of the maximum along an axis:
// https://onnx.ai/onnx/operators/onnx__ArgMax.html
// Of equal elements the first counts, or the last with select_last_index; NaN
// counts as the maximum.
var ArgMax = argOp("ArgMax", "Y = position of the maximum along axis", 1)

// ArgMin is the position of the minimum along an axis:
// https://onnx.ai/onnx/operators/onnx__ArgMin.html
// Of equal elements the first counts, or the last with select_last_index; NaN
// counts as the minimum.
var ArgMin = argOp("ArgMin", "Y = position of the minimum along axis", -1)

func argOp(name, doc string, sign int) Op {
	return Op{
		Name: name, Since: 13, Doc: doc, Form: argForm,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []AttrSpec{intAttr("axis", 0), intAttr("keepdims", 1), intAttr("select_last_index", 0).since(12)},
		Infer: rule(inferArg), Eval: kernel(func(c *Call) { evalArg(c, sign) }),
		Facts: Facts{Traits: ignoring, Smaller: argSmaller, Cost: reduceCost},
	}
}

// argSmaller is the Smaller fact of ArgMax and ArgMin.
func argSmaller(n *ssa.Node) []Pair {
	mask := make([]bool, n.In[0].Type.Rank())
	axis, err := NormAxis(Int(n, "axis"), len(mask))
	if err != nil {
		return nil
	}
	mask[axis] = true
	return innerReduced(n, mask)
}

func argForm(n *ssa.Node) int {
	switch {
	case InType(n, 0).DType == ndarray.BFloat16:
		return 13
	case Int(n, "axis") < 0:
		return 11
	}
	return 1
}

func inferArg(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(ssa.UnrankedTensor(ndarray.Int64))
	}
	axis := try(NormAxis(Int(n, "axis"), len(t.Shape)))
	shape := slices.Clone(t.Shape)
	if Int(n, "keepdims") != 0 {
		shape[axis] = ssa.D(1)
	} else {
		shape = slices.Delete(shape, axis, axis+1)
	}
	return One(ssa.TensorOf(ndarray.Int64, shape...))
}

func evalArg(c *Call, sign int) {
	a := tensor(c, 0)
	axis := try(NormAxis(Int(c.Node, "axis"), len(a.Shape)))
	shape := slices.Clone(a.Shape)
	if Int(c.Node, "keepdims") != 0 {
		shape[axis] = 1
	} else {
		shape = slices.Delete(shape, axis, axis+1)
	}
	better := orderOf(a, sign)
	outer, size, inner := splitDims(a.Shape, axis)
	if size == 0 && outer*inner > 0 {
		check(errEmptyAxis)
	}
	out := result(c, 0, ndarray.Int64, shape...)
	o, last := ndarray.Slice[int64](out), Int(c.Node, "select_last_index") != 0
	for i := range o {
		base := i/inner*size*inner + i%inner
		best := 0
		for k := 1; k < size; k++ {
			if x := better(base+k*inner, base+best*inner); x > 0 || last && x == 0 {
				best = k
			}
		}
		o[i] = int64(best)
	}
}
