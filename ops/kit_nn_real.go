package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// realNum is what float kernels are written over: float64 operands compute in
// float64, every narrower float type in float32 with one rounding at the end.
type realNum interface{ float32 | float64 }

// byReal runs f64 if operand i is float64 and f32 for the narrower float types.
func byReal(c *Call, i int, f32, f64 func(*Call)) {
	a := c.Array(i)
	switch {
	case a == nil:
		failf("operand %d is not a tensor", i)
	case a.DType == ndarray.Float64:
		f64(c)
		return
	case a.DType.IsFloat():
		f32(c)
		return
	}
	failf("operand %d has element type %s: %w", i, a.DType, ErrUnsupported)
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
func newReal[T realNum](c *Call, i int, dt ndarray.DType, shape ...int) realOut[T] {
	a := try(c.Output(i, dt, shape...))
	if dt == ndarray.DTypeOf(T(0)) {
		return realOut[T]{ndarray.Slice[T](a), a}
	}
	return realOut[T]{make([]T, a.Len()), a}
}

// store rounds V into the result where V is a buffer of its own.
func (r realOut[T]) store() {
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
func wantArrays(c *Call, required int) {
	for i := range required {
		if c.Array(i) == nil {
			failf("operand %d is not a tensor", i)
		}
	}
}

// wantShape checks an operand's shape; nil operands pass (they are optional).
func wantShape(what string, a *ndarray.Array, shape ...int) {
	if a == nil {
		return
	}
	ok := len(a.Shape) == len(shape)
	for i := 0; ok && i < len(shape); i++ {
		ok = a.Shape[i] == shape[i]
	}
	if !ok {
		failf("%s has shape %v, expected %v", what, a.Shape, shape)
	}
}

// wantLen checks an operand's element count; nil operands pass.
func wantLen(what string, a *ndarray.Array, n int) {
	if a != nil && a.Len() != n {
		failf("%s has %d elements (shape %v), expected %d", what, a.Len(), a.Shape, n)
	}
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
func optScalar(c *Call, i int, def float64) float64 {
	if !c.Has(i) {
		return def
	}
	a := c.Array(i)
	if a == nil || a.Len() != 1 {
		failf("operand %d is not one number", i)
	}
	return a.Float(0)
}

// optInt reads a one-element integer operand, or def when it is absent.
func optInt(c *Call, i int, def int64) int64 {
	if !c.Has(i) {
		return def
	}
	a := c.Array(i)
	if a == nil || a.Len() != 1 {
		failf("operand %d is not one integer", i)
	}
	return a.Int(0)
}
