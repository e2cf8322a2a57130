package vec

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// stepForms are the steps of two operands that the kernels take, and one that they do not.
var stepForms = [][2]int{{1, 1}, {1, 0}, {0, 1}, {0, 0}, {2, 1}}

// checkRow calls f with rows of all lengths and compares the elements it has done with the
// definition; nothing behind them may be written.
func checkRow[T, D comparable](t *testing.T, lanes int, values []T, f func(d []D, a []T, sa int, b []T, sb int) int, want func(i int, a, b T) D, mark D) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []T {
		x := make([]T, n)
		for i := range x {
			x[i] = values[rng.IntN(len(values))]
		}
		return x
	}
	for n := 1; n <= 70; n++ {
		for _, s := range stepForms {
			a, b, d := draw(max(1, n*s[0])), draw(max(1, n*s[1])), make([]D, n+1)
			for i := range d {
				d[i] = mark
			}
			done := f(d[:n], a, s[0], b, s[1])
			if s[0] > 1 || lanes < 2 {
				require.Zero(t, done)
			} else {
				require.Equal(t, n-n%lanes, done, "of %d", n)
			}
			for i := range d {
				if i >= done {
					require.Equal(t, mark, d[i], "element %d of %d, done %d", i, n, done)
				} else {
					require.Equal(t, want(i, a[i*s[0]], b[i*s[1]]), d[i], "element %d of %d, steps %v", i, n, s)
				}
			}
		}
	}
}

func related[T cmp.Ordered](r simd.Relation) func(i int, a, b T) bool {
	return func(_ int, a, b T) bool {
		return [...]bool{a == b, a < b, a <= b}[r]
	}
}

func TestRowOps(t *testing.T) {
	inf := float32(math.Inf(1))
	floats := []float32{0, float32(math.Copysign(0, -1)), 1, -1, inf, -inf, float32(math.NaN()), 1e-45}
	ints := []int32{0, 1, -1, math.MaxInt32, math.MinInt32, 12345}
	longs := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1 << 32, -1 << 32}
	kerntest.EachLevel(t, func(t *testing.T) {
		lanes := simd.Active().Lanes()
		for r := range simd.NumRelations {
			checkRow(t, lanes, floats, func(d []bool, a []float32, sa int, b []float32, sb int) int {
				return CompareFloats(r, d, a, sa, b, sb)
			}, related[float32](r), false)
			checkRow(t, lanes, ints, func(d []bool, a []int32, sa int, b []int32, sb int) int { return CompareInts(r, d, a, sa, b, sb) }, related[int32](r), true)
			checkRow(t, lanes/2, longs, func(d []bool, a []int64, sa int, b []int64, sb int) int { return CompareLongs(r, d, a, sa, b, sb) }, related[int64](r), true)
		}
		for op := range simd.NumIntOps {
			checkRow(t, lanes, ints, func(d, a []int32, sa int, b []int32, sb int) int { return IntRow(op, d, a, sa, b, sb) },
				func(_ int, a, b int32) int32 { return [...]int32{a + b, a - b, a * b}[op] }, 777)
		}
		cond := make([]byte, 70)
		for i := range cond {
			cond[i] = []byte{0, 1, 0, 0x80, 2}[i%5]
		}
		checkRow(t, lanes, []uint32{1, 2, 0xffffffff, 0x7fc00001}, func(d, a []uint32, sa int, b []uint32, sb int) int {
			return Choose(d, cond, a, sa, b, sb)
		}, func(i int, a, b uint32) uint32 {
			if cond[i] != 0 {
				return a
			}
			return b
		}, 777)
	})
}

// TestRowOpsDoNotAllocate also holds one element as an operand, which kernels write out.
func TestRowOpsDoNotAllocate(t *testing.T) {
	d, a, b := make([]bool, 64), make([]float32, 64), []float32{1}
	require.Zero(t, testing.AllocsPerRun(20, func() { CompareFloats(simd.Less, d, a, 1, b, 0) }))
}
