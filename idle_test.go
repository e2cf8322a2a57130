package berth_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

const slow = `graph "g" { in %x: float32[64,64] %a = MatMul(%x, %x) %b = Tanh(%a) %c = MatMul(%b, %x) %y = Sin(%c) out %y }`

// meet has n calls of f begin, all while the others run.
func meet(t *testing.T, p *berth.Program, n int) {
	in := map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 64, 64)}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, err := p.RunValues(t.Context(), in)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
}

// TestIdleSessions: what waits for a run is bounded in number and bytes, and goes with time
// or by Trim.
func TestIdleSessions(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits berth.IdleLimits
		most   int
	}{
		{"none", berth.IdleLimits{}, 0},
		{"one", berth.IdleLimits{Sessions: 1, Bytes: 1 << 30}, 1},
		{"bytes", berth.IdleLimits{Sessions: 9, Bytes: 1}, 1},
		{"three", berth.IdleLimits{Sessions: 3, Bytes: 1 << 30}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parsed(t, slow)
			p, err := m.Compile(t.Context(), berth.WithIdleLimits(c.limits))
			require.NoError(t, err)
			for range 4 {
				meet(t, p, 8)
				assert.LessOrEqual(t, p.Stats().IdleSessions, c.most)
				assert.Equal(t, p.Stats().IdleSessions, p.Stats().Sessions, "those that are not kept are gone")
			}
			assert.EqualValues(t, 32, p.Stats().Runs)
			p.Trim()
			assert.Equal(t, berth.ProgramStats{Runs: 32}, p.Stats(), "at once")
			_, err = p.NewSession()
			require.NoError(t, err)
			assert.Eventually(t, func() bool {
				runtime.GC()
				return p.Stats() == berth.ProgramStats{Runs: 32}
			}, 10*time.Second, 10*time.Millisecond, "the collector takes what callers forget: %+v", p.Stats())
		})
	}
	p, err := parsed(t, slow).Compile(t.Context(), berth.WithIdleLimits(berth.IdleLimits{Sessions: 4, Bytes: 1 << 30, After: 20 * time.Millisecond}))
	require.NoError(t, err)
	meet(t, p, 4)
	assert.Eventually(t, func() bool { return p.Stats().IdleSessions == 0 }, 10*time.Second, 5*time.Millisecond)
	meet(t, p, 1)
	assert.Eventually(t, func() bool { return p.Stats().IdleSessions == 0 }, 10*time.Second, 5*time.Millisecond, "a second time")
	assert.Equal(t, berth.ProgramStats{Runs: 5}, p.Stats())
}

// TestNothingIsLeftOfClosedModels: models that are opened, compiled, run and closed in turn leave no object behind, whatever
// the time for which their sessions would have been kept.
func TestNothingIsLeftOfClosedModels(t *testing.T) {
	in := map[string]ndarray.Value{"x": ndarray.Must(ndarray.Float32, 64, 64)}
	objects := func(models int) uint64 {
		for range models {
			m := parsed(t, slow)
			for _, limits := range []berth.IdleLimits{{Sessions: 2, Bytes: 1 << 30, After: time.Hour}, {Sessions: 2, Bytes: 1 << 30}, {}} {
				p, err := m.Compile(t.Context(), berth.WithIdleLimits(limits))
				require.NoError(t, err)
				for range 2 {
					_, err = p.RunValues(t.Context(), in)
					require.NoError(t, err)
				}
			}
			_, err := m.RunValues(t.Context(), in)
			require.NoError(t, err)
			require.NoError(t, m.Close())
		}
		least := ^uint64(0)
		for range 5 { // cleanups let go of more
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			least = min(least, s.HeapObjects)
		}
		return least
	}
	const models = 100
	objects(10) // what the process keeps once
	before := objects(10)
	after := objects(models)
	assert.Less(t, after, before+models, "not an object for each model")
}

// TestIdleSessionsHoldNoResults: results belong to the caller, and so does their end, also while the session of the run waits for another.
func TestIdleSessionsHoldNoResults(t *testing.T) {
	for _, shape := range []string{"1024", "N"} {
		p, err := fromText(t, fmt.Sprintf(`graph "g" { in %%x: float32[%s] %%y = Neg(%%x) %%z = Abs(%%y) out %%y, %%z }`, shape)).Compile(t.Context())
		require.NoError(t, err)
		var held []weak.Pointer[byte]
		out, err := p.RunValues(t.Context(), map[string]ndarray.Value{"x": floats(0, 1024)})
		require.NoError(t, err)
		for _, v := range out {
			held = append(held, weak.Make(&v.(*ndarray.Array).Data[0]))
		}
		require.Eventually(t, func() bool {
			runtime.GC()
			return !slices.ContainsFunc(held, func(w weak.Pointer[byte]) bool { return w.Value() != nil })
		}, 10*time.Second, time.Millisecond, shape)
		assert.Equal(t, 1, p.Stats().IdleSessions)
	}
}

// TestStats: a model counts what it and its programs hold.
func TestStats(t *testing.T) {
	path, _ := weightyFile(t, 1, true)
	m, p, s, err := opened(path)
	require.NoError(t, err)
	for range 3 {
		_, err = m.RunValues(t.Context(), weightyInputs())
		require.NoError(t, err)
	}
	_, err = m.RunValues(t.Context(), map[string]ndarray.Value{"n": weightyInputs()["n"]})
	require.ErrorIs(t, err, berth.ErrInput, "nothing is compiled for inputs that are incomplete")
	_, err = s.RunValues(t.Context(), weightyInputs())
	require.NoError(t, err)
	got := m.Stats()
	assert.Greater(t, got.MappedBytes, int64(1<<20))
	assert.Equal(t, sumOf(m.PackedBytes()), got.PackedBytes)
	assert.GreaterOrEqual(t, got.ArenaBytes, 2*p.Plan().ArenaBytes)
	got.MappedBytes, got.PackedBytes, got.ArenaBytes = 0, 0, 0
	assert.Equal(t, berth.ModelStats{Programs: 2, KeptPrograms: 1, Hits: 2, Misses: 1, Compiles: 1, Sessions: 2, IdleSessions: 1, Runs: 4}, got)
	assert.Equal(t, 1, p.Stats().Sessions)
	m.Trim()
	assert.Zero(t, m.Stats().KeptPrograms)
	assert.Zero(t, m.Stats().IdleSessions)
	assert.Equal(t, 1, m.Stats().Sessions)
	runtime.KeepAlive(s)
}

// TestStatsOfOpenPrograms: what runs pack for nodes of open dimensions is counted, once for all shapes and whatever is shared.
func TestStatsOfOpenPrograms(t *testing.T) {
	m := openReader(t)
	p, err := m.Compile(t.Context())
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	before := p.Stats().WeightBytes
	assert.Equal(t, before, p.Plan().PackedBytes)
	for width := range 2 {
		_, err = s.Run(t.Context(), line(width))
		require.NoError(t, err)
		assert.Greater(t, p.Stats().WeightBytes, before+1<<20)
		assert.Equal(t, m.Stats().PackedBytes, p.Stats().WeightBytes)
	}
	assert.Equal(t, before, p.Plan().PackedBytes, "what compiling packed")
}

// TestSessionInUse: of two calls at once one is refused, in whatever combination, and the
// other is right.
func TestSessionInUse(t *testing.T) {
	m := parsed(t, `graph "g" { in %x: float32[64,64] in %h: float32[64,64] %a = MatMul(%x, %x) %b = Tanh(%a) %y = Add(%b, %h) out %y, %b }`)
	p, err := m.Compile(t.Context(), berth.WithState("h", "b"))
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	x := drawn(m.Inputs()[0].Type, 1)
	in := []ndarray.Value{x, nil}
	calls := map[string]func() error{
		"Run":       func() error { _, err := s.Run(t.Context(), in); return err },
		"RunValues": func() error { _, err := s.RunValues(t.Context(), map[string]ndarray.Value{"x": x}); return err },
		"Reset":     func() error { return s.Reset() },
		"Cache":     func() error { _, err := s.Cache("h"); return err },
		"SetCache":  func() error { return s.SetCache("h", x.(*ndarray.Array)) },
	}
	for name, call := range calls {
		s.Observe(func(berth.Step, []ndarray.Value) { assert.ErrorIs(t, call(), berth.ErrSessionInUse, name) })
		_, err := s.Run(t.Context(), in)
		require.NoError(t, err)
	}
	s.Observe(nil)
	var refused, ran atomic.Int64
	together(t, 8, func(g int) error {
		for i := range 300 {
			for _, call := range calls {
				switch err := call(); {
				case errors.Is(err, berth.ErrSessionInUse):
					refused.Add(1)
				case err != nil:
					return err
				default:
					ran.Add(1)
				}
				s.Poison(i%2 == 0)
			}
		}
		return nil
	})
	t.Logf("%d calls, %d refused", ran.Load(), refused.Load())
	assert.Positive(t, ran.Load())
	_, err = s.Run(t.Context(), in)
	require.NoError(t, err, "nobody uses it any more")
}

// TestSessionAllocates: a run of known sizes takes no memory, also of a model that is mapped,
// whose results are constants, fed back or kept.
func TestSessionAllocates(t *testing.T) {
	ctx := context.Background()
	runs := func(name string, s *berth.Session, in func() []ndarray.Value) {
		s.Poison(false)
		n := testing.AllocsPerRun(50, func() {
			if _, err := s.Run(ctx, in()); err != nil {
				t.Error(err)
			}
		})
		assert.Zero(t, n, name)
	}
	m := parsed(t, recurrent[1].text)
	x := drawn(m.Inputs()[0].Type, 1)
	fed := []ndarray.Value{x, x}
	s := session(t, m)
	runs("fed back", s, func() []ndarray.Value { return fed })
	out, err := s.Run(ctx, fed)
	require.NoError(t, err)
	fed[1] = out[1]
	runs("fed back", s, func() []ndarray.Value { return fed })
	kept := []ndarray.Value{x, nil}
	runs("kept", session(t, m, berth.WithState("h", "d")), func() []ndarray.Value { return kept })
	constants := parsed(t, `graph "g" { in %x: float32[8] const %c: float32[8] = [1, 2, 3, 4, 5, 6, 7, 8] %d = Identity(%c) %e = Identity(%x) %f = Neg(%x) out %d, %e, %f }`)
	in := []ndarray.Value{drawn(constants.Inputs()[0].Type, 2)}
	runs("constants", session(t, constants), func() []ndarray.Value { return in })
}
