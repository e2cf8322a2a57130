package expr

import (
	"errors"
	"fmt"
)

// ShapeError reports shapes that do not fit: operands that do not broadcast, an expression that
// has not the shape of what it is assigned to, an index outside of its dimension.
type ShapeError struct {
	Op     string  // operator, or function of this package
	Shapes [][]int // of the operands, or of what was given
	Reason string
}

// Error names the operator, the shapes and what is wrong.
func (e *ShapeError) Error() string {
	return fmt.Sprintf("%s of shapes %v: %s", e.Op, e.Shapes, e.Reason)
}

// TypeError reports element types or operands that an operator does not take.
type TypeError struct {
	Op     string // operator, or function of this package
	Reason string
	Err    error // what the operator's rule says, if that is the cause
}

// Error names the operator and what is wrong.
func (e *TypeError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return e.Op + ": " + e.Reason
}

// Unwrap returns the cause.
func (e *TypeError) Unwrap() error { return e.Err }

// AliasError reports a destination that can not be written to, because some of its elements share
// their memory.
type AliasError struct {
	Shape, Strides []int // of the destination
}

// Error shows the destination.
func (e *AliasError) Error() string {
	return fmt.Sprintf("elements of the destination of shape %v and strides %v share their memory: assign to a tensor without broadcasts", e.Shape, e.Strides)
}

// Errors of arguments.
var (
	errTooDeep    = fmt.Errorf("the expression is more than %d operators deep: assign a part of it to a tensor, and read that", maxDepth)
	errNilContext = errors.New("the context is nil")
	errNilValue   = errors.New("an operand is nil, or the zero value")
	errOtherModel = errors.New("an operand is an input or output of another model; models are extended, and run, one by one")
)
