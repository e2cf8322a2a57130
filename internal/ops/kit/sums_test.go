package kit

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSums compares sums of every short length with the plain loop.
func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		x := make([]float32, n)
		var sum, squares float64
		for i := range x {
			x[i] = r.Float32()
			sum += float64(x[i])
			squares += (float64(x[i]) - 0.25) * (float64(x[i]) - 0.25)
		}
		assert.InDelta(t, sum, SumOf(x), 1e-13*float64(n))
		assert.InDelta(t, squares, DeviationOf(x, 0.25), 1e-13*float64(n))
	}
}
