package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// integerRange returns the smallest and largest value of an integer type as
// float64 (rounded outwards for the 64-bit types).
func integerRange(dt ndarray.DType) (lo, hi float64) {
	bits := dt.FileBits()
	if dt.IsSigned() {
		return -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) - 1
	}
	return 0, math.Ldexp(1, bits) - 1
}

// storeSaturated writes values rounded to the element type; integers round to
// the nearest, ties to even, and saturate.
func storeSaturated(out *ndarray.Array, v []float64) {
	if !out.DType.IsInteger() {
		set := floatWriter(out)
		for i, x := range v {
			set(i, x)
		}
		return
	}
	lo, hi := integerRange(out.DType)
	for i, x := range v {
		switch x = math.RoundToEven(x); {
		case x <= lo:
			out.SetInt(i, int64(lo))
		case x < hi:
			out.SetFloat(i, x)
		case out.DType == ndarray.Uint64:
			out.SetInt(i, -1)
		case out.DType == ndarray.Int64:
			out.SetInt(i, math.MaxInt64)
		default:
			out.SetInt(i, int64(hi))
		}
	}
}
