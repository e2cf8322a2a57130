package gorgonia

import (
	"context"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// DenseError says why a tensor is no array of ONNX elements, or a value no tensor.
type DenseError = dense.Error

// ArrayOf views a tensor as an array over the same memory; a sliced, transposed or column-major tensor is copied into
// row-major order first. The error is a [*DenseError], or one of the budget of memory.
func ArrayOf(d *tensor.Dense) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	return dense.ArrayOf(context.Background(), d)
}

// DenseOf views an array as a tensor over the same memory; memory that is not aligned for the element type is copied. The
// error is a [*DenseError], also for values that are no tensors, or an [*ndarray.ShapeError].
func DenseOf(v ndarray.Value) (_ *tensor.Dense, err error) {
	defer rescue.Into(&err)
	return dense.Of(v)
}
