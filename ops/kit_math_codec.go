package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// codec turns stored half, float8 and float4 patterns into float32 and back, so
// that kernels compute in float32 and round once.
type codec[T ndarray.Elem] struct {
	load  func(T) float32
	store func(float32) T
}

// halfCodec serves float16 and bfloat16.
func halfCodec(dt ndarray.DType) codec[uint16] {
	if dt == ndarray.BFloat16 {
		return codec[uint16]{ndarray.BF16ToF32, ndarray.F32ToBF16}
	}
	return codec[uint16]{ndarray.F16ToF32, ndarray.F32ToF16}
}

// byteCodec serves the float8 family and float4.
func byteCodec(dt ndarray.DType) codec[uint8] {
	return codec[uint8]{
		func(b uint8) float32 { return ndarray.F8ToF32(dt, b) },
		func(v float32) uint8 { return ndarray.F32ToF8(dt, v, true) },
	}
}

// lift makes a float32 function work on patterns.
func (c codec[T]) lift(f func(float32) float32) func(T) T {
	return func(x T) T { return c.store(f(c.load(x))) }
}

// lift2 makes a binary float32 function work on patterns.
func (c codec[T]) lift2(f func(x, y float32) float32) func(x, y T) T {
	return func(x, y T) T { return c.store(f(c.load(x), c.load(y))) }
}

// integer is any Go integer type an array can hold.
type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// narrow makes a function of the widest integer work on a narrower one, wrapping.
func narrow[T, W integer](f func(W) W) func(T) T {
	return func(x T) T { return T(f(W(x))) }
}

// narrow2 is narrow for two operands.
func narrow2[T, W integer](f func(x, y W) W) func(x, y T) T {
	return func(x, y T) T { return T(f(W(x), W(y))) }
}

// viaFloat64 makes a float64 function work on float32.
func viaFloat64(f func(float64) float64) func(float32) float32 {
	return func(x float32) float32 { return float32(f(float64(x))) }
}

// viaFloat64x2 is viaFloat64 for two operands.
func viaFloat64x2(f func(x, y float64) float64) func(x, y float32) float32 {
	return func(x, y float32) float32 { return float32(f(float64(x), float64(y))) }
}

// floatReader returns a function that reads elements of any real type as
// float64, with the choice of the type made once.
func floatReader(a *ndarray.Array) func(i int) float64 {
	switch a.DType {
	case ndarray.Float32:
		s := ndarray.Slice[float32](a)
		return func(i int) float64 { return float64(s[i]) }
	case ndarray.Float64:
		s := ndarray.Slice[float64](a)
		return func(i int) float64 { return s[i] }
	case ndarray.Float16, ndarray.BFloat16:
		s, load := ndarray.Slice[uint16](a), halfCodec(a.DType).load
		return func(i int) float64 { return float64(load(s[i])) }
	case ndarray.Int64:
		s := ndarray.Slice[int64](a)
		return func(i int) float64 { return float64(s[i]) }
	}
	return a.Float
}

// floatWriter returns a function that stores float64 values, rounded to the
// element type by way of float32 where the type is narrower.
func floatWriter(a *ndarray.Array) func(i int, v float64) {
	switch a.DType {
	case ndarray.Float32:
		s := ndarray.Slice[float32](a)
		return func(i int, v float64) { s[i] = float32(v) }
	case ndarray.Float64:
		s := ndarray.Slice[float64](a)
		return func(i int, v float64) { s[i] = v }
	case ndarray.Float16, ndarray.BFloat16:
		s, store := ndarray.Slice[uint16](a), halfCodec(a.DType).store
		return func(i int, v float64) { s[i] = store(float32(v)) }
	}
	return a.SetFloat
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
