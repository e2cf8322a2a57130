package vec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// checkCopy runs a copy of elements of one type and compares with the
// definition: element by element, by coordinates.
func checkCopy[T Elem](t *testing.T, dims, ds, ss []int, value func(i int) T) {
	t.Helper()
	c, err := NewCopy(dims, ds, ss)
	require.NoError(t, err)
	src := make([]T, c.src.hi-c.src.lo+1)
	for i := range src {
		src[i] = value(i)
	}
	size := c.dst.hi - c.dst.lo + 1
	dst, want := make([]T, size+128), make([]T, size+128)
	d0, s0 := 64-c.dst.lo, -c.src.lo
	n := 1
	for _, d := range dims {
		n *= d
	}
	for i := range n {
		d, s := d0, s0
		for k, r := len(dims)-1, i; k >= 0; k-- {
			d += r % dims[k] * ds[k]
			s += r % dims[k] * ss[k]
			r /= dims[k]
		}
		want[d] = src[s]
	}
	for _, threads := range []int{1, 2} {
		clear(dst)
		require.NoError(t, RunCopy(nil, c, dst, d0, src, s0, threads))
		for i := range dst {
			if dst[i] != want[i] {
				require.Equal(t, want[i], dst[i], "dims %v dst %v src %v, element %d", dims, ds, ss, i)
			}
		}
	}
}

func TestTranspose(t *testing.T) {
	cases := []struct{ dims, perm []int }{
		{[]int{5}, []int{0}},
		{[]int{3, 4}, []int{1, 0}},
		{[]int{64, 100}, []int{1, 0}},
		{[]int{300, 257}, []int{1, 0}},
		{[]int{2, 3, 4, 5}, []int{0, 2, 3, 1}},
		{[]int{2, 17, 19, 3}, []int{0, 3, 1, 2}},
		{[]int{4, 12, 3, 20}, []int{0, 2, 1, 3}},
		{[]int{2, 9, 33, 18}, []int{3, 2, 1, 0}},
		{[]int{1, 8, 1, 40}, []int{3, 2, 1, 0}},
		{[]int{}, []int{}},
	}
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, c := range cases {
			out, ss := make([]int, len(c.dims)), make([]int, len(c.dims))
			for i, p := range c.perm {
				out[i], ss[i] = c.dims[p], denseStrides(c.dims)[p]
			}
			checkCopy(t, out, denseStrides(out), ss, func(i int) float32 { return float32(i + 1) })
			checkCopy(t, out, denseStrides(out), ss, func(i int) uint8 { return uint8(i*7 + 1) })
			checkCopy(t, out, denseStrides(out), ss, func(i int) uint16 { return uint16(i*7 + 1) })
			checkCopy(t, out, denseStrides(out), ss, func(i int) int64 { return int64(i + 1) })
		}
		for r := 1; r <= 35; r++ {
			for k := 1; k <= 35; k++ {
				checkCopy(t, []int{k, r}, []int{r, 1}, []int{1, k}, func(i int) float32 { return float32(i + 1) })
				checkCopy(t, []int{k, r}, []int{r, 1}, []int{1, k}, func(i int) uint16 { return uint16(i + 1) })
			}
		}
	})
}

func TestCopyRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kerntest.EachLevel(t, func(t *testing.T) {
		for range 300 {
			rank := rng.IntN(5)
			dims, ds, ss := make([]int, rank), make([]int, rank), make([]int, rank)
			step := 1 + rng.IntN(2)
			for _, k := range rng.Perm(rank) { // any order of the destination's dimensions
				dims[k] = 1 + rng.IntN(9)
				ds[k] = step
				step *= dims[k] + rng.IntN(2)
				ss[k] = rng.IntN(40) - 10
				switch rng.IntN(4) {
				case 0:
					ss[k] = 0
				case 1:
					ss[k] = 1
				}
			}
			checkCopy(t, dims, ds, ss, func(i int) uint16 { return uint16(i + 1) })
			checkCopy(t, dims, ds, ss, func(i int) float32 { return float32(i + 1) })
		}
	})
}

func TestCopyErrors(t *testing.T) {
	var spec *machine.SpecError
	var size *machine.SizeError
	_, err := NewCopy([]int{2}, []int{1, 1}, []int{1})
	assert.ErrorAs(t, err, &spec)
	_, err = NewCopy([]int{-2}, []int{1}, []int{1})
	assert.ErrorAs(t, err, &spec)
	_, err = NewTranspose([]int{2, 2}, []int{0, 0})
	assert.ErrorAs(t, err, &spec)
	c, err := NewTranspose([]int{2, 3}, []int{1, 0})
	require.NoError(t, err)
	assert.ErrorAs(t, RunCopy(nil, c, make([]int32, 6), 0, make([]int32, 5), 0, 1), &size)
	assert.ErrorAs(t, RunCopy(nil, c, make([]int32, 6), 1, make([]int32, 6), 0, 1), &size)
	assert.ErrorAs(t, RunCopy(nil, c, make([]int32, 6), -1, make([]int32, 6), 0, 1), &spec)
}

func BenchmarkTranspose(b *testing.B) {
	for _, l := range machine.Levels() {
		for _, c := range []struct{ dims, perm []int }{
			{[]int{1024, 1024}, []int{1, 0}},
			{[]int{128, 12, 64}, []int{1, 0, 2}},
			{[]int{12, 128, 64}, []int{0, 2, 1}},
			{[]int{224 * 224, 3}, []int{1, 0}},
			{[]int{64, 3136}, []int{1, 0}},
			{[]int{64, 49, 3, 2, 16}, []int{2, 0, 3, 1, 4}},
			{[]int{64, 49, 3, 8, 4}, []int{2, 0, 3, 1, 4}},
			{[]int{3136, 3, 8, 2}, []int{1, 2, 0, 3}},
			{[]int{48, 2, 2, 56, 56}, []int{0, 3, 1, 4, 2}},
			{[]int{48, 56, 2, 56, 2}, []int{0, 2, 4, 1, 3}},
		} {
			b.Run(fmt.Sprintf("%s/%v%v", l, c.dims, c.perm), func(b *testing.B) {
				kerntest.AtLevel(b, l, func(b *testing.B) {
					p, err := NewTranspose(c.dims, c.perm)
					require.NoError(b, err)
					x, y := machine.AlignedFloats(b.Context(), p.Len()), machine.AlignedFloats(b.Context(), p.Len())
					sec := kerntest.BestOf(b, func() { _ = RunCopy(nil, p, y, 0, x, 0, 1) })
					b.ReportMetric(float64(8*p.Len())/sec/1e9, "GB/s")
				})
			})
		}
	}
}
