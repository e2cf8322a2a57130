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
		return nil, &gorgonia.DenseError{Tensor: fmt.Sprintf("a %T", t), Reason: "it is no dense tensor"}
	}
	return gorgonia.ArrayOf(d)
}

// dtypeOf is the element type that tensors of a Dtype have as arrays, Undefined if there is none.
func dtypeOf(t tensor.Dtype) ndarray.DType {
	a, err := arrayOf(tensor.New(tensor.Of(t), tensor.WithShape(1)))
	if err != nil {
		return ndarray.Undefined
	}
	return a.DType
}

// denseOf views a value as a tensor over the same memory.
func denseOf(v ndarray.Value) (tensor.Tensor, error) {
	if _, ok := v.(*ndarray.Array); !ok {
		return nil, fmt.Errorf("it is %s; onnx-go carries tensors only, berth.Model.RunValues the others", ndarray.Describe(v))
	}
	return gorgonia.DenseOf(v)
}
