package kit

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

// TestMoveBlock compares random boxes with strides of any sign with a plain walk.
func TestMoveBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		rank := rng.IntN(5)
		b := Block{Src: 500, Dst: 500}
		for range rank {
			b.Shape = append(b.Shape, rng.IntN(4))
			b.Sstr = append(b.Sstr, rng.IntN(21)-10)
			b.Dstr = append(b.Dstr, []int{1, 4, 16, 64}[rng.IntN(4)])
		}
		dt := []ndarray.DType{ndarray.Int8, ndarray.Float16, ndarray.Float32, ndarray.Int64, ndarray.Complex128, ndarray.String}[rng.IntN(6)]
		src, want, got := ndarray.Must(dt, 1000), ndarray.Must(dt, 1000), ndarray.Must(dt, 1000)
		for i := range 1000 {
			src.SetInt(i, int64(i%120))
			if dt == ndarray.String {
				src.Str[i] = string(rune('a' + i%26))
			}
		}
		var w Watch
		EachIndex(nil, b.Shape, func(idx []int) {
			d, s := b.Dst, b.Src
			for k, i := range idx {
				d, s = d+i*b.Dstr[k], s+i*b.Sstr[k]
			}
			CopyElems(&w, want, d, src, s, 1)
		})
		MoveBlock(nil, got, src, b)
		require.Equal(t, want.Data, got.Data, "%+v", b)
		require.Equal(t, want.Str, got.Str, "%+v", b)
	}
}
