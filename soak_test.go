package berth_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/testmodels"
)

// world is what goroutines share that use the API in random order: models in files, open and replaced by turns, programs and
// sessions of them, and the results that every run must have.
type world struct {
	files []*worldFile
	runs  atomic.Int64
}

type worldFile struct {
	path  string
	asked []askedFor // several, of different shapes where the model leaves them open

	mu       sync.Mutex
	model    *berth.Model
	programs []*worldProgram
}

// worldProgram is a program, and the question whose shapes it is compiled for; nil for any.
type worldProgram struct {
	p *berth.Program
	s *berth.Session // of many goroutines, which exclude each other
}

// soakModels cover branches, loops, dynamic shapes, convolutions, and shared weights.
var soakModels = []struct {
	name string
	dims []map[string]int64
}{
	{"mlp", []map[string]int64{nil}},
	{"inception", []map[string]int64{nil}},
	{"if-nested", []map[string]int64{nil}},
	{"lstm-loop", []map[string]int64{nil}},
	{"loop-stack", []map[string]int64{nil}},
	{"heads", []map[string]int64{{"N": 1, "S": 2}, {"N": 2, "S": 3}, {"N": 3, "S": 2}, {"N": 1, "S": 7}}},
}

func newWorld(t testing.TB) *world {
	w := &world{}
	dir := t.TempDir()
	for _, m := range soakModels {
		f := &worldFile{path: filepath.Join(dir, m.name+".onnx")}
		mod, err := testmodels.Build(m.name)
		require.NoError(t, err)
		require.NoError(t, berth.FromModule(mod).Save(f.path, berth.SaveOptions{}))
		for i := range 4 {
			in, err := graphgen.Inputs(rand.New(rand.NewPCG(uint64(i), 7)), mod.Graph, maps.Clone(m.dims[i%len(m.dims)]))
			require.NoError(t, err)
			for k, p := range mod.Graph.Params {
				if p.Name == "ids" || p.Name == "mask" {
					in[k] = indices(in[k].(*ndarray.Array), i)
				}
			}
			want, err := ops.Interpret(t.Context(), mod.Graph, in, nil)
			require.NoError(t, err)
			f.asked = append(f.asked, askedFor{in, want})
		}
		f.model, err = berth.Open(f.path)
		require.NoError(t, err)
		w.files = append(w.files, f)
	}
	return w
}

func (w *world) close() {
	for _, f := range w.files {
		f.model.Close()
	}
}

// step does one thing that rng draws, to one of the models.
func (w *world) step(ctx context.Context, rng *rand.Rand) error {
	f := w.files[rng.IntN(len(w.files))]
	f.mu.Lock()
	m, made := f.model, slices.Clone(f.programs)
	f.mu.Unlock()
	q := f.asked[rng.IntN(len(f.asked))]
	if rng.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(2000))*time.Microsecond)
		defer cancel()
	}
	var err error
	switch op := rng.IntN(20); {
	case op == 0:
		err = f.reload()
	case op == 1: // whoever runs gets ErrClosed from now on
		err = m.Close()
	case op == 2:
		m.Trim()
	case op == 3:
		if s := m.Stats(); s.Sessions < 0 || s.ArenaBytes < 0 || s.IdleSessions > s.Sessions && s.Sessions == 0 {
			err = fmt.Errorf("statistics below zero: %+v", s)
		}
	case op == 4:
		err = f.compile(ctx, rng)
	case op == 5:
		var o *berth.Model
		if o, _, err = m.Optimize(ctx); err == nil {
			var out map[string]ndarray.Value
			if out, err = o.RunValues(ctx, byName(m, q.in)); err == nil {
				err = check(m, out, q.want)
			}
			err = errors.Join(err, o.Close())
		}
	case op < 13 || len(made) == 0:
		var out map[string]ndarray.Value
		if out, err = m.RunValues(ctx, byName(m, q.in)); err == nil {
			w.runs.Add(1)
			err = check(m, out, q.want)
		}
	default:
		err = f.runMade(ctx, made[rng.IntN(len(made))], q, rng, w)
	}
	if err == nil || errors.Is(err, berth.ErrClosed) || errors.Is(err, berth.ErrSessionInUse) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", filepath.Base(f.path), err)
}

func (f *worldFile) runMade(ctx context.Context, made *worldProgram, q askedFor, rng *rand.Rand, w *world) error {
	f.mu.Lock()
	m := f.model
	f.mu.Unlock()
	switch rng.IntN(4) {
	case 0:
		made.p.Trim()
		made.p.Stats()
		return nil
	case 1: // the results are the session's: they may change under us as soon as another goroutine runs
		_, err := made.s.RunValues(ctx, byName(m, q.in))
		return err
	}
	out, err := made.p.RunValues(ctx, byName(m, q.in))
	if err != nil {
		return err
	}
	w.runs.Add(1)
	return check(m, out, q.want)
}

// compile makes a program for any shape, with options drawn at random, and keeps it with a session.
func (f *worldFile) compile(ctx context.Context, rng *rand.Rand) error {
	f.mu.Lock()
	m := f.model
	f.mu.Unlock()
	choices := []berth.Option{berth.WithThreads(2), berth.WithoutPasses(), berth.WithoutInPlace(), berth.WithParallelSafe(), berth.WithIdleLimits(berth.IdleLimits{}), nil}
	p, err := m.Compile(ctx, choices[rng.IntN(len(choices))])
	if err != nil {
		return err
	}
	s, err := p.NewSession()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.programs = append(f.programs, &worldProgram{p, s})
	if len(f.programs) > 4 {
		f.programs = f.programs[1:]
	}
	return nil
}

// reload replaces the file by a copy, opens that, and closes the old model while others use it.
func (f *worldFile) reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := os.ReadFile(f.path)
	if err == nil {
		err = os.WriteFile(f.path+".new", data, 0o644)
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		return err
	}
	m, err := berth.Open(f.path)
	if err != nil {
		return err
	}
	old := f.model
	f.model, f.programs = m, nil
	return old.Close()
}

// drawnCalls has three goroutines do to shared models, programs and sessions what a seed draws.
func (w *world) drawnCalls(t *testing.T, seed uint64, steps uint8) {
	for _, file := range w.files {
		require.NoError(t, file.reload())
	}
	together(t, 3, func(g int) error {
		rng := rand.New(rand.NewPCG(seed, uint64(g)))
		for i := range int(steps) {
			if err := w.step(t.Context(), rng); err != nil {
				return fmt.Errorf("seed %d, %d steps: goroutine %d, step %d: %w", seed, steps, g, i, err)
			}
		}
		return nil
	})
}

// FuzzAPI looks for sequences of calls that reach new code; run it with -race.
func FuzzAPI(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, uint8(40))
	}
	w := newWorld(f)
	f.Fuzz(w.drawnCalls)
}

// TestCallsInRandomOrder runs as many sequences of calls as BERTH_FUZZ says, from the seed BERTH_FUZZ_SEED on: a bound of work
// where FuzzAPI has one of time. Run it with -race.
func TestCallsInRandomOrder(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	first, sequences := numberFrom(t, "BERTH_FUZZ_SEED", 1), numberFrom(t, "BERTH_FUZZ", 4)
	for seed := first; seed < first+sequences; seed++ {
		w.drawnCalls(t, seed, uint8(20+seed%60))
	}
	t.Logf("%d sequences, %d runs", sequences, w.runs.Load())
	require.Positive(t, w.runs.Load())
}

// TestSoak has 8 goroutines use 6 models in random order: no result differs, and memory and goroutines stay flat. It lasts
// as long as BERTH_SOAK says, such as 2m or 1h; 3 seconds without.
func TestSoak(t *testing.T) {
	length := lengthFrom(t, "BERTH_SOAK")
	w := newWorld(t)
	defer w.close()
	work := func(d time.Duration, seed uint64) {
		end := time.Now().Add(d)
		together(t, 8, func(g int) error {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for time.Now().Before(end) {
				if err := w.step(t.Context(), rng); err != nil {
					return fmt.Errorf("goroutine %d after %d runs: %w", g, w.runs.Load(), err)
				}
			}
			return nil
		})
		for _, f := range w.files {
			require.NoError(t, f.reload())
		}
	}
	work(length/3, 1)
	goroutines, memory := resources()
	work(length*2/3, 2)
	goroutinesAfter, memoryAfter := resources()
	t.Logf("%d runs; goroutines %d, then %d; heap %d KiB, then %d KiB", w.runs.Load(), goroutines, goroutinesAfter, memory>>10, memoryAfter>>10)
	require.Positive(t, w.runs.Load())
	require.LessOrEqual(t, goroutinesAfter, goroutines+8)
	require.LessOrEqual(t, memoryAfter, memory+memory/4+(8<<20))
}

// resources counts goroutines and bytes in use once nothing is in progress.
func resources() (goroutines int, heap uint64) {
	for range 3 {
		runtime.GC() // cleanups let go of more
		time.Sleep(20 * time.Millisecond)
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return runtime.NumGoroutine(), s.HeapAlloc
}

// countdown is a context that is cancelled at the n-th time that somebody looks at it.
type countdown struct {
	context.Context
	cancel context.CancelFunc
	left   atomic.Int64
}

func (c *countdown) look() {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
}

func (c *countdown) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *countdown) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// TestCompileCancelledAnywhere cancels compiling at every point where it looks at its context: what the model keeps for
// later programs, packed weights above all, must not be left half made.
func TestCompileCancelledAnywhere(t *testing.T) {
	for _, name := range []string{"mlp", "inception"} {
		m, asked := questions(t, name, nil, 1)
		cancelled := 0
		for n := int64(1); ; n += 1 + n/8 {
			ctx := &countdown{}
			ctx.Context, ctx.cancel = context.WithCancel(t.Context())
			ctx.left.Store(n)
			_, err := m.Compile(ctx)
			p, err2 := m.Compile(t.Context())
			require.NoError(t, err2)
			out, err2 := p.RunValues(t.Context(), byName(m, asked[0].in))
			require.NoError(t, err2)
			require.NoError(t, check(m, out, asked[0].want), "%s, cancelled at the look %d: %v", name, n, err)
			ctx.cancel()
			if err == nil {
				break
			}
			cancelled++
		}
		require.Greater(t, cancelled, 3)
	}
}

// TestCompileEndsAnywhere ends compiling at the points where it looks at its context, under the options that FuzzAPI draws: what
// was cut short must not be read as if it were complete.
func TestCompileEndsAnywhere(t *testing.T) {
	m, _ := questions(t, "inception", nil, 1)
	for name, option := range map[string]berth.Option{
		"plain": nil, "no passes": berth.WithoutPasses(), "not in place": berth.WithoutInPlace(), "any order": berth.WithParallelSafe(), "no views": berth.WithoutViews(),
	} {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); ; n++ {
				ctx := &countdown{}
				ctx.Context, ctx.cancel = context.WithCancel(t.Context())
				ctx.left.Store(n)
				_, err := m.Compile(ctx, option)
				ctx.cancel()
				if err == nil {
					require.Greater(t, n, int64(100))
					return
				}
				if p := (*ops.PanicError)(nil); errors.As(err, &p) {
					t.Fatalf("at the look %d: %s", n, p.Stack)
				}
				require.ErrorIs(t, err, context.Canceled, "at the look %d", n)
			}
		})
	}
}

// TestSaveCancelledAnywhere cancels saving at every point where it looks at its context: the old files stay as they were, and
// nothing is left beside them.
func TestSaveCancelledAnywhere(t *testing.T) {
	m, _ := questions(t, "mlp", nil, 1)
	for _, external := range []int64{0, 1} {
		dir := t.TempDir()
		path := filepath.Join(dir, "model.onnx")
		require.NoError(t, m.Save(path, berth.SaveOptions{External: external}))
		old := contentsOf(t, dir)
		cancelled := 0
		for n := int64(1); ; n += 1 + n/4 {
			ctx := &countdown{}
			ctx.Context, ctx.cancel = context.WithCancel(t.Context())
			ctx.left.Store(n)
			err := m.Save(path, berth.SaveOptions{External: external, Context: ctx, Metadata: map[string]string{"saved": "again"}})
			ctx.cancel()
			if err == nil {
				require.NotEqual(t, old, contentsOf(t, dir))
				break
			}
			require.ErrorIs(t, err, context.Canceled, "cancelled at the look %d", n)
			require.Equal(t, old, contentsOf(t, dir), "cancelled at the look %d", n)
			cancelled++
		}
		require.Greater(t, cancelled, 3)
	}
}

// contentsOf reads all files of a folder.
func contentsOf(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(b)
	}
	return out
}
