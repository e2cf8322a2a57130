package kit

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// StaticOperands describes values for a kernel, the zero description for absent ones; false unless all are of known
// size, with elements of a fixed width, and describe accepts them.
func StaticOperands[T any](values []*ssa.Value, describe func(v *ssa.Value, shape []int, n int) (T, bool)) ([]T, bool) {
	out := make([]T, len(values))
	for i, v := range values {
		if v == nil {
			continue
		}
		shape, ok := v.Type.Static()
		if !ok || v.Type.DType == ndarray.String || v.Type.DType == ndarray.Undefined {
			return nil, false
		}
		n, err := ndarray.NumElems(shape)
		if err != nil {
			return nil, false
		}
		if out[i], ok = describe(v, shape, n); !ok {
			return nil, false
		}
	}
	return out, true
}
