package program

import (
	"context"
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

	bad, f, err := parsePlan(text)
	require.NoError(t, err)
	require.Equal(t, Fingerprint(first.Problem), f)
	clear(bad.Offsets)
	spoilt := &Program{Problem: first.Problem, Solution: bad}
	planned := compileHarbour(t, Options{Saved: []string{spoilt.SavePlan()}})
	assert.NotEqual(t, "saved", planned.Report.Planner, "a plan that is not sound is not used")
	assert.NoError(t, planner.Validate(planned.Problem, planned.Solution))
}

func TestSessionsShareAnArena(t *testing.T) {
	small, err := ssa.ParseGraph("graph \"s\" {\n  in %x: float32[4]\n  %y: float32[4] = Relu(%x)\n  out %y\n}")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(small))
	ps, err := Compile(context.Background(), small, Options{})
	require.NoError(t, err)
	large := compileHarbour(t, Options{})
	a := NewArena()
	s1, err := ps.NewSessionIn(a)
	require.NoError(t, err)
	_, err = large.NewSessionIn(a)
	require.NoError(t, err)
	assert.Equal(t, max(ps.ArenaBytes, large.ArenaBytes), a.Bytes(), "the largest, not the sum")
	out, err := s1.Run(context.Background(), floats(-1, 2, -3, 4))
	require.NoError(t, err)
	assert.Equal(t, floats(0, 2, 0, 4), out, "a session made before the arena grew runs in the new memory")
}
