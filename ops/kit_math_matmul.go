package ops

import "github.com/berth-onnx/berth/ndarray"

// Products compute in one of four Go types: half and float8 types in float32
// with one rounding at the end, integers in int32 or int64, whose low bits are
// those of any narrower or unsigned product.

// productNum is what products are computed in.
type productNum interface {
	float32 | float64 | int32 | int64
}

// productType says which of them serves an element type, Undefined for none.
func productType(dt ndarray.DType) ndarray.DType {
	switch dt {
	case ndarray.Float64:
		return dt
	case ndarray.Int64, ndarray.Uint64:
		return ndarray.Int64
	case ndarray.Int32, ndarray.Uint32, ndarray.Int16, ndarray.Uint16, ndarray.Int8, ndarray.Uint8:
		return ndarray.Int32
	}
	if dt.IsFloat() {
		return ndarray.Float32
	}
	return ndarray.Undefined
}

// sameMemory reports that an array's memory can be used as []T as it is.
func sameMemory[T productNum](a *ndarray.Array) bool {
	t := ndarray.DTypeOf(T(0))
	return a.DType == t || a.DType == ndarray.Uint32 && t == ndarray.Int32 || a.DType == ndarray.Uint64 && t == ndarray.Int64
}

// operandAs gives the elements of a as T, the memory itself where possible.
func operandAs[T productNum](a *ndarray.Array) []T {
	if sameMemory[T](a) {
		return ndarray.Slice[T](a)
	}
	out := make([]T, a.Len())
	if a.DType.IsFloat() {
		read := floatReader(a)
		for i := range out {
			out[i] = T(read(i))
		}
		return out
	}
	for i := range out {
		out[i] = T(a.Int(i))
	}
	return out
}

// resultAs gives a zeroed result as T; storeResult must follow.
func resultAs[T productNum](out *ndarray.Array) []T {
	if !sameMemory[T](out) {
		return make([]T, out.Len())
	}
	z := ndarray.Slice[T](out)
	clear(z)
	return z
}

// storeResult rounds a computed result into out unless it was computed there.
func storeResult[T productNum](out *ndarray.Array, z []T) {
	switch {
	case sameMemory[T](out):
	case out.DType.IsFloat():
		write := floatWriter(out)
		for i, v := range z {
			write(i, float64(v))
		}
	default:
		for i, v := range z {
			out.SetInt(i, int64(v))
		}
	}
}

// multiply computes C += A·B for dense row-major A [m,k], B [k,n], C [m,n].
func multiply[T productNum](m, n, k int, a, b, c []T) {
	switch x := any(a).(type) {
	case []float32:
		matMulAdd(m, n, k, x, k, any(b).([]float32), n, any(c).([]float32), n)
	case []float64:
		matMulAdd(m, n, k, x, k, any(b).([]float64), n, any(c).([]float64), n)
	case []int32:
		matMulAdd(m, n, k, x, k, any(b).([]int32), n, any(c).([]int32), n)
	default:
		for i := range m {
			row := c[i*n : (i+1)*n]
			for p, x := range a[i*k : (i+1)*k] {
				for j, y := range b[p*n : (p+1)*n] {
					row[j] += x * y
				}
			}
		}
	}
}

// transposed copies a row-major matrix [rows, cols] to [cols, rows].
func transposed[T any](rows, cols int, src []T) []T {
	out := make([]T, len(src))
	for i := range rows {
		for j, v := range src[i*cols : (i+1)*cols] {
			out[j*rows+i] = v
		}
	}
	return out
}
