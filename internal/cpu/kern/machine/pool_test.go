package machine

import (
	"sync"
	"sync/atomic"
	"testing"

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
