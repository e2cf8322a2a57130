package expr

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Registered operators that are built inside one another. An expression knows nothing of what is built around it, so that is read off the
// stack of the goroutine: whether there is a build around this one, and, now and then while many are underway, how many there are.

// mostNested is how many registered operators may be built inside one another: one that always applies itself would end the process, whose
// stack has a limit, too.
const mostNested = 10_000

// lookEvery is how many builds begin between two looks to the end of the stack.
const lookEvery = 256

// underway is how many registered operators are being built, by all goroutines.
var underway atomic.Int64

// endlessError ends a build in which an operator applies itself without end. It goes on to where the build began: what applies itself
// twice would come here again for the second, and again on every way back.
type endlessError struct{ name string }

func (e *endlessError) Error() string { return e.name + " applies itself without end" }

// called builds a registered operator; a panic of its function is an error of the expression.
func called[T Elem](name string, build func(x ...Expr[T]) Expr[T], args []Expr[T]) (e Expr[T]) {
	inside := false
	err := nestedBuild(func() {
		look := 2
		if all := underway.Add(1); all == 1 {
			look = 1
		} else if all > mostNested && all%lookEvery == 0 {
			look = mostNested + 1
		}
		defer underway.Add(-1)
		depth := nesting(look)
		if inside = depth > 1; depth > mostNested {
			panic(&rescue.PanicError{Value: &endlessError{name}})
		}
		rescue.Call(fmt.Sprintf("the function that builds %q", name), func() { e = Expr[T]{build(args...).operand(*new(T))} })
	})
	var endless *endlessError
	switch {
	case err == nil:
		return e
	case !errors.As(err, &endless):
		return Expr[T]{failed(&TypeError{name, "", err})}
	case inside:
		panic(&rescue.PanicError{Value: endless})
	}
	return Expr[T]{failed(&TypeError{endless.name, "it applies itself without end", nil})}
}

// nestedBuild calls what builds an operator; a panic is its error. It is what tells one build from others on the stack.
//
//go:noinline
func nestedBuild(f func()) (err error) {
	defer rescue.Into(&err)
	f()
	return nil
}

// nesting is how many builds the goroutine is in, up to a number of them.
func nesting(most int) (depth int) {
	if most == 1 {
		return 1
	}
	entry := reflect.ValueOf(nestedBuild).Pointer()
	for size := 64; ; size *= 4 {
		all := make([]uintptr, size)
		found := runtime.Callers(1, all)
		depth = 0
		for _, pc := range all[:found] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == entry {
				if depth++; depth == most {
					return depth
				}
			}
		}
		if found < size {
			return depth
		}
	}
}
