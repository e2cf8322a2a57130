package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
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

// TestPadIndex walks each mode along [a b c d] by hand.
func TestPadIndex(t *testing.T) {
	for _, c := range []struct {
		mode string
		n    int
		want string
	}{
		{"edge", 4, "00000012333333"},
		{"wrap", 4, "30123012301230"},
		{"reflect", 4, "12321012321012"},
		{"reflect", 2, "10101010101010"},
		{"reflect", 1, "00000000000000"},
	} {
		got := ""
		for i := -5; i < 9; i++ {
			got += string(rune('0' + padIndex(c.mode, i, c.n)))
		}
		assert.Equal(t, c.want, got, c.mode)
	}
}

// TestMoveBlock compares random boxes with strides of any sign with a plain walk.
func TestMoveBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		rank := rng.IntN(5)
		b := block{src: 500, dst: 500}
		for range rank {
			b.shape = append(b.shape, rng.IntN(4))
			b.sstr = append(b.sstr, rng.IntN(21)-10)
			b.dstr = append(b.dstr, []int{1, 4, 16, 64}[rng.IntN(4)])
		}
		dt := []ndarray.DType{ndarray.Int8, ndarray.Float16, ndarray.Float32, ndarray.Int64, ndarray.Complex128, ndarray.String}[rng.IntN(6)]
		src, want, got := ndarray.Must(dt, 1000), ndarray.Must(dt, 1000), ndarray.Must(dt, 1000)
		for i := range 1000 {
			src.SetInt(i, int64(i%120))
			if dt == ndarray.String {
				src.Str[i] = string(rune('a' + i%26))
			}
		}
		EachIndex(b.shape, func(idx []int) {
			d, s := b.dst, b.src
			for k, i := range idx {
				d, s = d+i*b.dstr[k], s+i*b.sstr[k]
			}
			copyElems(want, d, src, s, 1)
		})
		moveBlock(got, src, b)
		require.Equal(t, want.Data, got.Data, "%+v", b)
		require.Equal(t, want.Str, got.Str, "%+v", b)
	}
}

// TestResizeTaps checks that weights sum to 1 in every mode and stay inside.
func TestResizeTaps(t *testing.T) {
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, coord := range []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"} {
			for _, size := range [][2]int{{1, 1}, {1, 5}, {5, 1}, {4, 7}, {7, 3}, {6, 6}} {
				for flags := range 4 {
					p := resizePlan{mode: mode, coord: coord, nearest: "floor", cubicA: -0.75, exclude: flags&1 != 0, antialias: flags&2 != 0}
					scale := float64(size[1]) / float64(size[0])
					x := resizeAxis{in: size[0], out: size[1], scale: scale, width: scale * float64(size[0]), to: 1, listed: true}
					for y := range x.out {
						taps, _ := p.taps(&x, y)
						sum := 0.0
						for _, tap := range taps {
							assert.True(t, tap.index >= 0 && tap.index < x.in)
							sum += tap.weight
						}
						assert.InDelta(t, 1, sum, 1e-9, "%s %s %v", mode, coord, size)
					}
				}
			}
		}
	}
}

// TestReflect folds coordinates by hand.
func TestReflect(t *testing.T) {
	for _, c := range []struct{ v, lo, hi, want float64 }{
		{-1, 0, 3, 1}, {4, 0, 3, 2}, {7, 0, 3, 1}, {-3.5, -0.5, 3.5, 2.5}, {9, 0, 0, 0}, {3, 0, 3, 3}, {-0.5, -0.5, 3.5, -0.5},
	} {
		assert.InDelta(t, c.want, reflect(c.v, c.lo, c.hi), 1e-12, "%v", c)
	}
}
