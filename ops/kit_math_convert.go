package ops

import (
	"math"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/ndarray"
)

// machineTypes are the types that Go itself can convert.
var machineTypes = integerTypes | typesOf(ndarray.Float32, ndarray.Float64, ndarray.Bool)

// machine is any of them; booleans travel as uint8.
type machine interface {
	integer | ~float32 | ~float64
}

// convertMachine converts between machine types, other than to bool.
func convertMachine(out, a *ndarray.Array) {
	switch a.DType {
	case ndarray.Float32:
		fromFloat(out, ndarray.Slice[float32](a))
	case ndarray.Float64:
		fromFloat(out, ndarray.Slice[float64](a))
	case ndarray.Int8:
		fromInteger(out, ndarray.Slice[int8](a))
	case ndarray.Uint8, ndarray.Bool:
		fromInteger(out, a.Data)
	case ndarray.Int16:
		fromInteger(out, ndarray.Slice[int16](a))
	case ndarray.Uint16:
		fromInteger(out, ndarray.Slice[uint16](a))
	case ndarray.Int32:
		fromInteger(out, ndarray.Slice[int32](a))
	case ndarray.Uint32:
		fromInteger(out, ndarray.Slice[uint32](a))
	case ndarray.Int64:
		fromInteger(out, ndarray.Slice[int64](a))
	case ndarray.Uint64:
		fromInteger(out, ndarray.Slice[uint64](a))
	}
}

// fromInteger keeps the low bits, or rounds to a float.
func fromInteger[S integer](out *ndarray.Array, s []S) {
	switch out.DType {
	case ndarray.Float32:
		convert(ndarray.Slice[float32](out), s)
	case ndarray.Float64:
		convert(ndarray.Slice[float64](out), s)
	default:
		toInteger(out, s)
	}
}

func toInteger[S integer](out *ndarray.Array, s []S) {
	switch out.DType.Size() {
	case 1:
		convert(out.Data, s)
	case 2:
		convert(ndarray.Slice[uint16](out), s)
	case 4:
		convert(ndarray.Slice[uint32](out), s)
	default:
		convert(ndarray.Slice[uint64](out), s)
	}
}

// convert applies Go's conversion, which is defined for every value as long as
// the source is no float or the target is one.
func convert[S, D machine](d []D, s []S) {
	for i, v := range s {
		d[i] = D(v)
	}
}

// fromFloat rounds to a float or cuts off to an integer.
func fromFloat[S float32 | float64](out *ndarray.Array, s []S) {
	switch out.DType {
	case ndarray.Float32:
		convert(ndarray.Slice[float32](out), s)
	case ndarray.Float64:
		convert(ndarray.Slice[float64](out), s)
	case ndarray.Int64:
		cut(ndarray.Slice[int64](out), s)
	case ndarray.Int32:
		cut(ndarray.Slice[int32](out), s)
	case ndarray.Uint64:
		d := ndarray.Slice[uint64](out)
		for i, v := range s {
			d[i] = truncToUint64(float64(v))
		}
	default:
		write := truncWriter(out)
		for i, v := range s {
			write(i, float64(v))
		}
	}
}

func cut[S float32 | float64, D integer](d []D, s []S) {
	for i, v := range s {
		d[i] = D(truncToInt64(float64(v)))
	}
}

// formatStrings writes numbers as plain decimal text, the shortest that reads
// back as the same number of its type.
func formatStrings(out, a *ndarray.Array) {
	bits := 32
	if a.DType == ndarray.Float64 {
		bits = 64
	}
	for i := range out.Str {
		switch {
		case a.DType == ndarray.Uint64:
			out.Str[i] = strconv.FormatUint(uint64(a.Int(i)), 10)
		case !a.DType.IsFloat():
			out.Str[i] = strconv.FormatInt(a.Int(i), 10)
		default:
			out.Str[i] = formatFloat(a.Float(i), bits)
		}
	}
}

func formatFloat(v float64, bits int) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "INF"
	case math.IsInf(v, -1):
		return "-INF"
	}
	return strconv.FormatFloat(v, 'f', -1, bits)
}

// parseStrings reads numbers in plain or scientific notation, INF and NaN in
// any case of letters. Text that is no number is an error.
func parseStrings(out, a *ndarray.Array, how conversion) {
	var write func(i int, v float64)
	switch {
	case out.DType == ndarray.Bool:
		write = out.SetFloat
	case out.DType.IsFloat():
		write = how.writer(out)
	default:
		write = truncWriter(out)
	}
	for i, s := range a.Str {
		s = strings.TrimSpace(s)
		if !out.DType.IsFloat() {
			if k, err := strconv.ParseInt(s, 10, 64); err == nil {
				out.SetInt(i, k)
				continue
			}
			if k, err := strconv.ParseUint(s, 10, 64); err == nil {
				out.SetInt(i, int64(k))
				continue
			}
		}
		v, err := strconv.ParseFloat(s, floatBits(out.DType))
		if err != nil && !math.IsInf(v, 0) {
			failf("element %d is %q, which is no number", i, s)
		}
		write(i, v)
	}
}

// floatBits is the precision to read decimal text with.
func floatBits(dt ndarray.DType) int {
	if dt == ndarray.Float32 {
		return 32
	}
	return 64
}
