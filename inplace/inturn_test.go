package inplace

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/liveness"
)

// longClass is a class of many contents, of which the first ones begin and end in order of time.
func longClass(r *rand.Rand, contents, inTurn, firstBlock int) *Class {
	c := &Class{Bytes: 64}
	at := 0
	for i := range contents {
		lo := r.IntN(6 * contents)
		if i < inTurn {
			at += r.IntN(6)
			lo = at
		}
		points := liveness.Set{{Lo: lo, Hi: lo + 8}}
		if r.IntN(3) == 0 {
			points = liveness.Set{{Lo: lo, Hi: lo + 2}, {Lo: lo + 5, Hi: lo + 8}}
		}
		one := &Class{Bytes: 64, held: []content{{value: firstBlock + i, block: firstBlock + i, at: int64(r.IntN(2) * 32), n: 32, life: &life{points: points}}}}
		c.absorb(one, 0, life{points: c.life.points.Union(points)})
	}
	return c
}

// TestContentsInTurn: whether long classes clash does not depend on how many of their contents are in turn.
func TestContentsInTurn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := &Folding{times: oneOrder{}, same: newContents(400)}
	clashes := 0
	for i := range 3000 {
		x := longClass(r, 40+r.IntN(40), r.IntN(80), 0)
		y := longClass(r, 1+r.IntN(3)*r.IntN(40), r.IntN(40), 200)
		assert.Greater(t, x.inTurn, 0)
		shift, except := int64(r.IntN(3)*32), liveness.Set{{Lo: 20, Hi: 90}}
		if i%2 == 0 {
			except = nil
		}
		for k, p := range [][2]*Class{{x, y}, {y, x}} {
			got := f.clash(p[0], p[1], shift, except)
			plain := [2]Class{*p[0], *p[1]}
			plain[0].inTurn, plain[1].inTurn = 0, 0
			assert.Equal(t, f.clash(&plain[0], &plain[1], shift, except), got, fmt.Sprint(i, " ", k))
			if got {
				clashes++
			}
		}
	}
	assert.Greater(t, clashes, 500)
	assert.Less(t, clashes, 5500)
}
