// Package rescue turns panics into errors at the border of a package. Every exported function
// that returns an error defers [Into] before it does any work, so that no argument, however
// wrong, brings the caller down.
package rescue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// PanicError is a panic caught at an API border: a bug in berth, arguments that break what a
// function documents, or a panic of code of the caller's. Stack is for reports, not for users.
type PanicError struct {
	Of    string // the code of the caller's that panicked, as "the hook"; "" for berth's
	Value any
	Stack []byte
}

// Error prints whose panic it is and its value, without the stack.
func (e *PanicError) Error() string {
	if e.Of != "" {
		return fmt.Sprintf("%s panicked: %v", e.Of, e.Value)
	}
	return fmt.Sprintf("internal error: %v", e.Value)
}

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
		*err = Caught(r)
	}
}

// Caught is the error of a panic, by what recover returned.
func Caught(r any) *PanicError {
	if e, ok := r.(*PanicError); ok {
		return e
	}
	return &PanicError{Value: r, Stack: debug.Stack()}
}

// Call calls a function of the caller's. A panic of it goes on as one that says whose it is.
func Call(of string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			e := Caught(r)
			if e.Of == "" {
				e.Of = of
			}
			panic(e)
		}
	}()
	f()
}

// Go starts a goroutine that reads what may lie in a mapped file: a page that is gone, since the file was cut short, is a
// panic of f there. Goroutines do not inherit [debug.SetPanicOnFault], and without it a fault ends the process.
func Go(f func()) {
	go func() {
		debug.SetPanicOnFault(true)
		f()
	}()
}

// Until calls a function that may block, and leaves it to itself in a goroutine of its own when the context ends. A nil context
// does not end. Where f ends its goroutine, as testing.T.FailNow does, that is an error.
func Until[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx == nil || ctx.Done() == nil {
		return f()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	Go(func() {
		r := result{err: errEnded}
		defer func() { done <- r }()
		defer Into(&r.err)
		r.value, r.err = f()
	})
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

var errEnded = errors.New("what was called ended its goroutine, as runtime.Goexit and testing.T.FailNow do")

// Goroutine tells the present goroutine from others.
func Goroutine() string {
	var buf [32]byte // "goroutine 1 [running]:"
	for i, c := range buf[:runtime.Stack(buf[:], false)] {
		if c == '[' {
			return string(buf[:i])
		}
	}
	return string(buf[:])
}
