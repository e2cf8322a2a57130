package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// NonZero lists the positions of elements that are not zero:
// https://onnx.ai/onnx/operators/onnx__NonZero.html
//
// Column i of the result is the multi-index of the i-th such element in
// row-major order.
var NonZero = ops.Op{
	Name: "NonZero", Since: 13, Form: kit.TypeForm(9, 13), Doc: "Y[:, i] = position of the i-th non-zero element",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.IgnoringTraits.But(ops.ExtentBounded)}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		rows := ssa.Dim{}
		if r := ops.InType(n, 0).Rank(); r >= 0 {
			rows = ssa.D(int64(r))
		}
		return ops.One(ssa.TensorOf(ndarray.Int64, rows, ssa.Dim{}))
	}),
	Eval: kit.Kernel(evalNonZero),
}

// truthTest returns whether element i differs from zero; NaN does, and any
// string but the empty one.
func truthTest(a *ndarray.Array) func(i int) bool {
	switch a.DType {
	case ndarray.String:
		return func(i int) bool { return a.Str[i] != "" }
	case ndarray.Complex64:
		return func(i int) bool { return ndarray.Slice[complex64](a)[i] != 0 }
	case ndarray.Complex128:
		return func(i int) bool { return ndarray.Slice[complex128](a)[i] != 0 }
	}
	if a.DType.IsFloat() {
		return func(i int) bool { return a.Float(i) != 0 }
	}
	return func(i int) bool { return a.Int(i) != 0 }
}

func evalNonZero(c *ops.Call) {
	a := kit.Tensor(c, 0)
	set := truthTest(a)
	var found []int
	w := kit.Watching(c)
	for i := range a.Len() {
		w.Did(1)
		if set(i) {
			found = kit.Append(c, found, i)
		}
	}
	out := kit.Result(c, 0, ndarray.Int64, a.Rank(), len(found))
	y := ndarray.Slice[int64](out)
	for k, stride := range ops.Strides(a.Shape) {
		for i, at := range found {
			w.Did(1)
			y[k*len(found)+i] = int64(at / stride % a.Shape[k])
		}
	}
}
