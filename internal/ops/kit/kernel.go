package kit

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Reference kernels and type rules read as their formula: a step that fails ends
// them at once.
//
//	func evalGather(c *ops.Call) {
//		data, indices := kit.Tensor(c, 0), kit.Tensor(c, 1)
//		axis := kit.Try(ops.NormAxis(…))               an error of any function
//		if indices.Rank() > 1 {
//			kit.Failf("indices have shape %v", …)     an error of their own
//		}
//		…
//	}
//
// Try, Check and Failf raise a failure; [Kernel], [Rule] and [BodyRule], which make the
// operator's Eval, Infer and InferBodies of such functions, turn it into the returned error. A
// failure never leaves them. What facts, upgrades and other packages call as well
// returns its errors.

// Failure is the panic that carries an error to kernel or rule.
type Failure struct{ Err error }

// caught turns a failure into the error of the surrounding function.
func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case Failure:
		*err = r.Err
	default:
		panic(r)
	}
}

// Kernel is the Eval of an operator.
//
//go:noinline
func Kernel(eval func(c *ops.Call)) func(c *ops.Call) error {
	return func(c *ops.Call) (err error) {
		defer caught(&err)
		eval(c)
		return nil
	}
}

// Rule is the Infer of an operator.
//
//go:noinline
func Rule(infer func(n *ssa.Node) []ops.Inferred) func(n *ssa.Node) ([]ops.Inferred, error) {
	return func(n *ssa.Node) (out []ops.Inferred, err error) {
		defer caught(&err)
		return infer(n), nil
	}
}

// BodyRule is the InferBodies of an operator.
//
//go:noinline
func BodyRule(infer func(ctx context.Context, n *ssa.Node) []ops.Inferred) func(ctx context.Context, n *ssa.Node) ([]ops.Inferred, error) {
	return func(ctx context.Context, n *ssa.Node) (out []ops.Inferred, err error) {
		defer caught(&err)
		return infer(ctx, n), nil
	}
}

// Attempt returns the failure of a function, for callers that return errors.
func Attempt(f func()) (err error) {
	defer caught(&err)
	f()
	return nil
}

// Check fails with an error that is not nil. It is called in so many places that they take 34 kB of a program where it is inlined.
//
//go:noinline
func Check(err error) {
	if err != nil {
		panic(Failure{err})
	}
}

// CheckEnded fails if the call is to end early. Kernels call it between pieces of work
// of at most some milliseconds.
func CheckEnded(c *ops.Call) {
	if c.Ended() {
		Check(c.Ctx.Err())
	}
}

// Failf fails with a new error.
func Failf(format string, args ...any) { panic(Failure{fmt.Errorf(format, args...)}) }

// Try returns v unless there is an error.
func Try[T any](v T, err error) T {
	Check(err)
	return v
}

// Try3 is [Try] for three values.
func Try3[A, B, C any](a A, b B, c C, err error) (A, B, C) {
	Check(err)
	return a, b, c
}

// FloatKernel is the Eval of an operator over floats: in float64 where operand 0
// is, in float32 for narrower types. A nil f64 takes no float64.
//
//go:noinline
func FloatKernel(f32, f64 func(c *ops.Call)) func(c *ops.Call) error {
	return Kernel(func(c *ops.Call) { ByFloat(c, f32, f64) })
}

// ByFloat runs f64 if operand 0 is float64 and f32 for the narrower float types.
func ByFloat(c *ops.Call, f32, f64 func(c *ops.Call)) {
	switch dt := Tensor(c, 0).DType; {
	case dt == ndarray.Float64 && f64 != nil:
		f64(c)
	case dt.IsFloat() && dt != ndarray.Float64:
		f32(c)
	default:
		Check(UnsupportedType(dt))
	}
}

// NumberKernel is the Eval of an operator over floats, and integers in int64.
func NumberKernel(f32, f64, ints func(*ops.Call)) func(*ops.Call) error {
	return Kernel(func(c *ops.Call) {
		if a := c.Array(0); a != nil && a.DType.IsInteger() {
			ints(c)
			return
		}
		ByFloat(c, f32, f64)
	})
}
