package kern

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// The worker pool.
//
// A call of Parallel publishes a job with a number of free seats. Idle workers
// take a seat, claim task indices from the job's counter until none is left,
// and stand up again. The caller always works on its own job too, so a call
// makes progress even if every worker is busy elsewhere, and a call from
// inside a task cannot dead-lock.
//
//	caller:  publish ── run tasks ── close (no new seats) ── wait for seated workers
//	worker:  spin ≈20 µs ── take seat ── run tasks ── leave ── spin … park
//
// Nothing is allocated per call: jobs come from a free list, and a Task is a
// pointer to state that its owner keeps. All bookkeeping happens under one
// mutex, held for some ten instructions; only the claiming of task indices is
// lock-free.

// Task is a piece of parallel work. Run is called once for every index
// 0 ≤ i < n; worker, 0 ≤ worker < threads, is never used by two calls at the
// same time and selects a slice of the workspace.
type Task interface{ Run(i, worker int) }

type job struct {
	next   atomic.Int64 // next unclaimed index
	_      [56]byte     // keep the busy counter on a line of its own
	task   Task
	n      int
	active atomic.Int32 // seated workers, changed under pool.mu
	seats  int          // seats still free
	ids    int          // next worker number
	wait   bool         // the caller is parked on done
	done   chan struct{}
	panics any // first panic of a seated worker
}

type pool struct {
	mu      sync.Mutex
	open    atomic.Int32 // free seats over all jobs
	jobs    []*job       // published jobs
	free    []*job
	parked  int
	workers int
	wake    chan struct{}
}

var (
	thePool  pool
	poolOnce sync.Once
)

// spinRounds bounds the busy wait of workers and callers: about 20 µs.
const spinRounds = 400

// Threads returns the number of threads that Parallel can use: the number of
// processors at the first use of the pool.
func Threads() int {
	poolOnce.Do(thePool.start)
	return thePool.workers + 1
}

func (p *pool) start() {
	p.workers = runtime.GOMAXPROCS(0) - 1
	p.wake = make(chan struct{}, p.workers+1)
	for range p.workers {
		go p.loop()
	}
}

// Backwards makes Parallel run the tasks of a call on several threads one by one,
// the last first, all on the caller: tests set it to find work that leans on an
// order that several threads do not keep.
var Backwards atomic.Bool

// Parallel calls t.Run for every index below n on at most threads goroutines,
// one of them the caller, and returns when all calls have returned. If a call
// panics, Parallel panics with the same value in the caller's goroutine.
func Parallel(n, threads int, t Task) {
	threads = min(threads, n)
	if threads > 1 {
		if Backwards.Load() {
			for i := n - 1; i >= 0; i-- {
				t.Run(i, 0)
			}
			return
		}
		threads = min(threads, Threads())
	}
	if threads <= 1 {
		for i := range n {
			t.Run(i, 0)
		}
		return
	}
	p := &thePool
	j := p.publish(n, threads, t)
	defer p.finish(j)
	j.work(0)
}

// publish offers a job to the workers and wakes as many as it has seats.
func (p *pool) publish(n, threads int, t Task) *job {
	p.mu.Lock()
	var j *job
	if last := len(p.free) - 1; last >= 0 {
		j, p.free = p.free[last], p.free[:last]
	} else {
		j = &job{done: make(chan struct{}, 1)}
	}
	j.task, j.n, j.seats, j.ids, j.wait, j.panics = t, n, threads-1, 1, false, nil
	j.next.Store(0)
	p.jobs = append(p.jobs, j)
	p.open.Add(int32(j.seats))
	wake := min(j.seats, p.parked)
	p.parked -= wake
	p.mu.Unlock()
	for range wake {
		p.wake <- struct{}{}
	}
	return j
}

// finish withdraws a job, waits for its seated workers and recycles it. It
// runs deferred, so that workers never outlive a job whose caller panics.
func (p *pool) finish(j *job) {
	j.next.Store(int64(j.n)) // only matters after a panic: claim nothing more
	p.mu.Lock()
	for i, q := range p.jobs {
		if q == j {
			last := len(p.jobs) - 1
			p.jobs[i] = p.jobs[last]
			p.jobs[last] = nil
			p.jobs = p.jobs[:last]
			break
		}
	}
	p.open.Add(-int32(j.seats))
	j.seats = 0
	p.mu.Unlock()
	p.await(j)
	p.mu.Lock()
	panicked := j.panics
	j.task, j.panics = nil, nil
	p.free = append(p.free, j)
	p.mu.Unlock()
	if panicked != nil {
		panic(panicked)
	}
}

// await spins, then parks, until no worker is seated at j.
func (p *pool) await(j *job) {
	for i := 0; i < spinRounds; i++ {
		if j.active.Load() == 0 {
			return
		}
		relax(i)
	}
	p.mu.Lock()
	if j.active.Load() == 0 {
		p.mu.Unlock()
		return
	}
	j.wait = true
	p.mu.Unlock()
	<-j.done
}

// work claims and runs tasks until none is left.
func (j *job) work(id int) {
	for {
		i := int(j.next.Add(1)) - 1
		if i >= j.n {
			return
		}
		j.task.Run(i, id)
	}
}

// workSeated is work for a pool goroutine: a panic is kept for the caller.
func (j *job) workSeated(id int) (panicked any) {
	defer func() {
		if panicked = recover(); panicked != nil {
			j.next.Store(int64(j.n))
		}
	}()
	j.work(id)
	return nil
}

// loop is the life of a worker.
func (p *pool) loop() {
	for {
		j, id := p.take()
		if j == nil {
			p.idle()
			continue
		}
		panicked := j.workSeated(id)
		p.mu.Lock()
		if panicked != nil && j.panics == nil {
			j.panics = panicked
		}
		if j.active.Add(-1) == 0 && j.wait {
			j.wait = false
			j.done <- struct{}{}
		}
		p.mu.Unlock()
	}
}

// take sits down at a published job with a free seat.
func (p *pool) take() (*job, int) {
	if p.open.Load() <= 0 {
		return nil, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.jobs {
		if j.seats > 0 {
			j.seats--
			p.open.Add(-1)
			j.active.Add(1)
			id := j.ids
			j.ids++
			return j, id
		}
	}
	return nil, 0
}

// idle waits for a free seat: spinning first, then parked.
func (p *pool) idle() {
	for i := 0; i < spinRounds; i++ {
		if p.open.Load() > 0 {
			return
		}
		relax(i)
	}
	p.mu.Lock()
	if p.open.Load() > 0 {
		p.mu.Unlock()
		return
	}
	p.parked++
	p.mu.Unlock()
	<-p.wake
}

// relax passes a moment of a busy wait, now and then letting others run.
func relax(i int) {
	if i&63 == 63 {
		runtime.Gosched()
		return
	}
	pause()
}

// freeList keeps the states of running calls, so that a run allocates nothing
// once it has been called as often at the same time before.
type freeList[T any] struct {
	mu   sync.Mutex
	free []*T
}

func (f *freeList[T]) get() *T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := len(f.free) - 1; last >= 0 {
		t := f.free[last]
		f.free = f.free[:last]
		return t
	}
	return new(T)
}

// put returns a state; the caller has cleared its references.
func (f *freeList[T]) put(t *T) {
	f.mu.Lock()
	f.free = append(f.free, t)
	f.mu.Unlock()
}
