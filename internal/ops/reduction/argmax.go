package reduction

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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

func argOp(name, doc string, sign int) ops.Op {
	return ops.Op{
		Name: name, Since: 13, Doc: doc, Form: argForm,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 0), ops.IntAttr("keepdims", 1), ops.IntAttr("select_last_index", 0).From(12)},
		Infer: kit.Rule(inferArg), Eval: kit.Kernel(func(c *ops.Call) { evalArg(c, sign) }),
		Facts: ops.Facts{Traits: ops.IgnoringTraits, Smaller: argSmaller, Cost: kit.ReadCost},

		Downgrades: []ops.Downgrade{kit.PositiveAxes(0, argForm)},
	}
}

// argSmaller is the Smaller fact of ArgMax and ArgMin.
func argSmaller(n *ssa.Node) []ops.Pair {
	mask := make([]bool, n.In[0].Type.Rank())
	axis, err := ops.NormAxis(ops.Int(n, "axis"), len(mask))
	if err != nil {
		return nil
	}
	mask[axis] = true
	return innerReduced(n, mask)
}

func argForm(n *ssa.Node) int {
	switch {
	case ops.InType(n, 0).DType == ndarray.BFloat16:
		return 13
	case ops.Int(n, "axis") < 0:
		return 11
	}
	return 1
}

func inferArg(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(ssa.UnrankedTensor(ndarray.Int64))
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
	return ops.One(ssa.TensorOf(ndarray.Int64, withoutAxis(n, t.Shape, axis, ssa.D(1))...))
}

// withoutAxis is the shape of the result: axis has one position with keepdims, else
// it is dropped.
func withoutAxis[T any](n *ssa.Node, shape []T, axis int, one T) []T {
	if ops.Int(n, "keepdims") != 0 {
		return kit.WithDim(shape, axis, one)
	}
	return slices.Delete(slices.Clone(shape), axis, axis+1)
}

func evalArg(c *ops.Call, sign int) {
	a := kit.Tensor(c, 0)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), len(a.Shape)))
	better := orderOf(c, a, sign)
	outer, size, inner := kit.SplitDims(a.Shape, axis)
	if size == 0 && outer*inner > 0 {
		kit.Check(kit.ErrEmptyAxis)
	}
	out := kit.Result(c, 0, ndarray.Int64, withoutAxis(c.Node, a.Shape, axis, 1)...)
	o, last := ndarray.Slice[int64](out), ops.Int(c.Node, "select_last_index") != 0
	w := kit.Watching(c)
	for i := range o {
		w.Did(1)
		base := i/inner*size*inner + i%inner
		best := 0
		for k := 1; k < size; k++ {
			w.Did(1)
			if x := better(base+k*inner, base+best*inner); x > 0 || last && x == 0 {
				best = k
			}
		}
		o[i] = int64(best)
	}
}
