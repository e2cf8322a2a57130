package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Where chooses between two tensors: https://onnx.ai/onnx/operators/onnx__Where.html
// All three operands broadcast.
var Where = ops.Op{
	Name: "Where", Since: 16, Doc: "out = condition ? X : Y", Form: kit.SinceTypes(9, 16, ndarray.BFloat16),
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(inferWhere), Eval: kit.Kernel(evalWhere),
	Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.ZeroSignPassed)},
}

func inferWhere(n *ssa.Node) []ops.Inferred {
	t := kit.Try(ops.BroadcastTypes(kit.SameDType(n, 1, 2), ops.InType(n, 0), ops.InType(n, 1), ops.InType(n, 2)))
	return kit.FactOf(t, whereContent(n, t))
}

// whereContent follows elements whose condition is known, and those where both
// choices are the same.
func whereContent(n *ssa.Node, t ssa.Type) []ssa.Dim {
	if t.Rank() < 0 || t.Rank() > 1 || !kit.TracksContent(t.DType) {
		return nil
	}
	size, ok := t.NumElems().Const()
	if !ok || size > ssa.MaxContent {
		return nil
	}
	cond, x, y := kit.Known(n, 0), kit.Known(n, 1), kit.Known(n, 2)
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

func evalWhere(c *ops.Call) {
	cond, x, y := kit.Tensor(c, 0), kit.Tensor(c, 1), kit.Tensor(c, 2)
	if cond.DType != ndarray.Bool || x.DType != y.DType {
		kit.Failf("operands are %s, %s and %s; the first must be bool, the others of one type", cond.DType, x.DType, y.DType)
	}
	shape := kit.Try(ops.BroadcastShapes(cond.Shape, x.Shape, y.Shape))
	out := kit.Result(c, 0, x.DType, shape...)
	w := kit.NewWalk(c, shape, cond.Shape, x.Shape, y.Shape)
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
func choose[T any](w kit.Walk, out []T, cond []byte, x, y []T) {
	w.Each(func(o int, at []int) {
		v := y[at[2]]
		if cond[at[0]] != 0 {
			v = x[at[1]]
		}
		out[o] = v
	})
}
