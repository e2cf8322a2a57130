package program

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// compileRelu is a program of one node, Relu of four elements.
func compileRelu(t *testing.T) *Program {
	t.Helper()
	g, err := ssa.ParseGraph("graph \"s\" {\n  in %x: float32[4]\n  %y: float32[4] = Relu(%x)\n  out %y\n}")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := Compile(context.Background(), g, Options{})
	require.NoError(t, err)
	return p
}

func TestSessionsShareAnArena(t *testing.T) {
	ps := compileRelu(t)
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
	p := compileRelu(t)
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
	ps := compileRelu(t)
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

// TestOpenSessionLooks: a session looks at its context while large arenas and states are taken and filled, which ends it there.
func TestOpenSessionLooks(t *testing.T) {
	const most = 1 << 20
	for _, c := range []struct {
		name, text string
		states     []State
	}{
		{"an arena", "graph \"g\" { in %x: float32[1] const %s: int64[1] = 16777216 %a = Expand(%x, %s) %y = ReduceSum(%a) out %y }", nil},
		{"a state of zeros", "graph \"g\" { in %x: float32[10485760] %y = Neg(%x) out %y }", []State{{Initial: nil}}},
		{"a state with a first value", "graph \"g\" { in %x: float32[10485760] %y = Neg(%x) out %y }",
			[]State{{Initial: ssa.NewSplat(ndarray.Scalar(float32(1)), 10485760)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(c.text)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			p, err := Compile(t.Context(), g, Options{States: c.states})
			require.NoError(t, err)
			all := &looktest.Context{Context: t.Context(), Left: most}
			_, err = p.OpenSession(all)
			require.NoError(t, err)
			require.GreaterOrEqual(t, most-all.Left, 3)
			_, err = p.OpenSession(&looktest.Context{Context: t.Context(), Left: (most - all.Left) / 2})
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// TestFirstValuesOfStates: the array of a large first value is not kept beside the state that it was copied into; a small one is.
func TestFirstValuesOfStates(t *testing.T) {
	for elements, want := range map[int]int{keptInitial / 4: 1, keptInitial/4 + 1: 2} {
		g, err := ssa.ParseGraph(fmt.Sprintf("graph \"g\" { in %%x: float32[%d] %%y = Neg(%%x) out %%y }", elements))
		require.NoError(t, err)
		require.NoError(t, ops.InferGraph(g))
		made := 0
		first := ssa.NewLazy(ndarray.Float32, []int{elements}, func() (*ndarray.Array, error) {
			made++
			return ndarray.Must(ndarray.Float32, elements), nil
		})
		p, err := Compile(t.Context(), g, Options{States: []State{{Initial: first}}})
		require.NoError(t, err)
		for range 2 {
			_, err = p.OpenSession(t.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, want, made, "%d elements", elements)
	}
}

// TestResetWithoutRoom: a reset that has no room for a first value leaves no states of two ages to run on.
func TestResetWithoutRoom(t *testing.T) {
	g, err := ssa.ParseGraph("graph \"g\" { in %x: float32[4] in %y: float32[4] %u = Neg(%x) %v = Neg(%y) out %u, %v }")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	var full error
	first := ssa.NewLazy(ndarray.Float32, []int{4}, func() (*ndarray.Array, error) { return ndarray.Must(ndarray.Float32, 4), full })
	p, err := Compile(t.Context(), g, Options{States: []State{{}, {Param: 1, Result: 1, Initial: first}}})
	require.NoError(t, err)
	s, err := p.OpenSession(t.Context())
	require.NoError(t, err)
	first.Release() // as that of a large one is
	full = &sysmem.Error{What: "a constant"}
	require.ErrorIs(t, s.Reset(), full)
	var torn *TornError
	_, err = s.Run(t.Context(), make([]ndarray.Value, 2))
	require.ErrorAs(t, err, &torn)
	assert.Equal(t, "y", torn.State)
	full = nil
	require.NoError(t, s.Reset())
	_, err = s.Run(t.Context(), make([]ndarray.Value, 2))
	require.NoError(t, err)
}

// TestRunsEndByErr: a run ends where its context has an error, as one of a budget has, though it is never done.
func TestRunsEndByErr(t *testing.T) {
	g, err := ssa.ParseGraph("graph \"g\" { in %x: float32[4] in %n: int64[] const %yes: bool[] = true\n%y = Loop(%n, %yes, %x) { body: graph \"b\" { in %i: int64[] in %k: bool[] in %v: float32[4] %w = Neg(%v) out %k, %w } } out %y }")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	p, err := Compile(t.Context(), g, Options{})
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	ctx := &looktest.Context{Context: context.Background(), Left: 20}
	_, err = s.Run(ctx, append(floats(1, 2, 3, 4), ndarray.Scalar(int64(10000))))
	require.ErrorIs(t, err, context.Canceled)
	require.Greater(t, ctx.Left, -20, "soon after")
}
