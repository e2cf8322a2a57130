package elementwise

import (
	"math"
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// formatStrings writes numbers as plain decimal text, the shortest that reads
// back as the same number of its type.
func formatStrings(c *ops.Call, out, a *ndarray.Array) {
	bits := 32
	if a.DType == ndarray.Float64 {
		bits = 64
	}
	w := kit.Watching(c)
	for i := range out.Str {
		w.Did(4)
		switch {
		case a.DType == ndarray.Uint64:
			out.Str[i] = kit.Text(c, strconv.FormatUint(uint64(a.Int(i)), 10))
		case !a.DType.IsFloat():
			out.Str[i] = kit.Text(c, strconv.FormatInt(a.Int(i), 10))
		default:
			out.Str[i] = kit.Text(c, formatFloat(a.Float(i), bits))
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
func parseStrings(c *ops.Call, out, a *ndarray.Array, how conversion) {
	w := kit.Watching(c)
	for i, s := range a.Str {
		w.Did(1 + len(s)/8)
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
			kit.Failf("element %d is %q, which is no number", i, s)
		}
		if out.DType.IsFloat() {
			how.put(out, i, v)
		} else {
			out.SetFloat(i, v)
		}
	}
}

// floatBits is the precision to read decimal text with.
func floatBits(dt ndarray.DType) int {
	if dt == ndarray.Float32 {
		return 32
	}
	return 64
}
