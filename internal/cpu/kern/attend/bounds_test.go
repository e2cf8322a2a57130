package attend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

// hardCase is an attention of one head that is hard to sum.
type hardCase struct {
	s          Spec
	q, k, v    []float32
	mask       []float32 // added to the scores of every query; nil for none
	multiplied []float64 // sums of the magnitudes of the terms of each score
}

// TestErrorBounds compares attention of complete rows and of chunks with float64 on inputs that are hard to sum, against the bound that
// the package states.
func TestErrorBounds(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for name, fill := range kerntest.HardInputs {
			for i, c := range []struct {
				s, t, d, e   int
				mask, causal bool
			}{
				{s: 1, t: 700, d: 64, e: 32}, {s: 5, t: 70, d: 40, e: 9, mask: true}, {s: 180, t: 300, d: 16, e: 16},
				{s: 1, t: 2500, d: 24, e: 8}, {s: 9, t: 2500, d: 24, e: 8, mask: true}, {s: 530, t: 530, d: 8, e: 8, causal: true},
				{s: 49, t: 49, d: 32, e: 20, mask: true}, {s: 44, t: 1100, d: 300, e: 33}, {s: 30, t: 400, d: 24, e: 16, mask: true},
			} {
				rng := rand.New(rand.NewPCG(uint64(i), 5))
				h := newHardCase(rng, fill, c.s, c.t, c.d, c.e)
				h.s.Causal = c.causal
				if c.mask {
					h.mask = kerntest.Noise(rng, c.t, 4)
					h.s.Steps = []Step{{Kind: Add, Mask: View{Col: 1}}}
				}
				h.check(t, fmt.Sprintf("%s, case %d", name, i))
			}
		}
	})
}

// newHardCase fills operands, with a Scale that makes the magnitudes of the terms of a score at most 40.
func newHardCase(rng *rand.Rand, fill func(*rand.Rand, []float32, []float32), s, t, d, e int) *hardCase {
	rows := func(n int) View { return View{Row: n, Col: 1} }
	h := &hardCase{s: Spec{S: s, T: t, D: d, E: e, Q: rows(d), K: rows(d), V: rows(e), Y: rows(e), Left: -1, Right: -1}}
	h.q, h.k, h.v = make([]float32, t*d), make([]float32, t*d), make([]float32, t*e)
	fill(rng, h.k, h.q)
	h.q = h.q[:s*d]
	fill(rng, make([]float32, t*e), h.v)
	h.multiplied = make([]float64, s*t)
	most := 0.0
	for i := range h.multiplied {
		for n := range d {
			h.multiplied[i] += math.Abs(float64(h.q[i/t*d+n]) * float64(h.k[i%t*d+n]))
		}
		most = max(most, h.multiplied[i])
	}
	h.s.Scale = float32(40 / most)
	return h
}

// scores are those of query s and the largest error that they may have.
func (h *hardCase) scores(s int) (scores []float64, delta float64) {
	n := h.s.T
	if h.s.Causal {
		n = s + 1
	}
	for t := range n {
		score, terms := 0.0, h.multiplied[s*h.s.T+t]*float64(h.s.Scale)
		for i := range h.s.D {
			score += float64(h.q[s*h.s.D+i]) * float64(h.k[t*h.s.D+i])
		}
		score *= float64(h.s.Scale)
		if h.mask != nil {
			score, terms = score+float64(h.mask[t]), terms+math.Abs(float64(h.mask[t]))
		}
		scores = append(scores, score)
		delta = max(delta, float64(h.s.D+4)*0x1p-24*terms)
	}
	return scores, delta
}

// check runs the attention and compares each element of the result with its bound.
func (h *hardCase) check(t *testing.T, name string) {
	t.Helper()
	p, err := New(h.s)
	require.NoError(t, err)
	y := make([]float32, h.s.S*h.s.E)
	a := Args{Q: h.q, K: h.k, V: h.v, Y: y}
	a.Masks[0].Floats = h.mask
	p.Run(&a, make([]byte, p.Workspace(1)), 1)
	most := 0.0
	for s := range h.s.S {
		scores, delta := h.scores(s)
		top, least := math.Inf(-1), math.Inf(1)
		for _, x := range scores {
			top, least = max(top, x), min(least, x)
		}
		relative := 2*delta + (float64(2*h.s.T+8*p.keys.P+12)+top-least)*0x1p-24
		for e := range h.s.E {
			sum, weighted, magnitudes := 0.0, 0.0, 0.0
			for n, x := range scores {
				w, v := math.Exp(x-top), float64(h.v[n*h.s.E+e])
				sum, weighted, magnitudes = sum+w, weighted+w*v, magnitudes+w*math.Abs(v)
			}
			most = max(most, math.Abs(float64(y[s*h.s.E+e])-weighted/sum)/(relative*magnitudes/sum))
		}
	}
	assert.LessOrEqual(t, most, 1.0, name)
	t.Logf("%s: %d chunks, %.2g of the bound", name, p.keys.P, most)
}
