package attend

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

// TestColumns compares attention by columns with that by rows, which NaNToZero asks for: masks of every form, heads that share
// rows, keys that are transposed, panels that are not full, one and several threads. TestErrorBounds holds the errors of both; here a
// layout that is read wrongly gives other numbers altogether.
func TestColumns(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, c := range []struct {
			s, t, d, e int
			masks      []View // over the scores of a batch of 2 by 3
			turned     bool   // keys are stored as columns
		}{
			{s: 49, t: 49, d: 32, e: 32, masks: []View{{Batch: []int{0, 49 * 49}, Row: 49, Col: 1}, {Batch: []int{49 * 49, 0}, Row: 49, Col: 1}}},
			{s: 197, t: 300, d: 64, e: 64}, {s: 70, t: 260, d: 24, e: 17, turned: true},
			{s: 13, t: 700, d: 300, e: 5, masks: []View{{Batch: []int{700, 0}, Col: 1}}},
			{s: 47, t: 257, d: 8, e: 40, masks: []View{{Batch: []int{0, 0}, Row: 300, Col: 1}}},
			{s: 128, t: 2048, d: 16, e: 16}, {s: 16, t: 1, d: 1, e: 1},
		} {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			view := func(rows, cols int) View {
				return View{Batch: []int{3 * rows * cols, cols}, Row: 3 * cols, Col: 1}
			}
			s := Spec{Batch: []int{2, 3}, S: c.s, T: c.t, D: c.d, E: c.e, Q: view(c.s, c.d), K: view(c.t, c.d), V: view(c.t, c.e), Y: view(c.s, c.e), Scale: 0.5, Left: -1, Right: -1}
			if c.turned {
				s.K = View{Batch: []int{3 * c.t * c.d, c.t * c.d}, Row: 1, Col: c.t}
			}
			a := Args{Q: kerntest.Noise(rng, 6*c.s*c.d, 0), K: kerntest.Noise(rng, 6*c.t*c.d, 0), V: kerntest.Noise(rng, 6*c.t*c.e, 0)}
			for m, v := range c.masks {
				s.Steps = append(s.Steps, Step{Kind: Add, Mask: v})
				a.Masks[m].Floats = kerntest.Noise(rng, 6*300*max(c.t, 49), 0)
			}
			byRows := s
			byRows.NaNToZero = true
			p, err := New(s)
			require.NoError(t, err)
			assert.Equal(t, p.t.ColExp != nil, p.cols != nil, "case %d is computed by columns where there are kernels for that", i)
			want, got, again := make([]float32, 6*c.s*c.e), make([]float32, 6*c.s*c.e), make([]float32, 6*c.s*c.e)
			runOn(t, byRows, a, want, 1)
			runOn(t, s, a, got, 1)
			runOn(t, s, a, again, 2)
			assert.Equal(t, got, again, "%d", i)
			for k := range want {
				require.InDelta(t, want[k], got[k], 2e-4, "case %d, element %d", i, k)
			}
		}
	})
}

// runOn computes an attention on some threads into y.
func runOn(t *testing.T, s Spec, a Args, y []float32, threads int) {
	t.Helper()
	p, err := New(s)
	require.NoError(t, err)
	a.Y = y
	p.Run(&a, make([]byte, p.Workspace(threads)), threads)
}

// TestColumnsOfLargeValues: sums of values may be beyond the range where their mean is not; what is not finite gives what rows give.
func TestColumnsOfLargeValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	const n, d = 300, 16
	kerntest.EachLevel(t, func(t *testing.T) {
		for name, c := range map[string]struct{ mask, value, want float32 }{
			"large":                   {0, 3e38, 3e38},
			"infinite":                {0, inf, inf},
			"not a number":            {0, nan, nan},
			"all masked":              {-inf, 1, nan},
			"a score that is no more": {nan, 1, nan},
		} {
			t.Run(name, func(t *testing.T) {
				rows := View{Row: d, Col: 1}
				s := Spec{S: n, T: n, D: d, E: d, Q: rows, K: rows, V: rows, Y: rows, Scale: 1, Left: -1, Right: -1, Steps: []Step{{Kind: Add, Mask: View{Col: 1}}}}
				a, y := Args{Q: make([]float32, n*d), K: make([]float32, n*d), V: make([]float32, n*d)}, make([]float32, n*d)
				fill(a.V, c.value)
				a.Masks[0].Floats = make([]float32, n)
				fill(a.Masks[0].Floats, c.mask)
				runOn(t, s, a, y, 1)
				for i, v := range y {
					if c.want != c.want {
						require.True(t, v != v, "%d: %v", i, v)
					} else if v != c.want {
						require.InEpsilon(t, c.want/2, v/2, 1e-4, "%d", i)
					}
				}
			})
		}
	})
}
