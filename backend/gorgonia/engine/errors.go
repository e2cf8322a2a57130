package engine

import (
	"errors"
	"fmt"

	"gorgonia.org/tensor"
)

// Error says which operation of an engine failed, and why.
type Error struct {
	Op  string // the method, or the operator of ONNX that computes it
	Err error  // a [*github.com/berth-onnx/berth/backend/gorgonia.DenseError] where a tensor can not be read or written, an [*github.com/berth-onnx/berth/ops.MemoryError] where there is no memory
}

// Error names the operation and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// naming is deferred by operations: it makes their errors [*Error].
func naming(op string, err *error) {
	var named *Error
	if *err != nil && !errors.As(*err, &named) {
		*err = &Error{op, *err}
	}
}

// typeError is a tensor for a result of another element type.
func typeError(to *tensor.Dense, result tensor.Dtype) error {
	return fmt.Errorf("the tensor of WithReuse, WithIncr or UseUnsafe has elements of type %s, the result has %s", to.Dtype(), result)
}
