package berth_test

import (
	"context"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// recorder is a hook that keeps what it is told, by several goroutines at once.
type recorder struct {
	mu     sync.Mutex
	open   []berth.Event
	events []berth.Event
	bad    []string
}

func (r *recorder) hook() *berth.Hook {
	return &berth.Hook{
		Before: func(_ context.Context, e berth.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.open = append(r.open, e)
		},
		After: func(_ context.Context, e berth.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
			if len(r.open) == 0 {
				r.bad = append(r.bad, "After without Before: "+e.Node)
				return
			}
			b := r.open[len(r.open)-1]
			r.open = r.open[:len(r.open)-1]
			if b.Node != e.Node || b.Op != e.Op || e.Start.Before(b.Start) {
				r.bad = append(r.bad, "After of another node: "+e.Node)
			}
		},
	}
}

// take returns the events so far, and begins anew.
func (r *recorder) take(t *testing.T) []berth.Event {
	t.Helper()
	assert.Empty(t, r.bad)
	assert.Empty(t, r.open, "nodes without an end")
	events := r.events
	r.events = nil
	return events
}

// TestHook runs a model in every way; the hook is told of every node.
func TestHook(t *testing.T) {
	var r recorder
	m := builtin("inception")
	with := berth.WithHook(r.hook())
	p, err := m.Compile(t.Context(), with)
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	x := floats(0, 1, 16, 16, 16)
	in := map[string]ndarray.Value{"x": x}
	buffers := map[string]*ndarray.Array{}
	for kind, run := range map[string]func() error{
		"Model.RunValues":   func() error { _, err := m.RunValues(t.Context(), in, with); return err },
		"Program.RunValues": func() error { _, err := p.RunValues(t.Context(), in); return err },
		"Program.RunInto":   func() error { return p.RunInto(t.Context(), in, buffers) },
		"Session.Run":       func() error { _, err := s.Run(t.Context(), []ndarray.Value{x}); return err },
		"Session.RunValues": func() error { _, err := s.RunValues(t.Context(), in); return err },
		"Session.RunInto":   func() error { return s.RunInto(t.Context(), in, buffers) },
	} {
		t.Run(kind, func(t *testing.T) {
			start := time.Now()
			require.NoError(t, run())
			end := time.Now()
			events := r.take(t)
			require.NotEmpty(t, events)
			convs, bytes := 0, int64(0)
			for _, e := range events {
				assert.NotEmpty(t, e.Op)
				assert.NotEmpty(t, e.Node)
				assert.NoError(t, e.Err)
				assert.False(t, e.Start.Before(start) || e.Start.Add(e.Duration).After(end), e.Node)
				bytes += e.Bytes
				if e.Op == "Conv" {
					convs++
				}
			}
			assert.Positive(t, convs)
			assert.Greater(t, bytes, int64(16*16*16*4))
		})
	}
	_, err = m.RunValues(t.Context(), in)
	require.NoError(t, err)
	assert.Empty(t, r.take(t), "a run without the hook")
	var other recorder
	_, err = m.RunValues(t.Context(), in, berth.WithHook(other.hook()))
	require.NoError(t, err)
	assert.NotEmpty(t, other.take(t))
	assert.Empty(t, r.take(t), "another hook's run")
}

// TestHookBodies nests the nodes of a loop's body in the loop, and tells why a node failed.
func TestHookBodies(t *testing.T) {
	var r recorder
	p, err := builtin("loop-conv").Compile(t.Context(), berth.WithHook(r.hook()))
	require.NoError(t, err)
	in := map[string]ndarray.Value{"n": ndarray.Scalar[int64](3), "x": floats(0, 1, 4, 8, 8)}
	_, err = p.RunValues(t.Context(), in)
	require.NoError(t, err)
	ops := map[string]int{}
	var inner time.Duration
	for _, e := range r.take(t) {
		ops[e.Op]++
		if e.Op == "Loop" {
			assert.GreaterOrEqual(t, e.Duration, inner)
		} else {
			inner += e.Duration
		}
	}
	assert.Equal(t, 1, ops["Loop"])
	assert.Equal(t, 3, ops["Conv"])

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	in["n"] = ndarray.Scalar[int64](math.MaxInt64)
	_, err = p.RunValues(ctx, in)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	events := r.take(t)
	require.ErrorIs(t, events[len(events)-1].Err, context.DeadlineExceeded, "the loop ends last")
}

// TestHookPanic: a node that panics has an end, too.
func TestHookPanic(t *testing.T) {
	var r recorder
	h := r.hook()
	before := h.Before
	h.Before = func(ctx context.Context, e berth.Event) {
		before(ctx, e)
		if e.Op == "Conv" {
			panic("the caller's own")
		}
	}
	p, err := builtin("loop-conv").Compile(t.Context(), berth.WithHook(h))
	require.NoError(t, err)
	_, err = p.RunValues(t.Context(), map[string]ndarray.Value{"n": ndarray.Scalar[int64](3), "x": floats(0, 1, 4, 8, 8)})
	var pe *berth.PanicError
	require.ErrorAs(t, err, &pe)
	assert.ErrorContains(t, err, "the hook panicked: the caller's own")
	events := r.take(t)
	require.Len(t, events, 2)
	assert.Error(t, events[0].Err)
}

// TestHookContext hands the run's context to the hook, and needs no function of it.
func TestHookContext(t *testing.T) {
	type key struct{}
	seen := map[any]int{}
	h := &berth.Hook{After: func(ctx context.Context, _ berth.Event) { seen[ctx.Value(key{})]++ }}
	for _, h := range []*berth.Hook{h, {}, nil} {
		p, err := builtin("mlp").Compile(t.Context(), berth.WithHook(h))
		require.NoError(t, err)
		_, err = p.RunValues(context.WithValue(t.Context(), key{}, "request 7"), map[string]ndarray.Value{"x": floats(0, 4, 64)})
		require.NoError(t, err)
	}
	overwrites, err := fromText(t, `graph "g" { in %x: float32[2] in %w: float32[2] %n = Sub(%w, %x) %y = Exp(%x) %z = Neg(%y) out %z, %n }`).Compile(t.Context(),
		berth.WithHook(h), berth.WithState("w", "n"), berth.WithStatesOverwritten())
	require.NoError(t, err)
	s, err := overwrites.NewSession()
	require.NoError(t, err)
	_, err = s.RunValues(context.WithValue(t.Context(), key{}, "request 7"), map[string]ndarray.Value{"x": floats(0, 2)})
	require.NoError(t, err)
	assert.Len(t, seen, 1, "also behind what overwrites a state")
	assert.Positive(t, seen["request 7"])
}

// TestHookGoexit: a hook that ends its goroutine, as t.FailNow does, ends that run alone. The next one gives results, no session
// is lost, and closing does not wait.
func TestHookGoexit(t *testing.T) {
	x := floats(0, 1, 16, 16, 16)
	in := map[string]ndarray.Value{"x": x}
	exits := true
	hook := berth.WithHook(&berth.Hook{Before: func(context.Context, berth.Event) {
		if exits {
			runtime.Goexit()
		}
	}})
	for _, c := range []struct {
		name     string
		sessions int // the one held, and what runs add
		run      func(m *berth.Model, p *berth.Program, s *berth.Session) error
	}{
		{"Model", 2, func(m *berth.Model, _ *berth.Program, _ *berth.Session) error {
			_, err := m.RunValues(context.Background(), in, hook)
			return err
		}},
		{"Program", 2, func(_ *berth.Model, p *berth.Program, _ *berth.Session) error {
			_, err := p.RunValues(context.Background(), in)
			return err
		}},
		{"Session", 1, func(_ *berth.Model, _ *berth.Program, s *berth.Session) error {
			_, err := s.Run(context.Background(), []ndarray.Value{x})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := builtin("inception")
			p, err := m.Compile(t.Context(), hook)
			require.NoError(t, err)
			s, err := p.NewSession()
			require.NoError(t, err)
			returned := false
			exits = true
			within(t, "the run that ends", func() { err, returned = c.run(m, p, s), true })
			require.False(t, returned, "the goroutine ends")
			exits = false
			within(t, "the next run", func() { err = c.run(m, p, s) })
			require.NoError(t, err)
			require.Equal(t, c.sessions, m.Stats().Sessions)
			within(t, "Close", func() { err = m.Close() })
			require.NoError(t, err)
		})
	}
}

// within runs f on a goroutine of its own, and fails the test if that does not end.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// TestHookNames: events of kernels that compute several nodes, or nodes in another layout, name the model's nodes.
func TestHookNames(t *testing.T) {
	for _, name := range []string{"inception", "encoder", "unet"} {
		m := builtin(name)
		known := map[string]bool{}
		for _, n := range m.Graph().Nodes {
			for _, of := range n.Names() {
				known[of.Name], known[of.Result] = true, true
			}
		}
		inputs, bound := map[string]ndarray.Value{}, map[string]int64{"N": 1, "S": 4}
		for _, in := range m.Inputs() {
			inputs[in.Name] = drawn(in.Type.Bind(bound), 1)
		}
		var r recorder
		_, err := m.RunValues(t.Context(), inputs, berth.WithHook(r.hook()))
		require.NoError(t, err)
		private := 0
		for _, e := range r.take(t) {
			for _, part := range strings.Split(e.Node, ", ") {
				assert.True(t, known[part], "%s: %s.%s %q", name, e.Domain, e.Op, e.Node)
			}
			if e.Domain == ops.Private {
				private++
			}
		}
		assert.Positive(t, private, name)
	}
}
