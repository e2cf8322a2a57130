// Package rescue turns panics into errors at the border of a package. Every exported function
// that returns an error defers [Into] before it does any work, so that no argument, however
// wrong, brings the caller down.
package rescue

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic caught at an API border: a bug in berth, or arguments that break what a
// function documents. Stack is for reports, not for users.
type PanicError struct {
	Value any
	Stack []byte
}

// Error prints the panic's value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v", e.Value) }

// Unwrap returns the panic's value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Into is deferred by the function whose panics become *err:
//
//	func F(g *Graph) (err error) {
//		defer rescue.Into(&err)
func Into(err *error) {
	if r := recover(); r != nil {
		*err = &PanicError{Value: r, Stack: debug.Stack()}
	}
}
