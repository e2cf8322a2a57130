package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// realNum is what float kernels are written over: float64 operands compute in
// float64, every narrower float type in float32 with one rounding at the end.
type realNum interface{ float32 | float64 }

// byReal runs f64 if operand i is float64 and f32 for the narrower float types.
func byReal(c *Call, i int, f32, f64 func(*Call) error) error {
	a := c.Array(i)
	switch {
	case a == nil:
		return fmt.Errorf("operand %d is not a tensor", i)
	case a.DType == ndarray.Float64:
		return f64(c)
	case a.DType.IsFloat():
		return f32(c)
	}
	return fmt.Errorf("operand %d has element type %s: %w", i, a.DType, ErrUnsupported)
}

// reals returns the elements of a as T: the data itself when a holds T already,
// a converted copy else; nil for nil.
func reals[T realNum](a *ndarray.Array) []T {
	if a == nil {
		return nil
	}
	if a.DType == ndarray.DTypeOf(T(0)) {
		return ndarray.Slice[T](a)
	}
	out := make([]T, a.Len())
	switch a.DType {
	case ndarray.Float16:
		for i, h := range ndarray.Slice[uint16](a) {
			out[i] = T(ndarray.F16ToF32(h))
		}
	case ndarray.BFloat16:
		for i, h := range ndarray.Slice[uint16](a) {
			out[i] = T(ndarray.BF16ToF32(h))
		}
	default:
		for i := range out {
			out[i] = T(a.Float(i))
		}
	}
	return out
}

// realOut is a result under computation: V is the result's memory itself, or a
// wider buffer that store rounds into it.
type realOut[T realNum] struct {
	V []T
	a *ndarray.Array
}

// newReal asks the call for result i and gives it as elements of T.
func newReal[T realNum](c *Call, i int, dt ndarray.DType, shape ...int) (realOut[T], error) {
	a, err := c.Output(i, dt, shape...)
	if err != nil {
		return realOut[T]{}, err
	}
	if dt == ndarray.DTypeOf(T(0)) {
		return realOut[T]{ndarray.Slice[T](a), a}, nil
	}
	return realOut[T]{make([]T, a.Len()), a}, nil
}

// store rounds V into the result where V is a buffer of its own.
func (r realOut[T]) store() error {
	switch r.a.DType {
	case ndarray.DTypeOf(T(0)):
	case ndarray.Float16:
		for i, h := 0, ndarray.Slice[uint16](r.a); i < len(h); i++ {
			h[i] = ndarray.F32ToF16(float32(r.V[i]))
		}
	case ndarray.BFloat16:
		for i, h := 0, ndarray.Slice[uint16](r.a); i < len(h); i++ {
			h[i] = ndarray.F32ToBF16(float32(r.V[i]))
		}
	default:
		for i, v := range r.V {
			r.a.SetFloat(i, float64(v))
		}
	}
	return nil
}

// sinceTypes is a Form: base, or later when an operand or result has one of the
// element types that only the later version allows.
func sinceTypes(base, later int, types ...ndarray.DType) func(*ssa.Node) int {
	return func(n *ssa.Node) int {
		if usesType(n, types...) {
			return later
		}
		return base
	}
}

// usesType reports whether any operand or result has one of the element types.
func usesType(n *ssa.Node, types ...ndarray.DType) bool {
	for _, list := range [][]*ssa.Value{n.In, n.Out} {
		for _, v := range list {
			if v == nil {
				continue
			}
			for _, dt := range types {
				if v.Type.DType == dt {
					return true
				}
			}
		}
	}
	return false
}

// wantArrays checks that the first required operands are tensors.
func wantArrays(c *Call, required int) error {
	for i := range required {
		if c.Array(i) == nil {
			return fmt.Errorf("operand %d is not a tensor", i)
		}
	}
	return nil
}

// wantShape checks an operand's shape; nil operands pass (they are optional).
func wantShape(what string, a *ndarray.Array, shape ...int) error {
	if a == nil {
		return nil
	}
	ok := len(a.Shape) == len(shape)
	for i := 0; ok && i < len(shape); i++ {
		ok = a.Shape[i] == shape[i]
	}
	if !ok {
		return fmt.Errorf("%s has shape %v, expected %v", what, a.Shape, shape)
	}
	return nil
}

// wantLen checks an operand's element count; nil operands pass.
func wantLen(what string, a *ndarray.Array, n int) error {
	if a != nil && a.Len() != n {
		return fmt.Errorf("%s has %d elements (shape %v), expected %d", what, a.Len(), a.Shape, n)
	}
	return nil
}

// sizeOf is the product of dimensions that belong to an existing array.
func sizeOf(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// optScalar reads a one-element operand, or def when it is absent.
func optScalar(c *Call, i int, def float64) (float64, error) {
	if !c.Has(i) {
		return def, nil
	}
	a := c.Array(i)
	if a == nil || a.Len() != 1 {
		return 0, fmt.Errorf("operand %d is not one number", i)
	}
	return a.Float(0), nil
}

// optInt reads a one-element integer operand, or def when it is absent.
func optInt(c *Call, i int, def int64) (int64, error) {
	if !c.Has(i) {
		return def, nil
	}
	a := c.Array(i)
	if a == nil || a.Len() != 1 {
		return 0, fmt.Errorf("operand %d is not one integer", i)
	}
	return a.Int(0), nil
}
