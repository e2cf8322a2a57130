package liveness

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestMeets compares sets of any length with their points.
func TestMeets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	draw := func(runs, from int) (s Set) {
		for range runs {
			from += 1 + r.IntN(6)
			to := from + 1 + r.IntN(3)
			s, from = append(s, Range{from, to}), to
		}
		return s
	}
	met := 0
	for range 5000 {
		s, u, except := draw(r.IntN(60), r.IntN(200)), draw(r.IntN(1+r.IntN(60)), r.IntN(400)), draw(r.IntN(3), r.IntN(200))
		want := false
		s.EachShared(u, func(shared Range) { want = want || !except.covers(shared.Lo, shared.Hi) })
		assert.Equal(t, want, s.Meets(u, except), "%v %v %v", s, u, except)
		if want {
			met++
		}
	}
	assert.Greater(t, met, 500)
	assert.Less(t, met, 4500)
}
