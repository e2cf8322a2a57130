package machine

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// countTask counts how often each index ran and checks that no worker number
// is used twice at a time.
type countTask struct {
	hits  []atomic.Int32
	busy  []atomic.Int32
	clash atomic.Bool
}

func newCountTask(n, threads int) *countTask {
	return &countTask{hits: make([]atomic.Int32, n), busy: make([]atomic.Int32, threads)}
}

func (c *countTask) Run(i, worker int) {
	if c.busy[worker].Add(1) != 1 {
		c.clash.Store(true)
	}
	c.hits[i].Add(1)
	for range 50 {
		pause()
	}
	c.busy[worker].Add(-1)
}

func (c *countTask) check(t *testing.T) {
	t.Helper()
	require.False(t, c.clash.Load(), "a worker number was used twice at the same time")
	for i := range c.hits {
		require.EqualValues(t, 1, c.hits[i].Load(), "task %d", i)
	}
}

func TestParallelRunsEveryTaskOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 17, 1000} {
		for _, threads := range []int{1, 2, 3, 64} {
			c := newCountTask(n, threads)
			Parallel(n, threads, c)
			c.check(t)
		}
	}
}

func TestParallelFromManyGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 50 {
				c := newCountTask(20, 4)
				Parallel(20, 4, c)
				c.check(t)
			}
		}()
	}
	wg.Wait()
}

// nestTask calls Parallel from inside a task.
type nestTask struct{ inner *countTask }

func (n nestTask) Run(i, _ int) {
	if i == 0 {
		Parallel(len(n.inner.hits), len(n.inner.busy), n.inner)
	}
}

func TestParallelNested(t *testing.T) {
	c := newCountTask(100, 3)
	Parallel(4, 2, nestTask{c})
	c.check(t)
}

type panicTask struct{ at int }

func (p panicTask) Run(i, _ int) {
	if i == p.at {
		panic("task failed")
	}
	pause()
}

func TestParallelPassesPanicToCaller(t *testing.T) {
	for range 100 {
		require.PanicsWithValue(t, "task failed", func() { Parallel(64, 4, panicTask{40}) })
	}
	c := newCountTask(100, 4) // the pool still works
	Parallel(100, 4, c)
	c.check(t)
}

// orderTask keeps the indices in the order in which they ran.
type orderTask struct{ ran []int }

func (o *orderTask) Run(i, _ int) { o.ran = append(o.ran, i) }

// TestParts: a thread begins with the indices of its number and helps with all others.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		first, n, parts, own int
		want                 []int
	}{
		{0, 4, 2, 0, []int{0, 1, 2, 3}},
		{0, 4, 2, 1, []int{2, 3, 0, 1}},
		{0, 5, 2, 1, []int{3, 4, 0, 1, 2}},
		{3, 10, 3, 1, []int{6, 7, 8, 9, 3, 4, 5}},
		{3, 10, 3, 2, []int{8, 9, 3, 4, 5, 6, 7}},
		{3, 10, 3, 5, []int{6, 7, 8, 9, 3, 4, 5}}, // more workers than parts: none begins with the caller's
		{0, 4, 2, 2, []int{2, 3, 0, 1}},
		{6, 8, 2, 1, []int{7, 6}},
	} {
		o := orderTask{}
		j := job{task: &o, parts: make([]part, 0, c.parts)}
		j.divide(c.first, c.n, c.parts)
		j.work(0, c.own)
		require.Equal(t, c.want, o.ran, "%+v", c)
	}
}

// TestLateness follows how many calls begin alone after calls that ended late or in time.
func TestLateness(t *testing.T) {
	for _, c := range []struct {
		name        string
		late        []bool
		alone, next int32
	}{
		{"in time", []bool{false, false}, 0, 0},
		{"once", []bool{true}, 8, 16},
		{"again", []bool{true, true, true}, 32, 64},
		{"always", []bool{true, true, true, true, true, true, true, true, true, true}, 1024, 1024},
		{"then in time", []bool{true, true, false}, 16, 16},
		{"long in time", []bool{true, true, false, false, false, false}, 16, 0},
	} {
		var l lateness
		for _, late := range c.late {
			l.note(late)
		}
		require.Equal(t, c.alone, l.alone.Load(), c.name)
		require.Equal(t, c.next, l.next.Load(), c.name)
	}
}

// slowTask takes longer for each task than calls run alone.
type slowTask struct{ *countTask }

func (s slowTask) Run(i, worker int) {
	for start := time.Now(); time.Since(start) <= aloneTime; {
		pause()
	}
	s.countTask.Run(i, worker)
}

// TestParallelAfterLateCalls: calls that begin alone run every task once, whether they end
// alone or share what is left.
func TestParallelAfterLateCalls(t *testing.T) {
	l := &thePool.late
	defer l.alone.Store(0)
	l.alone.Store(2)
	short := newCountTask(50, 3)
	Parallel(50, 3, short)
	short.check(t)
	require.EqualValues(t, 1, l.alone.Load())
	long := slowTask{newCountTask(5, 3)}
	Parallel(5, 3, long)
	long.check(t)
}

// TestRuns: workers run tasks within runs and after them.
func TestRuns(t *testing.T) {
	for range 20 {
		Begin()
		for range 5 {
			c := newCountTask(20, 2)
			Parallel(20, 2, c)
			c.check(t)
		}
		End()
	}
	require.Zero(t, thePool.runs.Load())
}

type noTask struct{}

func (noTask) Run(int, int) {}

func TestParallelDoesNotAllocate(t *testing.T) {
	var task Task = noTask{}
	Parallel(8, 2, task)
	require.Zero(t, testing.AllocsPerRun(200, func() { Parallel(8, 2, task) }))
}

func BenchmarkParallel(b *testing.B) {
	var task Task = noTask{}
	for b.Loop() {
		Parallel(8, 2, task)
	}
}
