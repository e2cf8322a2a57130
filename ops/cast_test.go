package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// to is the attribute list of a Cast.
func to(dt ndarray.DType, more ...ssa.Attr) attrs {
	return append(attrs{ssa.IntAttr("to", int64(dt))}, more...)
}

func TestCast(t *testing.T) {
	for _, c := range []struct {
		from, to ndarray.DType
		x, y     []float64
	}{
		{ndarray.Float32, ndarray.Int32, []float64{1.9, -1.9, nan, inf, -inf, 3e9}, []float64{1, -1, math.MinInt32, math.MinInt32, math.MinInt32, math.MinInt32}},
		{ndarray.Float64, ndarray.Int32, []float64{2147483647.5, -2147483648.5, 2147483648}, []float64{math.MaxInt32, math.MinInt32, math.MinInt32}},
		{ndarray.Float32, ndarray.Int64, []float64{1e30, -1e30, nan, inf, 3e9}, []float64{math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64, 3e9}},
		{ndarray.Float16, ndarray.Int64, []float64{nan, inf, -1.5}, []float64{math.MinInt64, math.MinInt64, -1}},
		{ndarray.Float32, ndarray.Int16, []float64{nan, inf, -inf, 70000, 3e9}, []float64{0, 0, 0, 4464, 0}},
		{ndarray.Float32, ndarray.Uint8, []float64{nan, inf, -inf, -1, 300}, []float64{0, 0, 0, 255, 44}},
		{ndarray.Float32, ndarray.Uint32, []float64{nan, inf, -1, 3e9, 5e9}, []float64{0, 0, math.MaxUint32, 3e9, 705032704}},
		{ndarray.Float32, ndarray.Uint64, []float64{nan, -inf, inf, math.Ldexp(1, 64), -math.Ldexp(1, 40)}, []float64{math.Ldexp(1, 63), math.Ldexp(1, 63), 0, 0, math.Ldexp(1, 64) - math.Ldexp(1, 40)}},
		{ndarray.Float32, ndarray.Uint64, []float64{math.Ldexp(5, 61), 3.7}, []float64{math.Ldexp(5, 61), 3}},
		{ndarray.Float32, ndarray.Int8, []float64{200, -129}, []float64{-56, 127}},
		{ndarray.Float32, ndarray.Uint4, []float64{17, -1}, []float64{1, 15}},
		{ndarray.Float32, ndarray.Int4, []float64{9, -9}, []float64{-7, 7}},
		{ndarray.Float32, ndarray.Int2, []float64{2, 3}, []float64{-2, -1}},
		{ndarray.Float32, ndarray.Bool, []float64{0, zero, 0.1, nan}, []float64{0, 0, 1, 1}},
		{ndarray.Float16, ndarray.Bool, []float64{0, 5}, []float64{0, 1}},
		{ndarray.Float64, ndarray.Float32, []float64{1e300, -1e300}, []float64{inf, -inf}},
		{ndarray.Float64, ndarray.Float16, []float64{65519, 65520, 1 + math.Ldexp(1, -11) + math.Ldexp(1, -40)}, []float64{65504, inf, 1 + math.Ldexp(1, -10)}},
		{ndarray.Float64, ndarray.BFloat16, []float64{1 + math.Ldexp(1, -8) + math.Ldexp(1, -50)}, []float64{1 + math.Ldexp(1, -7)}},
		{ndarray.Int16, ndarray.Int8, []float64{200, -200}, []float64{-56, 56}},
		{ndarray.Int8, ndarray.Uint32, []float64{-1}, []float64{math.MaxUint32}},
		{ndarray.Int64, ndarray.Float32, []float64{16777217}, []float64{16777216}},
		{ndarray.Int64, ndarray.Float16, []float64{100000, -3}, []float64{inf, -3}},
		{ndarray.Bool, ndarray.Float32, []float64{1, 0}, []float64{1, 0}},
		{ndarray.Bool, ndarray.Int64, []float64{1, 0}, []float64{1, 0}},
		{ndarray.Int4, ndarray.Float32, []float64{-8, 7}, []float64{-8, 7}},
		{ndarray.Uint2, ndarray.Uint8, []float64{3, 1}, []float64{3, 1}},
		{ndarray.Float32, ndarray.Float8E4M3FN, []float64{449, 1000, -inf, 0.001953125}, []float64{448, 448, -448, 0.001953125}},
		{ndarray.Float32, ndarray.Float8E5M2, []float64{61440, inf}, []float64{57344, 57344}},
		{ndarray.Float32, ndarray.Float4E2M1, []float64{2.5, 100, nan}, []float64{2, 6, zero}},
		{ndarray.Float32, ndarray.Float6E2M3, []float64{0.0625, 0.1875, 7.75, -100, inf}, []float64{0, 0.25, 7.5, -7.5, 7.5}},
		{ndarray.Float64, ndarray.Float6E3M2, []float64{1.125, 1.375, 30, -inf, nan}, []float64{1, 1.5, 28, -28, zero}},
		{ndarray.Float6E3M2, ndarray.Int32, []float64{28, -0.0625}, []float64{28, 0}},
		{ndarray.Float8E5M2, ndarray.Float16, []float64{1.75, -57344}, []float64{1.75, -57344}},
		{ndarray.Float32, ndarray.Float8E8M0, []float64{3, 4, 0}, []float64{4, 4, math.Ldexp(1, -127)}},
	} {
		msg := fmt.Sprintf("%s to %s", c.from, c.to)
		got := mustEval(t, "Cast", to(c.to), typed(c.from, c.x...))
		assert.Equal(t, c.to, got.DType, msg)
		sameNumbers(t, c.y, numbers(got), 0, msg)
		like := mustEval(t, "CastLike", nil, typed(c.from, c.x...), array(c.to, []int{1}))
		sameNumbers(t, c.y, numbers(like), 0, msg)
	}
}

func TestCastFloat8Unsaturated(t *testing.T) {
	off := ssa.IntAttr("saturate", 0)
	for _, c := range []struct {
		to   ndarray.DType
		x, y float64
	}{
		{ndarray.Float8E4M3FN, 1000, nan}, {ndarray.Float8E4M3FNUZ, inf, nan},
		{ndarray.Float8E5M2, 1e6, inf}, {ndarray.Float8E5M2, -inf, -inf}, {ndarray.Float8E5M2FNUZ, 1e6, nan},
		{ndarray.Float8E8M0, inf, nan}, {ndarray.Float8E8M0, 0, nan},
	} {
		sameNumbers(t, []float64{c.y}, numbers(mustEval(t, "Cast", to(c.to, off), vec(c.x))), 0, c.to.String())
	}
}

func TestCastRoundMode(t *testing.T) {
	for mode, want := range map[string][]float64{"up": {4, 4, 2}, "down": {2, 2, 2}, "nearest": {2, 4, 2}} {
		got := mustEval(t, "Cast", to(ndarray.Float8E8M0, ssa.StringAttr("round_mode", mode)), vec(2.9, 3, 2))
		assert.Equal(t, want, numbers(got), mode)
	}
	_, err := evalOp(t, "Cast", to(ndarray.Float8E8M0, ssa.StringAttr("round_mode", "sideways")), 1, vec(1))
	assert.ErrorContains(t, err, "round_mode")
}

func TestCastStrings(t *testing.T) {
	str := func(v ...string) *ndarray.Array { return ndarray.Strings(v, len(v)) }
	for _, c := range []struct {
		x    *ndarray.Array
		want []string
	}{
		{vec(1, 0.1, -2.5e-7, nan, inf, -inf, 1e21), []string{"1", "0.1", "-0.00000025", "NaN", "INF", "-INF", "1000000000000000000000"}},
		{array(ndarray.Float64, []int{1}, 0.1), []string{"0.1"}},
		{i64(-7, 12), []string{"-7", "12"}},
		{ndarray.Of([]uint64{math.MaxUint64}, 1), []string{"18446744073709551615"}},
		{bools(true, false), []string{"1", "0"}},
		{str("as it is"), []string{"as it is"}},
	} {
		assert.Equal(t, c.want, mustEval(t, "Cast", to(ndarray.String), c.x).Str)
	}
	for _, c := range []struct {
		dt   ndarray.DType
		x    []string
		want []float64
	}{
		{ndarray.Float32, []string{"3.14", "1e-5", "1E8", "+INF", "inf", "-Inf", "nan", " 2 "}, []float64{float64(float32(3.14)), float64(float32(1e-5)), 1e8, inf, inf, -inf, nan, 2}},
		{ndarray.Int32, []string{"42", "-1", "2.9"}, []float64{42, -1, 2}},
		{ndarray.Uint64, []string{"18446744073709551615"}, []float64{math.MaxUint64}},
		{ndarray.Bool, []string{"0", "3"}, []float64{0, 1}},
		{ndarray.Float16, []string{"0.5"}, []float64{0.5}},
	} {
		sameNumbers(t, c.want, numbers(mustEval(t, "Cast", to(c.dt), str(c.x...))), 0, c.dt.String())
	}
	_, err := evalOp(t, "Cast", to(ndarray.Float32), 1, str("1", "Hello World!"))
	assert.ErrorContains(t, err, `element 1 is "Hello World!"`)
}

func TestCastRejects(t *testing.T) {
	for _, at := range []attrs{to(99), to(0), to(ndarray.Complex64), nil} {
		_, err := evalOp(t, "Cast", at, 1, vec(1))
		assert.Error(t, err)
	}
}

func TestBitCast(t *testing.T) {
	got := mustEval(t, "BitCast", to(ndarray.Int32), vec(1, -2))
	assert.Equal(t, []float64{0x3f800000, float64(int32(-0x40000000))}, numbers(got))
	assert.Equal(t, []float64{-1, 7, -8}, numbers(mustEval(t, "BitCast", to(ndarray.Int4), typed(ndarray.Uint4, 15, 7, 8))))
	assert.Equal(t, []float64{15, 7}, numbers(mustEval(t, "BitCast", to(ndarray.Uint4), typed(ndarray.Int4, -1, 7))))
	assert.Equal(t, []float64{-6}, numbers(mustEval(t, "BitCast", to(ndarray.Float4E2M1), typed(ndarray.Int4, -1))))
	_, err := evalOp(t, "BitCast", to(ndarray.Int64), 1, vec(1))
	assert.ErrorContains(t, err, "32 bits")
	_, err = evalOp(t, "BitCast", to(ndarray.String), 1, vec(1))
	require.Error(t, err)
}

// TestCastPairs converts small numbers between all pairs of numeric types.
func TestCastPairs(t *testing.T) {
	for from := ndarray.Float32; from < ndarray.NumDTypes; from++ {
		for dt := ndarray.Float32; dt < ndarray.NumDTypes; dt++ {
			if from.IsComplex() || dt.IsComplex() || from == ndarray.Float8E8M0 || dt == ndarray.Float8E8M0 {
				continue
			}
			x := []float64{0, 1, 1} // what every type holds
			in := typed(from, x...)
			if from == ndarray.String {
				in = ndarray.Strings([]string{"0", "1", "1"}, 3)
			}
			got := mustEval(t, "Cast", to(dt), in)
			if dt == ndarray.String {
				assert.Equal(t, []string{"0", "1", "1"}, got.Str, "%s to string", from)
				continue
			}
			assert.Equal(t, x, numbers(got), "%s to %s", from, dt)
		}
	}
}
