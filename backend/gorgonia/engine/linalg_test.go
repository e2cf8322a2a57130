package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

// TestProducts compares products of matrices and vectors with sums in float64.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for which, e := range engines(t) {
		for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
			for _, la := range layouts {
				for _, lb := range layouts {
					m, k, n := 2+rng.IntN(5), 2+rng.IntN(5), 2+rng.IntN(5)
					x, y, v, w := drawn(rng, m*k), drawn(rng, k*n), drawn(rng, k), drawn(rng, n)
					what := fmt.Sprintf("%s %s, %s and %s", which, dt, la, lb)
					a, b := laid(t, e, la, dt, x, m, k), laid(t, e, lb, dt, y, k, n)
					vec, other := laid(t, e, lb, dt, v, k), laid(t, e, la, dt, w, n)
					same := laid(t, e, la, dt, v, k)
					want := multiply(x, y, m, k, n)
					got, err := tensor.MatMul(a, b)
					require.NoError(t, err, what)
					closeTo(t, want, elements(t, got), dt, "MatMul "+what)
					for _, layout := range layouts {
						to := laid(t, e, layout, dt, nil, m, n)
						require.NoError(t, e.(tensor.MatMuler).MatMul(a, b, to), "into %s: %s", layout, what)
						closeTo(t, want, elements(t, to), dt, "MatMul into "+layout+": "+what)
					}
					for name, c := range map[string]struct {
						f     func() (tensor.Tensor, error)
						shape []int
						want  []float64
					}{
						"MatVecMul": {func() (tensor.Tensor, error) { return tensor.MatVecMul(a, vec) }, []int{m}, multiply(x, v, m, k, 1)},
						"Outer":     {func() (tensor.Tensor, error) { return tensor.Outer(vec, other) }, []int{k, n}, multiply(v, w, k, 1, n)},
						"Dot":       {func() (tensor.Tensor, error) { return tensor.Dot(a, b) }, []int{m, n}, want},
						"Dot left":  {func() (tensor.Tensor, error) { return tensor.Dot(vec, b) }, []int{n}, multiply(v, y, 1, k, n)},
						"Dot right": {func() (tensor.Tensor, error) { return tensor.Dot(a, vec) }, []int{m}, multiply(x, v, m, k, 1)},
						"Inner": {func() (tensor.Tensor, error) {
							s, err := e.(tensor.InnerProder).Inner(same, vec) // the method of Dense compares sizes of memory
							if err != nil {
								return nil, err
							}
							return tensor.New(tensor.FromScalar(s)), nil
						}, []int{}, multiply(v, v, 1, k, 1)},
					} {
						got, err := c.f()
						require.NoError(t, err, "%s %s", name, what)
						assert.True(t, tensor.Shape(c.shape).Eq(got.Shape()), "%s %s: shape %v", name, what, got.Shape())
						closeTo(t, c.want, elements(t, got), dt, name+" "+what)
					}
					closeTo(t, x, elements(t, a), dt, what+": the operand stays")
				}
			}
		}
	}
}

func multiply(x, y []float64, m, k, n int) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				out[i*n+j] += x[i*k+l] * y[l*n+j]
			}
		}
	}
	return out
}
