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

// TestArenaInUse: a run waits for the arena until its context ends, and what a hook of a run calls in its arena is refused.
func TestArenaInUse(t *testing.T) {
	g, err := ssa.ParseGraph("graph \"s\" {\n  in %x: float32[4]\n  %y: float32[4] = Relu(%x)\n  out %y\n}")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := Compile(context.Background(), g, Options{})
	require.NoError(t, err)
	for name, a := range map[string]*Arena{"made": NewArena(), "zero": {}} {
		s, err := p.NewSessionIn(a)
		require.NoError(t, err, name)
		other, err := p.NewSessionIn(a)
		require.NoError(t, err, name)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		calls := 0
		s.Observe = func(*Instr, []ndarray.Value) {
			calls++
			_, err := other.Run(context.Background(), floats(-1, 2, -3, 4))
			assert.ErrorIs(t, err, ErrInUse)
			_, err = p.NewSessionIn(a)
			assert.ErrorIs(t, err, ErrInUse)
			assert.Equal(t, p.ArenaBytes, a.Bytes())
			elsewhere := make(chan error)
			go func() {
				_, err := other.Run(ended, floats(-1, 2, -3, 4))
				elsewhere <- err
			}()
			assert.ErrorIs(t, <-elsewhere, context.Canceled)
		}
		_, err = s.Run(context.Background(), floats(-1, 2, -3, 4))
		require.NoError(t, err, name)
		assert.Equal(t, 1, calls)
		_, err = other.Run(context.Background(), floats(-1, 2, -3, 4))
		require.NoError(t, err, name)
	}
}

// TestBuffersInSharedArena: a buffer in the memory of a shared arena is refused also by a session that has not seen it grow.
func TestBuffersInSharedArena(t *testing.T) {
	small, err := ssa.ParseGraph("graph \"s\" {\n  in %x: float32[4]\n  %y: float32[4] = Relu(%x)\n  out %y\n}")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(small))
	ps, err := Compile(context.Background(), small, Options{})
	require.NoError(t, err)
	large := compileHarbour(t, Options{})
	a := NewArena()
	s, err := ps.NewSessionIn(a)
	require.NoError(t, err)
	_, err = large.NewSessionIn(a)
	require.NoError(t, err)
	var wrong *OutputError
	inside := &ndarray.Array{DType: ndarray.Float32, Shape: []int{4}, Data: a.data[:16:16]}
	require.ErrorAs(t, s.RunInto(context.Background(), floats(-1, 2, -3, 4), []*ndarray.Array{inside}), &wrong)
}
