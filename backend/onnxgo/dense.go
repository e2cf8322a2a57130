package onnxgo

import (
	"fmt"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/ndarray"
)

// arrayOf views a tensor as an array over the same memory; one that is not contiguous and row-major is copied.
func arrayOf(t tensor.Tensor) (*ndarray.Array, error) {
	d, ok := t.(*tensor.Dense)
	if !ok {
		return nil, fmt.Errorf("a %T is no dense tensor", t)
	}
	return gorgonia.ArrayOf(d)
}

// denseOf views a value as a tensor over the same memory.
func denseOf(v ndarray.Value) (tensor.Tensor, error) {
	if _, ok := v.(*ndarray.Array); !ok {
		return nil, fmt.Errorf("it is %s; onnx-go carries tensors only, berth.Model.RunValues the others", ndarray.Describe(v))
	}
	return gorgonia.DenseOf(v)
}
