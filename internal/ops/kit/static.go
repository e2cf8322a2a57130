package kit

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// StaticOperands describes values for a kernel, the zero description for absent ones; false unless all are of known
// size, with elements of a fixed width, and describe accepts them.
func StaticOperands[T any](values []*ssa.Value, describe func(v *ssa.Value, shape []int, n int) (T, bool)) ([]T, bool) {
	out := make([]T, len(values))
	dims := 0
	for _, v := range values {
		if v != nil {
			dims += len(v.Type.Shape)
		}
	}
	all := make([]int, 0, dims) // the shapes of all values
	for i, v := range values {
		if v == nil {
			continue
		}
		if !v.Type.IsStatic() || v.Type.DType == ndarray.String || v.Type.DType == ndarray.Undefined {
			return nil, false
		}
		from := len(all)
		for _, d := range v.Type.Shape {
			k, _ := d.Const()
			all = append(all, int(k))
		}
		shape := all[from:len(all):len(all)]
		n, err := ndarray.NumElems(shape)
		if err != nil {
			return nil, false
		}
		var ok bool
		if out[i], ok = describe(v, shape, n); !ok {
			return nil, false
		}
	}
	return out, true
}
