package vec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

func TestWeighted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ in, out, taps, outer, inner int }{
		{7, 14, 2, 200, 1}, {7, 14, 2, 130, 14}, {14, 7, 2, 4, 1}, {14, 7, 2, 5, 1}, {5, 9, 4, 33, 3}, {5, 9, 0, 33, 3}, {9, 5, 1, 17, 20},
		{9, 5, 3, 17, 21}, {9, 5, 2, 1, 20}, {3000, 6000, 2, 9, 1}, {1, 1, 1, 6, 1}, {4, 8, 2, 3, 40_000}, {4, 0, 0, 9, 1},
	} {
		w := Weighted{In: c.in, Out: c.out}
		for range c.out {
			w.First = append(w.First, int32(len(w.At)))
			for range c.taps {
				w.At, w.Weight = append(w.At, int32(rng.IntN(c.in))), append(w.Weight, rng.Float32())
			}
		}
		w.First = append(w.First, int32(len(w.At)))
		x := kerntest.Noise(rng, c.outer*c.in*c.inner, 0)
		want := make([]float32, c.outer*c.out*c.inner)
		for i := range want {
			o, r, col := i/(c.out*c.inner), i/c.inner%c.out, i%c.inner
			for k := w.First[r]; k < w.First[r+1]; k++ {
				want[i] += float32(w.Weight[k] * x[(o*c.in+int(w.At[k]))*c.inner+col])
			}
		}
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			kerntest.EachLevel(t, func(t *testing.T) {
				got := kerntest.Noise(rng, len(want), 0)
				w.Run(nil, got, x, c.outer, c.inner, make([]float32, w.Scratch(c.outer, c.inner)))
				assert.Equal(t, want, got)
			})
		})
	}
}
