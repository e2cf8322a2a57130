package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// Reference kernels compute in one of a few Go types and round once:
//
//	float64                       in float64
//	narrower floats               in float32, or float64 where the operator says so
//	signed, unsigned integers     in int64, uint64, keeping the low bits at the end
//	complex                       in complex128
//
// [elements] reads an operand so, [newResult] and [resultOf.store] write a result.

// number is what elements are computed in.
type number interface {
	float32 | float64 | int32 | int64 | uint64 | complex128
}

// realNum is what float kernels are written over.
type realNum interface{ float32 | float64 }

// sameBits reports that an array's memory can be used as []T as it is.
func sameBits[T number](a *ndarray.Array) bool {
	t := ndarray.DTypeOf(T(0))
	return a.DType == t || a.DType.IsInteger() && t.IsInteger() && a.DType.Size() == t.Size()
}

// elements returns the elements of a as T: the data itself where it holds T
// already, a converted copy else; nil for nil.
func elements[T number](a *ndarray.Array) []T {
	switch {
	case a == nil:
		return nil
	case sameBits[T](a):
		return ndarray.Slice[T](a)
	}
	out := make([]T, a.Len())
	switch o := any(out).(type) {
	case []float32:
		readFloats(o, a)
	case []float64:
		readFloats(o, a)
	case []int32:
		readInts(o, a)
	case []int64:
		readInts(o, a)
	case []uint64:
		readInts(o, a)
	case []complex128:
		convert(o, ndarray.Slice[complex64](a), func(v complex64) complex128 { return complex128(v) })
	}
	return out
}

func readFloats[T realNum](out []T, a *ndarray.Array) {
	switch a.DType {
	case ndarray.Float32:
		convert(out, ndarray.Slice[float32](a), func(v float32) T { return T(v) })
	case ndarray.Float16:
		convert(out, ndarray.Slice[uint16](a), func(v uint16) T { return T(ndarray.F16ToF32(v)) })
	case ndarray.BFloat16:
		convert(out, ndarray.Slice[uint16](a), func(v uint16) T { return T(ndarray.BF16ToF32(v)) })
	default:
		for i := range out {
			out[i] = T(a.Float(i))
		}
	}
}

func readInts[T int32 | int64 | uint64](out []T, a *ndarray.Array) {
	for i := range out {
		out[i] = T(a.Int(i))
	}
}

func convert[S, D any](out []D, in []S, f func(S) D) {
	for i, v := range in {
		out[i] = f(v)
	}
}

// resultOf is a result under computation: V is the result's memory itself, or a
// buffer that store rounds into it.
type resultOf[T number] struct {
	V []T
	a *ndarray.Array
}

// newResult asks the call for result i and gives it as elements of T, which are
// undefined.
func newResult[T number](c *Call, i int, dt ndarray.DType, shape ...int) resultOf[T] {
	return underway[T](result(c, i, dt, shape...))
}

// underway gives a result as elements of T.
func underway[T number](a *ndarray.Array) resultOf[T] {
	if sameBits[T](a) {
		return resultOf[T]{ndarray.Slice[T](a), a}
	}
	return resultOf[T]{make([]T, a.Len()), a}
}

// store writes V to the result where V is a buffer of its own: floats are rounded
// to nearest even, by way of float32 where they are narrower; integers keep their
// low bits.
func (r resultOf[T]) store() {
	if sameBits[T](r.a) {
		return
	}
	switch v := any(r.V).(type) {
	case []float32:
		writeFloats(r.a, v)
	case []float64:
		writeFloats(r.a, v)
	case []int32:
		writeInts(r.a, v)
	case []int64:
		writeInts(r.a, v)
	case []uint64:
		writeInts(r.a, v)
	case []complex128:
		convert(ndarray.Slice[complex64](r.a), v, func(x complex128) complex64 { return complex64(x) })
	}
}

func writeFloats[T realNum](a *ndarray.Array, v []T) {
	switch a.DType {
	case ndarray.Float32:
		convert(ndarray.Slice[float32](a), v, func(x T) float32 { return float32(x) })
	case ndarray.Float16:
		convert(ndarray.Slice[uint16](a), v, func(x T) uint16 { return ndarray.F32ToF16(float32(x)) })
	case ndarray.BFloat16:
		convert(ndarray.Slice[uint16](a), v, func(x T) uint16 { return ndarray.F32ToBF16(float32(x)) })
	case ndarray.Float64:
		convert(ndarray.Slice[float64](a), v, func(x T) float64 { return float64(x) })
	default:
		for i, x := range v {
			a.SetFloat(i, float64(x))
		}
	}
}

func writeInts[T int32 | int64 | uint64](a *ndarray.Array, v []T) {
	for i, x := range v {
		a.SetInt(i, int64(x))
	}
}

// setResult stores computed elements as result i if anyone wants it.
func setResult[T number](c *Call, i int, dt ndarray.DType, shape []int, v []T) {
	if !c.Wants(i) {
		return
	}
	y := newResult[T](c, i, dt, shape...)
	copy(y.V, v)
	y.store()
}

// integerRange is the smallest and largest value of an integer type or bool.
func integerRange(dt ndarray.DType) (lo int64, hi uint64) {
	bits := dt.FileBits()
	switch {
	case dt == ndarray.Bool:
		return 0, 1
	case dt.IsSigned():
		return -1 << (bits - 1), 1<<(bits-1) - 1
	}
	return 0, math.MaxUint64 >> (64 - bits)
}

// storeSaturated stores values as result 0; integers round to nearest even and
// saturate.
func storeSaturated(out *ndarray.Array, v []float64) {
	if !out.DType.IsInteger() {
		writeFloats(out, v)
		return
	}
	lo, hi := integerRange(out.DType)
	for i, x := range v {
		switch x = math.RoundToEven(x); {
		case x <= float64(lo):
			out.SetInt(i, lo)
		case x < float64(hi):
			out.SetFloat(i, x)
		default:
			out.SetInt(i, int64(hi))
		}
	}
}

// truncToInt64 is the conversion of a float to an integer on every machine
// alike: towards zero, saturated at the ends of int64, NaN is 0.
func truncToInt64(v float64) int64 {
	switch {
	case v != v:
		return 0
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	return int64(v)
}

// truncToUint64 is truncToInt64 for the upper half of uint64 too; negative
// values wrap.
func truncToUint64(v float64) uint64 {
	switch {
	case v >= math.MaxUint64:
		return math.MaxUint64
	case v >= math.MaxInt64:
		return uint64(v)
	}
	return uint64(truncToInt64(v))
}

// storeTruncated writes values to an integer array, cut off towards 0.
func storeTruncated(out *ndarray.Array, v []float64) {
	for i, x := range v {
		putTruncated(out, i, x)
	}
}

// putTruncated is storeTruncated for element i.
func putTruncated(out *ndarray.Array, i int, v float64) {
	if out.DType == ndarray.Uint64 {
		out.SetInt(i, int64(truncToUint64(v)))
	} else {
		out.SetInt(i, truncToInt64(v))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
