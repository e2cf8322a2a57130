package movement

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ssa"
)

// sliceByHand lists the indices a range selects, by walking.
func sliceByHand(start, end, step int64, dim int) (out []int) {
	d := int64(dim)
	if start < 0 {
		start = max(start+d, math.MinInt64/2)
	}
	if end < 0 {
		end = max(end+d, math.MinInt64/2)
	}
	if step > 0 {
		for i := max(start, 0); i < min(end, d); i += step {
			out = append(out, int(i))
		}
	} else {
		for i := min(max(start, 0), d-1); i > max(end, -1); i += step {
			out = append(out, int(i))
		}
	}
	return out
}

// TestSliceRange compares the range arithmetic, with numbers and with a symbol
// bound to them, with walking.
func TestSliceRange(t *testing.T) {
	bounds := []int64{0, 1, 2, 3, 5, 9, -1, -2, -3, -7, math.MaxInt32, math.MaxInt64, math.MinInt64, -math.MaxInt32}
	n := ssa.Sym("N")
	for dim := range 6 {
		bind := map[string]int64{"N": int64(dim)}
		for _, start := range bounds {
			for _, end := range bounds {
				for _, step := range []int64{1, 2, 3, -1, -2, math.MaxInt64 / 2, math.MinInt64 / 2} {
					want := sliceByHand(start, end, step, dim)
					first, count := sliceRange(start, end, step, dim)
					require.Equalf(t, len(want), count, "[%d:%d:%d] of %d", start, end, step, dim)
					if count > 0 {
						require.Equalf(t, want[0], first, "[%d:%d:%d] of %d", start, end, step, dim)
					}
					sym := sliceDim(ssa.D(start), ssa.D(end), ssa.D(step), n)
					if k, ok := sym.Bind(bind).Const(); ok {
						require.EqualValuesf(t, len(want), k, "[%d:%d:%d] of N=%d by %s", start, end, step, dim, sym)
					}
				}
			}
		}
	}
}

// TestSliceSymbols checks lengths for bounds that are expressions.
func TestSliceSymbols(t *testing.T) {
	for _, c := range []struct{ start, end, step, dim, want string }{
		{"0", "9223372036854775807", "1", "N", "N"},
		{"1", "2147483647", "1", "N", "max(0,N-1)"},
		{"-1", "9223372036854775807", "1", "N", "min(1,N)"},
		{"0", "-1", "1", "N", "max(0,N-1)"},
		{"0", "S", "1", "512", "min(512,S)"},
		{"0", "N", "1", "N+4", "N"},
		{"P", "P+S", "1", "P+S", "S"},
		{"-1", "-9223372036854775807", "-1", "N", "N"},
		{"0", "9223372036854775807", "2", "N", "floor((N+1)/2)"},
		{"N-5", "N", "1", "N", "?"}, // may start below 0
		{"0", "?", "1", "N", "?"},
		{"1", "3", "1", "?", "?"},
	} {
		var d [4]ssa.Dim
		for i, s := range []string{c.start, c.end, c.step, c.dim} {
			if s != "?" {
				var err error
				d[i], err = ssa.ParseDim(s)
				require.NoError(t, err)
			}
		}
		assert.Equal(t, c.want, sliceDim(d[0], d[1], d[2], d[3]).String(), "[%s:%s:%s] of %s", c.start, c.end, c.step, c.dim)
	}
}
