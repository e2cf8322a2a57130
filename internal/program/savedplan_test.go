package program

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

func compileHarbour(t *testing.T, o Options) *Program {
	g, err := ssa.ParseGraph(harbour)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := Compile(context.Background(), g, o)
	require.NoError(t, err)
	return p
}

func floats(v ...float32) []ndarray.Value { return []ndarray.Value{ndarray.Of(v, len(v))} }

func TestSavedPlans(t *testing.T) {
	first := compileHarbour(t, Options{})
	text := first.SavePlan()
	again := compileHarbour(t, Options{Saved: []string{"no plan", text[:len(text)/2], text}})
	assert.Equal(t, "saved", again.Report.Planner)
	assert.Equal(t, first.Solution.Offsets, again.Solution.Offsets)
	assert.Equal(t, first.Report.LowerBound, again.Report.LowerBound)

	other := compileHarbour(t, Options{Saved: []string{text}, Backend: workspaces{}})
	assert.NotEqual(t, "saved", other.Report.Planner, "another problem needs another plan")

	large := *first.Solution
	large.Offsets = slices.Clone(large.Offsets)
	large.Offsets[0] += 1 << 40
	large.ArenaBytes = large.Offsets[0] + first.Problem.Buffers[0].Size
	require.NoError(t, planner.Validate(first.Problem, &planner.Solution{Offsets: large.Offsets, ArenaBytes: large.ArenaBytes}))
	claimed := (&Program{Problem: first.Problem, Solution: &large}).SavePlan()
	again = compileHarbour(t, Options{Saved: []string{claimed, text}})
	assert.Equal(t, "saved", again.Report.Planner)
	assert.Equal(t, first.ArenaBytes, again.ArenaBytes, "an arena that is larger than need be is not believed")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Nil(t, savedPlan(ended, []string{text}, first.Problem), "bounding a plan ends with the context")

	bad, f, err := parsePlan(text)
	require.NoError(t, err)
	require.Equal(t, Fingerprint(first.Problem), f)
	clear(bad.Offsets)
	spoilt := &Program{Problem: first.Problem, Solution: bad}
	planned := compileHarbour(t, Options{Saved: []string{spoilt.SavePlan()}})
	assert.NotEqual(t, "saved", planned.Report.Planner, "a plan that is not sound is not used")
	assert.NoError(t, planner.Validate(planned.Problem, planned.Solution))
}
