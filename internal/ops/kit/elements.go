package kit

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Reference kernels compute in one of a few Go types and round once:
//
//	float64                       in float64
//	narrower floats               in float32, or float64 where the operator says so
//	signed, unsigned integers     in int64, uint64, keeping the low bits at the end
//	complex                       in complex128
//
// [Elements] reads an operand so, [NewResult] and [ResultOf.Store] write a result.

// Number is what elements are computed in.
type Number interface {
	float32 | float64 | int32 | int64 | uint64 | complex128
}

// RealNum is what float kernels are written over.
type RealNum interface{ float32 | float64 }

// sameBits reports that an array's memory can be used as []T as it is.
func sameBits[T Number](a *ndarray.Array) bool {
	t := ndarray.DTypeOf(T(0))
	return a.DType == t || a.DType.IsInteger() && t.IsInteger() && a.DType.Size() == t.Size()
}

// Elements returns the elements of a as T: the data itself where it holds T
// already, a converted copy else; nil for nil.
func Elements[T Number](c *ops.Call, a *ndarray.Array) []T {
	switch {
	case a == nil:
		return nil
	case sameBits[T](a):
		return ndarray.Slice[T](a)
	}
	out := Make[T](c, a.Len())
	switch o := any(out).(type) {
	case []float32:
		readFloats(c, o, a)
	case []float64:
		readFloats(c, o, a)
	case []int32:
		readInts(c, o, a)
	case []int64:
		readInts(c, o, a)
	case []uint64:
		readInts(c, o, a)
	case []complex128:
		Convert(c, o, ndarray.Slice[complex64](a), func(v complex64) complex128 { return complex128(v) })
	}
	return out
}

func readFloats[T RealNum](c *ops.Call, out []T, a *ndarray.Array) {
	switch a.DType {
	case ndarray.Float32:
		Convert(c, out, ndarray.Slice[float32](a), func(v float32) T { return T(v) })
	case ndarray.Float16:
		Convert(c, out, ndarray.Slice[uint16](a), func(v uint16) T { return T(ndarray.F16ToF32(v)) })
	case ndarray.BFloat16:
		Convert(c, out, ndarray.Slice[uint16](a), func(v uint16) T { return T(ndarray.BF16ToF32(v)) })
	default:
		w := Watching(c)
		for i := range out {
			w.Did(1)
			out[i] = T(a.Float(i))
		}
	}
}

func readInts[T int32 | int64 | uint64](c *ops.Call, out []T, a *ndarray.Array) {
	w := Watching(c)
	for i := range out {
		w.Did(1)
		out[i] = T(a.Int(i))
	}
}

// Convert stores f of every element of in at its place in out.
func Convert[S, D any](c *ops.Call, out []D, in []S, f func(S) D) {
	w := Watching(c)
	for i, v := range in {
		w.Did(1)
		out[i] = f(v)
	}
}

// ResultOf is a result under computation: V is the result's memory itself, or a
// buffer that Store rounds into it.
type ResultOf[T Number] struct {
	V []T
	A *ndarray.Array
	c *ops.Call
}

// NewResult asks the call for result i and gives it as elements of T, which are
// undefined.
func NewResult[T Number](c *ops.Call, i int, dt ndarray.DType, shape ...int) ResultOf[T] {
	return BufferFor[T](c, Result(c, i, dt, shape...))
}

// BufferFor gives the elements of a result as T: its memory, or a buffer for [ResultOf.Store].
func BufferFor[T Number](c *ops.Call, a *ndarray.Array) ResultOf[T] {
	if sameBits[T](a) {
		return ResultOf[T]{ndarray.Slice[T](a), a, c}
	}
	return ResultOf[T]{Make[T](c, a.Len()), a, c}
}

// Store writes V to the result where V is a buffer of its own: floats are rounded
// to nearest even, by way of float32 where they are narrower; integers keep their
// low bits.
func (r ResultOf[T]) Store() {
	if sameBits[T](r.A) {
		return
	}
	switch v := any(r.V).(type) {
	case []float32:
		WriteFloats(r.c, r.A, v)
	case []float64:
		WriteFloats(r.c, r.A, v)
	case []int32:
		WriteInts(r.c, r.A, v)
	case []int64:
		WriteInts(r.c, r.A, v)
	case []uint64:
		WriteInts(r.c, r.A, v)
	case []complex128:
		Convert(r.c, ndarray.Slice[complex64](r.A), v, func(x complex128) complex64 { return complex64(x) })
	}
}

// WriteFloats stores numbers as elements of an array, rounded to its type.
func WriteFloats[T RealNum](c *ops.Call, a *ndarray.Array, v []T) {
	switch a.DType {
	case ndarray.Float32:
		Convert(c, ndarray.Slice[float32](a), v, func(x T) float32 { return float32(x) })
	case ndarray.Float16:
		Convert(c, ndarray.Slice[uint16](a), v, func(x T) uint16 { return ndarray.F32ToF16(float32(x)) })
	case ndarray.BFloat16:
		Convert(c, ndarray.Slice[uint16](a), v, func(x T) uint16 { return ndarray.F32ToBF16(float32(x)) })
	case ndarray.Float64:
		Convert(c, ndarray.Slice[float64](a), v, func(x T) float64 { return float64(x) })
	default:
		w := Watching(c)
		for i, x := range v {
			w.Did(1)
			a.SetFloat(i, float64(x))
		}
	}
}

// WriteInts stores integers as elements of an array.
func WriteInts[T int32 | int64 | uint64](c *ops.Call, a *ndarray.Array, v []T) {
	w := Watching(c)
	for i, x := range v {
		w.Did(1)
		a.SetInt(i, int64(x))
	}
}

// SetResult stores computed elements as result i if anyone wants it.
func SetResult[T Number](c *ops.Call, i int, dt ndarray.DType, shape []int, v []T) {
	if !c.Wants(i) {
		return
	}
	y := NewResult[T](c, i, dt, shape...)
	CopySlice(c, y.V, v)
	y.Store()
}

// IntegerRange is the smallest and largest value of an integer type or bool.
func IntegerRange(dt ndarray.DType) (lo int64, hi uint64) {
	bits := dt.FileBits()
	switch {
	case dt == ndarray.Bool:
		return 0, 1
	case dt.IsSigned():
		return -1 << (bits - 1), 1<<(bits-1) - 1
	}
	return 0, math.MaxUint64 >> (64 - bits)
}

// TruncToInt64 is [ndarray.Truncated] for int64, TruncToUint64 for uint64.
func TruncToInt64(v float64) int64   { return ndarray.Truncated(v, ndarray.Int64) }
func TruncToUint64(v float64) uint64 { return uint64(ndarray.Truncated(v, ndarray.Uint64)) }

// StoreTruncated writes values to an integer array, as [ndarray.Truncated] says.
func StoreTruncated(c *ops.Call, out *ndarray.Array, v []float64) {
	w := Watching(c)
	for i, x := range v {
		w.Did(1)
		out.SetFloat(i, x)
	}
}
