package planner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/planner"
)

// lookedOften counts how often a context is looked at, and ends after some looks.
type lookedOften struct {
	context.Context
	looks, last int
}

func (l *lookedOften) Err() error {
	if l.looks++; l.last > 0 && l.looks >= l.last {
		return context.Canceled
	}
	return nil
}

// TestValidateEnds: the verifier looks at its context as often as there are buffers by the hundred, and what it says once that has ended is that alone.
func TestValidateEnds(t *testing.T) {
	const count = 20_000
	p := &planner.Problem{Align: 64}
	s := &planner.Solution{ArenaBytes: count * 64}
	for i := range count {
		p.Buffers = append(p.Buffers, planner.Buffer{Size: 64, Lo: i, Hi: count})
		s.Offsets = append(s.Offsets, int64(i)*64)
	}
	whole := &lookedOften{Context: t.Context()}
	require.NoError(t, planner.ValidateContext(whole, p, s))
	assert.Greater(t, whole.looks, count/200)
	for last := 1; last <= whole.looks; last += 7 {
		assert.ErrorIs(t, planner.ValidateContext(&lookedOften{Context: t.Context(), last: last}, p, s), context.Canceled, "look %d of %d", last, whole.looks)
	}
	s.Offsets[count/2] = 0
	assert.Error(t, planner.ValidateContext(t.Context(), p, s))
}

// TestPlacingLooks: planners look at their context for each of many items, since a place for one among all the others may take long.
func TestPlacingLooks(t *testing.T) {
	const count = 5_000
	p := &planner.Problem{}
	for i := range count {
		p.Buffers = append(p.Buffers, planner.Buffer{Size: 64, Lo: i, Hi: i + 1})
	}
	ctx := &lookedOften{Context: t.Context()}
	_, err := planner.GreedySize{}.Plan(ctx, p)
	require.NoError(t, err)
	assert.Greater(t, ctx.looks, count)
}
