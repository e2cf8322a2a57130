package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Reference kernels and type rules read as their formula: a step that fails ends
// them at once.
//
//	func evalGather(c *Call) {
//		data, indices := tensor(c, 0), tensor(c, 1)
//		axis := try(NormAxis(…))                     an error of any function
//		if indices.Rank() > 1 {
//			failf("indices have shape %v", …)       an error of their own
//		}
//		…
//	}
//
// try, check and failf raise a failure; [kernel] and [rule], which make the
// operator's Eval and Infer of such functions, turn it into the returned error. A
// failure never leaves them. What facts, upgrades and other packages call as well
// returns its errors.

// failure is the panic that carries an error to kernel or rule.
type failure struct{ err error }

// caught turns a failure into the error of the surrounding function.
func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}

// kernel is the Eval of an operator.
func kernel(eval func(c *Call)) func(c *Call) error {
	return func(c *Call) (err error) {
		defer caught(&err)
		eval(c)
		return nil
	}
}

// rule is the Infer of an operator.
func rule(infer func(n *ssa.Node) []Inferred) func(n *ssa.Node) ([]Inferred, error) {
	return func(n *ssa.Node) (out []Inferred, err error) {
		defer caught(&err)
		return infer(n), nil
	}
}

// check fails with an error that is not nil.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// failf fails with a new error.
func failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// try returns v unless there is an error.
func try[T any](v T, err error) T {
	check(err)
	return v
}

// try3 is try for three values.
func try3[A, B, C any](a A, b B, c C, err error) (A, B, C) {
	check(err)
	return a, b, c
}

// floatKernel is the Eval of an operator over floats: in float64 where operand 0
// is, in float32 for narrower types. A nil f64 takes no float64.
func floatKernel(f32, f64 func(c *Call)) func(c *Call) error {
	return kernel(func(c *Call) { byFloat(c, f32, f64) })
}

// byFloat runs f64 if operand 0 is float64 and f32 for the narrower float types.
func byFloat(c *Call, f32, f64 func(c *Call)) {
	switch dt := tensor(c, 0).DType; {
	case dt == ndarray.Float64 && f64 != nil:
		f64(c)
	case dt.IsFloat() && dt != ndarray.Float64:
		f32(c)
	default:
		check(unsupportedType(dt))
	}
}
