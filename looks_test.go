//go:build linux

package berth_test

import (
	"context"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/largegraphs"
	"github.com/berth-onnx/berth/ssa"
)

// Stages look at their context often enough to end soon on large models. A clock on the wall says little
// on a busy machine, and processor time on one whose processors are shared with other machines, so the test counts work: the
// context that a stage gets reads the processor time of the stage's thread each time it is looked at there, and keeps the longest
// time between two looks. It must be below what the thread takes, right before and after the stage, for work of a known size.
// No stage derives another context from the one it is given.

const (
	mostBetween = 250_000         // between two looks, keys written to a map that grows: about 13 ms on an idle machine
	mostInStage = 4 * time.Second // processor time after which the context ends
	manyNodes   = 5_000
)

// work takes the thread's time for half of mostBetween.
func work() time.Duration {
	start, filled := threadTime(), map[uint64]uint64{}
	for i := range uint64(mostBetween / 2) {
		filled[i*0x9e3779b97f4a7c15] = i
	}
	runtime.KeepAlive(filled)
	return threadTime() - start
}

// lookedAt is a context that remembers the most work between two looks at it, and where the second one was.
type lookedAt struct {
	context.Context
	cancel func()
	thread int
	start  time.Duration // the processor time at first
	read   time.Time     // when the processor time was read
	last   time.Duration // what it was
	most   time.Duration
	before []uintptr // who looked before the longest time
	after  []uintptr // who looked after it
	now    []uintptr
}

func newLookedAt(ctx context.Context) *lookedAt {
	ctx, cancel := context.WithCancel(ctx)
	now := threadTime()
	return &lookedAt{Context: ctx, cancel: cancel, thread: unix.Gettid(), start: now, read: time.Now(), last: now}
}

// look reads the clock, unless it did within the last millisecond, by which the time until the next look then seems longer.
func (l *lookedAt) look() {
	if unix.Gettid() != l.thread {
		return
	}
	now := time.Now()
	if now.Sub(l.read) < time.Millisecond {
		return
	}
	was := l.now
	l.now = make([]uintptr, 24)
	l.now = l.now[:runtime.Callers(3, l.now)]
	used := threadTime()
	if d := used - l.last; d > l.most {
		l.most, l.before, l.after = d, was, l.now
	}
	if used-l.start > mostInStage {
		l.cancel()
	}
	l.read, l.last = now, threadTime()
}

func (l *lookedAt) Err() error {
	l.look()
	return l.Context.Err()
}

func (l *lookedAt) Done() <-chan struct{} {
	l.look()
	return l.Context.Done()
}

// threadTime is the processor time of the thread.
func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// callers prints a stack, from the innermost function on.
func callers(stack []uintptr) string {
	if len(stack) == 0 {
		return "the beginning"
	}
	var b strings.Builder
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		if name, ours := strings.CutPrefix(f.Function, "github.com/berth-onnx/berth"); ours {
			b.WriteString(" " + strings.TrimLeft(name, "/."))
		}
		if !more {
			return b.String()
		}
	}
}

// holdsLooks runs a stage of a model and fails where it does not look at its context for too long. Other work on the machine
// makes a thread slower, so that one of several runs is enough.
func holdsLooks(t *testing.T, stage func(context.Context) error) {
	t.Helper()
	for range 4 {
		if ctx, limit := looks(t, stage); ctx.most <= limit {
			return
		}
	}
	t.Error("too long without a look at the context in each run")
}

// looks runs a stage, to its end or for some time: planners take the square of the number of values that are all alive at once.
// It returns what its context saw and how long it may have taken between two looks.
func looks(t *testing.T, stage func(context.Context) error) (*lookedAt, time.Duration) {
	runtime.LockOSThread() // so that the thread's time is that of the stage
	defer runtime.UnlockOSThread()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collections are no work of the stage
	limit := work()
	ctx := newLookedAt(t.Context())
	defer ctx.cancel()
	err := stage(ctx)
	ctx.look()
	whole := threadTime() - ctx.start
	limit += work()
	require.ErrorIs(t, err, ctx.Context.Err())
	t.Logf("at most %v of %v, %v allowed, between\n%s\nand\n%s", ctx.most.Round(time.Millisecond), whole.Round(time.Millisecond),
		limit.Round(time.Millisecond), callers(ctx.before), callers(ctx.after))
	return ctx, limit
}

// stages are what takes a context.
var stages = []struct {
	name string
	run  func(ctx context.Context, m *berth.Model, dir string) error
}{
	{"compile", func(ctx context.Context, m *berth.Model, _ string) error { _, err := m.Compile(ctx); return err }},
	{"compare", func(ctx context.Context, m *berth.Model, _ string) error {
		_, err := m.Compare(ctx, berth.CompareOptions{Planners: []string{berth.DefaultPlanner()}})
		return err
	}},
	{"optimize", func(ctx context.Context, m *berth.Model, _ string) error { _, _, err := m.Optimize(ctx); return err }},
	{"save", func(ctx context.Context, m *berth.Model, dir string) error {
		return m.Save(filepath.Join(dir, "model.onnx"), berth.SaveOptions{Context: ctx})
	}},
	{"violations", func(ctx context.Context, m *berth.Model, _ string) error { _, err := m.TypeViolations(ctx); return err }},
	{"portable", func(ctx context.Context, m *berth.Model, _ string) error { return m.CheckPortable(ctx) }},
	{"open", func(ctx context.Context, _ *berth.Model, dir string) error {
		m, err := berth.Open(filepath.Join(dir, "model.onnx"), berth.WithContext(ctx)) // what was saved
		if err == nil {
			err = m.Close()
		}
		return err
	}},
}

// TestEveryStageLooks runs every stage on large graphs of every family.
func TestEveryStageLooks(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles large graphs")
	}
	for _, f := range largegraphs.Families {
		t.Run(f.Name, func(t *testing.T) {
			g, err := f.Of(manyNodes)
			require.NoError(t, err)
			m, dir := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 21}}}), t.TempDir()
			for _, s := range stages {
				t.Run(s.name, func(t *testing.T) {
					holdsLooks(t, func(ctx context.Context) error { return s.run(ctx, m, dir) })
				})
			}
		})
	}
}
