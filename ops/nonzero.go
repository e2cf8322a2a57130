package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// NonZero lists the positions of elements that are not zero:
// https://onnx.ai/onnx/operators/onnx__NonZero.html
//
// Column i of the result is the multi-index of the i-th such element in
// row-major order.
var NonZero = Op{
	Name: "NonZero", Since: 13, Form: typeForm(9, 13), Doc: "Y[:, i] = position of the i-th non-zero element",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: ignoring.but(ExtentBounded)}, Infer: rule(func(n *ssa.Node) []Inferred {
		rows := ssa.Dim{}
		if r := InType(n, 0).Rank(); r >= 0 {
			rows = ssa.D(int64(r))
		}
		return One(ssa.TensorOf(ndarray.Int64, rows, ssa.Dim{}))
	}),
	Eval: kernel(evalNonZero),
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

func evalNonZero(c *Call) {
	a := tensor(c, 0)
	set := truthTest(a)
	var found []int
	for i, n := 0, a.Len(); i < n; i++ {
		if set(i) {
			found = append(found, i)
		}
	}
	out := result(c, 0, ndarray.Int64, a.Rank(), len(found))
	y := ndarray.Slice[int64](out)
	for k, stride := range Strides(a.Shape) {
		for i, at := range found {
			y[k*len(found)+i] = int64(at / stride % a.Shape[k])
		}
	}
}
