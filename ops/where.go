package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Where chooses between two tensors: https://onnx.ai/onnx/operators/onnx__Where.html
// All three operands broadcast.
var Where = Op{
	Name: "Where", Since: 16, Doc: "out = condition ? X : Y", Form: whereForm,
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: rule(inferWhere), Eval: kernel(evalWhere),
	Facts: Facts{Traits: elementwise.but(ZeroSignPassed)},
}

func whereForm(n *ssa.Node) int {
	if InType(n, 1).DType == ndarray.BFloat16 {
		return 16
	}
	return 9
}

func inferWhere(n *ssa.Node) []Inferred {
	dt := sameDType(n, 1, 2)
	t := try(BroadcastTypes(dt, InType(n, 0), InType(n, 1), InType(n, 2)))
	return factOf(t, whereContent(n, t))
}

// whereContent follows elements whose condition is known, and those where both
// choices are the same.
func whereContent(n *ssa.Node, t ssa.Type) []ssa.Dim {
	if t.Rank() < 0 || t.Rank() > 1 || !followed(t.DType) {
		return nil
	}
	size, ok := t.NumElems().Const()
	if !ok || size > ssa.MaxContent {
		return nil
	}
	cond, x, y := known(n, 0), known(n, 1), known(n, 2)
	out := make([]ssa.Dim, size)
	for i := range out {
		a, b := elemAt(x, i, size), elemAt(y, i, size)
		if k, ok := elemAt(cond, i, size).Const(); ok && k != 0 {
			out[i] = a
		} else if ok || a.Equal(b) {
			out[i] = b
		}
	}
	return out
}

// elemAt is element i of a content that broadcasts to size elements; unknown if
// nothing is known.
func elemAt(content []ssa.Dim, i int, size int64) ssa.Dim {
	switch {
	case len(content) == 1:
		return content[0]
	case int64(len(content)) == size:
		return content[i]
	}
	return ssa.Dim{}
}

func evalWhere(c *Call) {
	cond, x, y := c.Array(0), c.Array(1), c.Array(2)
	if cond == nil || x == nil || y == nil {
		failf("operands are not three tensors")
	}
	if cond.DType != ndarray.Bool || x.DType != y.DType {
		failf("operands are %s, %s and %s; the first must be bool, the others of one type", cond.DType, x.DType, y.DType)
	}
	shape := try(BroadcastShapes(cond.Shape, x.Shape, y.Shape))
	out := result(c, 0, x.DType, shape...)
	w := newWalk(shape, cond.Shape, x.Shape, y.Shape)
	switch {
	case x.DType == ndarray.String:
		choose(w, out.Str, cond.Data, x.Str, y.Str)
	case x.DType.Size() == 1:
		choose(w, out.Data, cond.Data, x.Data, y.Data)
	case x.DType.Size() == 2:
		choose(w, ndarray.Slice[uint16](out), cond.Data, ndarray.Slice[uint16](x), ndarray.Slice[uint16](y))
	case x.DType.Size() == 4:
		choose(w, ndarray.Slice[uint32](out), cond.Data, ndarray.Slice[uint32](x), ndarray.Slice[uint32](y))
	case x.DType.Size() == 8:
		choose(w, ndarray.Slice[uint64](out), cond.Data, ndarray.Slice[uint64](x), ndarray.Slice[uint64](y))
	default:
		choose(w, ndarray.Slice[complex128](out), cond.Data, ndarray.Slice[complex128](x), ndarray.Slice[complex128](y))
	}
}

// choose takes every element of x where cond holds and of y else.
func choose[T any](w walk, out []T, cond []byte, x, y []T) {
	w.each(func(o int, at []int) {
		v := y[at[2]]
		if cond[at[0]] != 0 {
			v = x[at[1]]
		}
		out[o] = v
	})
}
