package berth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// made plans programs that are compiled at once and names them by the shapes of their keys.
type made struct{ names []string }

func (m *made) plan(key programKey) compilation {
	return func(context.Context) (*Program, error) {
		m.names = append(m.names, "("+key.shapes+")")
		return &Program{}, nil
	}
}

func keyOf(shapes string) programKey { return programKey{shapes: shapes} }

// TestKeptPrograms: which programs are compiled for a sequence of shapes, one letter a call; "()" is the open one.
func TestKeptPrograms(t *testing.T) {
	for _, c := range []struct {
		name            string
		most            int
		calls           string
		compiled        string
		hits, evictions int64
		kept            int
	}{
		{"each once", 3, "abcabc", "(a)(b)(c)", 3, 0, 3},
		{"the least recently used goes", 2, "abadaddda", "(a)(b)()", 6, 1, 2},
		{"one shape more than places, in turn", 3, "abcdabcdabcdabcd", "(a)(b)(c)()", 12, 1, 3},
		{"many shapes in a row", 3, "abcdefghijklmnopqrstuvwxyz", "(a)(b)(c)()", 22, 1, 3},
		{"one that comes again and again", 3, "abcddddd", "(a)(b)(c)()(d)", 3, 2, 3},
		{"not while all places are used", 2, "abaxaxaxaxaxax", "(a)(b)()", 11, 1, 2},
		{"one place", 1, "aabbbbbb", "(a)()", 6, 1, 1},
		{"no place", 0, "aab", "(a)(a)(b)", 0, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, m := keptPrograms{most: c.most}, made{}
			for _, shapes := range strings.Split(c.calls, "") {
				_, err := k.get(t.Context(), keyOf(shapes), m.plan)
				require.NoError(t, err)
			}
			assert.Equal(t, c.compiled, strings.Join(m.names, ""))
			var s ModelStats
			k.count(&s)
			assert.Equal(t, ModelStats{KeptPrograms: c.kept, Hits: c.hits, Misses: int64(len(c.calls)) - c.hits,
				Compiles: int64(len(m.names)), Evictions: c.evictions}, s)
			assert.LessOrEqual(t, len(k.seen), mostSeen)
		})
	}
}

// slow is a compilation that lasts until it is told, or its context ends.
type slow struct {
	begun  chan string
	finish chan error
}

func newSlow() slow { return slow{make(chan string, 16), make(chan error)} }

func (s slow) plan(key programKey) compilation {
	return func(ctx context.Context) (*Program, error) {
		s.begun <- key.shapes
		select {
		case err := <-s.finish:
			return &Program{}, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// call asks for a program on a goroutine of its own.
func call(ctx context.Context, k *keptPrograms, shapes string, plan func(programKey) compilation) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := k.get(ctx, keyOf(shapes), plan)
		done <- err
	}()
	return done
}

// waiting waits until so many calls share the compilation that is first in the list.
func waiting(t *testing.T, k *keptPrograms, n int) {
	require.Eventually(t, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.list) > 0 && k.list[0].waiting == n
	}, time.Minute, time.Millisecond)
}

// TestCompilationsAreShared: calls of one key compile once, whoever of them is cancelled; other keys do not wait.
func TestCompilationsAreShared(t *testing.T) {
	k, s := &keptPrograms{most: 4}, newSlow()
	ctx, cancel := context.WithCancel(t.Context())
	leader := call(ctx, k, "a", s.plan)
	assert.Equal(t, "a", <-s.begun)
	follower := call(t.Context(), k, "a", s.plan)
	waiting(t, k, 2)
	var stats ModelStats
	k.count(&stats)
	assert.Zero(t, stats.KeptPrograms, "it is not there yet")
	cancel()
	require.ErrorIs(t, <-leader, context.Canceled, "who is cancelled does not wait")
	require.NoError(t, <-call(t.Context(), k, "b", new(made).plan), "another shape is not blocked")
	s.finish <- nil
	require.NoError(t, <-follower)
	require.NoError(t, <-call(t.Context(), k, "a", s.plan), "it is kept")
	assert.Empty(t, s.begun, "and was compiled once")
}

// TestAbandonedCompilationEnds: a compilation that nobody waits for any more ends, and the next call begins anew.
func TestAbandonedCompilationEnds(t *testing.T) {
	k, s := &keptPrograms{most: 4}, newSlow()
	ctx, cancel := context.WithCancel(t.Context())
	both := []<-chan error{call(ctx, k, "a", s.plan), call(ctx, k, "a", s.plan)}
	waiting(t, k, 2)
	<-s.begun
	cancel()
	for _, done := range both {
		require.ErrorIs(t, <-done, context.Canceled)
	}
	require.NoError(t, <-call(t.Context(), k, "a", new(made).plan))
}

// TestFailedCompilationIsNotKept: all who wait for it get the error, the next call compiles again.
func TestFailedCompilationIsNotKept(t *testing.T) {
	k, s, broken := &keptPrograms{most: 4}, newSlow(), errors.New("broken")
	both := []<-chan error{call(t.Context(), k, "a", s.plan), call(t.Context(), k, "a", s.plan)}
	waiting(t, k, 2)
	s.finish <- broken
	for _, done := range both {
		require.ErrorIs(t, <-done, broken)
	}
	require.NoError(t, <-call(t.Context(), k, "a", new(made).plan))
	var stats ModelStats
	k.count(&stats)
	assert.Equal(t, ModelStats{KeptPrograms: 1, Hits: 1, Misses: 2, Compiles: 1}, stats)
}

// TestOpenProgramThatFails: shapes whose open program can not be compiled get one of their own.
func TestOpenProgramThatFails(t *testing.T) {
	k, m := &keptPrograms{most: 1}, made{}
	plan := func(key programKey) compilation {
		if key.shapes == "" {
			return func(context.Context) (*Program, error) { return nil, errors.New("not with open dimensions") }
		}
		return m.plan(key)
	}
	for _, shapes := range []string{"a", "b"} {
		_, err := k.get(t.Context(), keyOf(shapes), plan)
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"(a)", "(b)"}, m.names)
}

// TestOptionsTellProgramsApart: what one call asks for has no effect on another one, failures included.
func TestOptionsTellProgramsApart(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[N,4] %y = Neg(%x) out %y }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	in := map[string]ndarray.Value{"x": ndarray.Of(make([]float32, 8), 2, 4)}
	var full *MemoryError
	var hooked int
	hook := &Hook{After: func(context.Context, Event) { hooked++ }}
	m := FromModule(&ssa.Module{Graph: g})
	for _, c := range []struct {
		name  string
		opts  []Option
		want  any // of the error
		nodes int // that the hook sees
		hits  int64
	}{
		{name: "a budget that is too small", opts: []Option{WithMaxMemory(64 << 10)}, want: &full},
		{name: "the default"},
		{name: "the default again", hits: 1},
		{name: "the default by other names", opts: []Option{WithBackend(""), WithThreads(0)}, hits: 1},
		{name: "a dimension that the input contradicts", opts: []Option{WithDim("N", 7)}, want: new(error)},
		{name: "the same again", opts: []Option{WithDim("N", 7)}, want: new(error)},
		{name: "the dimension that it has", opts: []Option{WithDim("N", 2)}},
		{name: "a shape that it contradicts", opts: []Option{WithShape("x", 3, 4)}, want: new(error)},
		{name: "another planner", opts: []Option{WithPlanner("naive")}},
		{name: "no such planner", opts: []Option{WithPlanner("none")}, want: new(error)},
		{name: "a hook", opts: []Option{WithHook(hook)}, nodes: 1},
		{name: "the hook again", opts: []Option{WithHook(hook)}, nodes: 1, hits: 1},
		{name: "another order of options", opts: []Option{WithPlanner("naive"), WithThreads(1)}, hits: 1},
		{name: "a pass less", opts: []Option{WithoutPass("fold")}},
		{name: "no hook any more", hits: 1},
		{name: "the small budget again", opts: []Option{WithMaxMemory(64 << 10)}, want: &full},
	} {
		before := m.Stats().Hits
		hooked = 0
		_, err := m.RunValues(t.Context(), in, c.opts...)
		if c.want != nil {
			require.ErrorAs(t, err, c.want, c.name)
		} else {
			require.NoError(t, err, c.name)
		}
		assert.Equal(t, c.nodes, hooked, c.name)
		assert.Equal(t, c.hits, m.Stats().Hits-before, c.name)
	}
}

// TestOpenProgramAgrees: shapes beyond the places run in the open program, with the same results.
func TestOpenProgramAgrees(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[1,2,N,4] const %w: float32[2,2,3,3] = [` + strings.TrimSuffix(strings.Repeat("0.5, ", 36), ", ") +
		`] %c = Conv(%x, %w) [pads=[1, 1, 1, 1]] %r = Relu(%c) %y = Softmax(%r) [axis=-1] out %y }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	module := &ssa.Module{Graph: g}
	few, none := FromModule(module, WithPrograms(2)), FromModule(module, WithPrograms(0))
	for n := range 20 {
		x := ndarray.Must(ndarray.Float32, 1, 2, n+1, 4)
		for i := range x.Len() {
			x.SetFloat(i, float64(i%7)-3)
		}
		in := map[string]ndarray.Value{"x": x}
		got, err := few.RunValues(t.Context(), in)
		require.NoError(t, err)
		want, err := none.RunValues(t.Context(), in)
		require.NoError(t, err)
		a, b := got["y"].(*ndarray.Array), want["y"].(*ndarray.Array)
		require.True(t, slices.Equal(b.Shape, a.Shape))
		for i := range b.Len() {
			require.InDelta(t, b.Float(i), a.Float(i), 1e-5, fmt.Sprint(n, " ", i))
		}
	}
	assert.Equal(t, ModelStats{Programs: 2, KeptPrograms: 2, Hits: 17, Misses: 3, Compiles: 3, Evictions: 1}, kept(few))
	assert.Zero(t, none.Stats().KeptPrograms)
}

// TestStatsOfProgramsThatAreGone: the runs of programs that are kept no more stay in the model's total, their sessions do not.
func TestStatsOfProgramsThatAreGone(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[N,4] %a = Exp(%x) %y = Neg(%a) out %y }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	for _, most := range []int{0, 1, 2, defaultPrograms} {
		m := FromModule(&ssa.Module{Graph: g}, WithPrograms(most))
		for n := range 20 {
			in := map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, n+1, 4)}
			_, err := m.RunValues(t.Context(), in)
			require.NoError(t, err)
			if n%3 == 0 {
				_, err := m.Trace(t.Context(), in)
				require.NoError(t, err)
			}
			if n == 7 {
				m.Trim()
				assert.Zero(t, m.Stats().Sessions)
			}
			runtime.GC()
			s := m.Stats()
			assert.EqualValues(t, n+1+n/3+1, s.Runs, "%d programs", most)
			assert.Equal(t, s.IdleSessions, s.Sessions, "%d programs", most)
		}
		m.Trim()
		s := m.Stats()
		assert.Zero(t, s.Sessions)
		assert.Zero(t, s.ArenaBytes)
	}
}

// TestSessionsOfRetiredPrograms: a call that is still in progress on a program that is kept no more leaves no session behind.
func TestSessionsOfRetiredPrograms(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[4] %y = Neg(%x) out %y }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	m := FromModule(&ssa.Module{Graph: g})
	in := map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 4)}
	p, err := m.programFor(t.Context(), in, nil)
	require.NoError(t, err)
	s, err := p.idleSession(t.Context())
	require.NoError(t, err)
	m.Trim()
	assert.Equal(t, 1, m.Stats().Sessions, "in progress")
	p.keepIdle(s)
	assert.Zero(t, m.Stats().Sessions)
	assert.Zero(t, p.Stats().IdleSessions)
	runtime.KeepAlive(s)
}

// kept are the figures of the programs that a model keeps.
func kept(m *Model) ModelStats {
	s := m.Stats()
	return ModelStats{Programs: s.Programs, KeptPrograms: s.KeptPrograms, Hits: s.Hits, Misses: s.Misses, Compiles: s.Compiles, Evictions: s.Evictions}
}

// TestManyWidths: a recognizer of text that sees a new width with every picture holds no more memory after sixty of them than
// after twenty, and compiles no more once the places for programs are taken.
func TestManyWidths(t *testing.T) {
	m, err := Open(shareddata.Path(t, "models", "ppocr_rec", "model.onnx"))
	require.NoError(t, err)
	defer m.Close()
	name := m.Inputs()[0].Name
	run := func(width int) uint64 {
		x := ndarray.Must(ndarray.Float32, 1, 3, 48, width)
		_, err := m.RunValues(t.Context(), map[string]ndarray.Value{name: x})
		require.NoError(t, err)
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	var first, last uint64
	for i := range 60 {
		width := 320 - 4*i // the widest first: later ones fit into what earlier ones took
		if last = run(width); i == 19 {
			first = last
		}
	}
	assert.Less(t, last, first*11/10)
	s := m.Stats()
	assert.EqualValues(t, defaultPrograms+1, s.Compiles)
	assert.Equal(t, defaultPrograms, s.KeptPrograms)
	t.Logf("%d MiB after 20 widths, %d MiB after 60; %d MiB of arenas", first>>20, last>>20, s.ArenaBytes>>20)
}

// TestRowsBeyondTheBudget: a planner that is found beyond the budget has an error in its row, and the next one its own plan.
func TestRowsBeyondTheBudget(t *testing.T) {
	var full *MemoryError
	require.ErrorAs(t, ndarray.Budget(1).Check("the test"), &full) // says how much is in use
	c := newComparison(ndarray.Budget(full.Live+64<<20).In(t.Context()), CompareOptions{Budget: time.Minute}, config{})
	require.NoError(t, c.timed(PlanRow{}, func(ctx context.Context, _ *PlanRow) error {
		held := make([]byte, 128<<20)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		for begin := time.Now(); ctx.Err() == nil && time.Since(begin) < 5*time.Second; {
		}
		runtime.KeepAlive(held)
		return nil
	}))
	require.NoError(t, c.timed(PlanRow{}, func(context.Context, *PlanRow) error { return nil }))
	require.ErrorAs(t, c.rows[0].Err, &full)
	require.NoError(t, c.rows[1].Err)
}

// TestOwnPayloadsLook: copying what the copy of a graph shares looks at the context, within its values and its nodes.
func TestOwnPayloadsLook(t *testing.T) {
	g := ssa.NewGraph("g")
	x := g.AddParam("x", ssa.TensorOf(ndarray.Float32, ssa.D(2)))
	for range 2 * lookEvery {
		x = g.NewNode("Neg", []*ssa.Value{x}, 1).Out[0]
	}
	ctx := &looktest.Context{Context: t.Context(), Left: 1 << 30}
	require.NoError(t, ownPayloads(ctx, g))
	assert.GreaterOrEqual(t, 1<<30-ctx.Left, 2*lookEvery+2)
	require.Equal(t, context.Canceled, ownPayloads(&looktest.Context{Left: 2}, g))
}
