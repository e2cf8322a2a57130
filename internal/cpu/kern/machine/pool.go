package machine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
)

// The worker pool: fork-join parallelism on long-lived worker goroutines.
//
// A call of Parallel (the caller) publishes a job that admits a number of
// workers. Idle workers join it, claim task indices until none is left, and leave
// it. The caller runs tasks of its own job too: a call makes progress even if
// every worker is busy, and a nested call from inside a task cannot deadlock.
//
//	caller:  publish ── run tasks ── withdraw (admits no more) ── wait for joined workers
//	worker:  spin ── join ── run tasks ── leave ── spin … park
//
// The indices are divided into as many parts of equal size as threads are admitted, each with a counter.
// A thread begins with the part of its number, the same in every call, and then helps with the others. Tasks
// of consecutive indices mostly read and write consecutive memory, so what a thread reads it has often
// written in the call before, and it lies in the caches of its own core: with one counter for all
// indices, half of it lay in those of another, and convolution nets and transformers took up to 1.2 times as
// long at two threads. (Affinity scheduling: Markatos and LeBlanc, "Using Processor Affinity in Loop
// Scheduling on Shared-Memory Multiprocessors", IEEE TPDS 5(4), 1994.)
//
// Waking a parked worker takes some tens of microseconds, more than many a node of a model.
// So workers stay awake between the calls of a run, which says when it begins and ends
// (Begin, End): there they spin up to ten times as long as elsewhere.
//
// A worker may lose its processor to another process in the middle of a task, and the caller
// waits for it longer than it would have taken alone. late.go withholds work then.
//
// A call allocates nothing: jobs come from a free list, and a Task is a
// pointer to state that its owner keeps. Jobs and their counts are guarded by
// one mutex; only the claiming of task indices is lock-free.

// Task is a piece of parallel work. Run is called once for every index
// 0 ≤ i < n; worker, 0 ≤ worker < threads, is never used by two calls at the
// same time and selects a slice of the workspace.
type Task interface{ Run(i, worker int) }

type job struct {
	parts  []part // of the indices, one a thread
	task   Task
	joined atomic.Int32 // workers in the job, changed under pool.mu
	start  time.Time    // when the caller published it
	admits int          // how many more workers may join
	nextID int          // number of the next worker to join
	wait   bool         // the caller is parked on done
	done   chan struct{}
	panics any // first panic of a worker
}

// part is a run of indices that one thread begins with.
type part struct {
	next atomic.Int64 // next unclaimed index
	end  int
	_    [48]byte // a contended counter has a cache line of its own
}

type pool struct {
	mu      sync.Mutex
	admits  atomic.Int32 // sum of admits over the published jobs
	jobs    []*job       // published
	free    []*job
	parked  int // workers waiting on wake
	workers int
	wake    chan struct{}
	runs    atomic.Int32 // in progress, with calls still to come
	late    lateness
}

var (
	thePool  pool
	poolOnce sync.Once
)

// spinRounds bounds the busy wait of callers, and of workers outside runs: about 20 µs.
// runRounds bounds that of workers within a run, yieldRounds is how often any of them lets
// other goroutines run.
const (
	spinRounds  = 400
	runRounds   = 10 * spinRounds
	yieldRounds = 512
)

// Begin says that a run with several threads begins: workers that wait for work stay awake a
// while. Every call is followed by one of End.
func Begin() { thePool.runs.Add(1) }

// End says that a run is over.
func End() { thePool.runs.Add(-1) }

// Threads returns the number of threads that Parallel can use: the number of
// processors at the first use of the pool.
func Threads() int {
	poolOnce.Do(thePool.start)
	return thePool.workers + 1
}

func (p *pool) start() {
	p.workers = runtime.GOMAXPROCS(0) - 1
	p.wake = make(chan struct{}, p.workers+1)
	for i := range p.workers {
		rescue.Go(func() { p.loop(i + 1) })
	}
}

// Backwards makes Parallel run the tasks of a call on several threads one by one
// on the caller, in descending order of their indices. Tests set it to find tasks
// that depend on an order which several threads do not keep.
var Backwards atomic.Bool

// Closed reports whether a channel is closed; nil never is. Kernels ask between pieces of work: that is the time, too, to drop pages of
// mapped weights that do not fit into memory.
func Closed(done <-chan struct{}) bool {
	sysmem.LookAtPages()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

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
	first := 0
	if p.late.isLate() {
		if first = p.late.runAlone(n, t); first == n {
			return
		}
	}
	j := p.publish(first, n, min(threads, n-first), t)
	defer p.finish(j)
	j.work(0, 0)
}

// publish makes a job of the tasks of t from first on available to the workers and wakes as many parked ones as it admits.
func (p *pool) publish(first, n, threads int, t Task) *job {
	p.mu.Lock()
	var j *job
	if last := len(p.free) - 1; last >= 0 {
		j, p.free = p.free[last], p.free[:last]
	} else {
		j = &job{done: make(chan struct{}, 1), parts: make([]part, 0, p.workers+1)}
	}
	j.task, j.admits, j.nextID, j.wait, j.panics, j.start = t, threads-1, 1, false, nil, time.Now()
	j.divide(first, n, threads)
	p.jobs = append(p.jobs, j)
	p.admits.Add(int32(j.admits))
	wake := min(j.admits, p.parked)
	p.parked -= wake
	p.mu.Unlock()
	for range wake {
		p.wake <- struct{}{}
	}
	return j
}

// divide makes parts of the indices from first to n, which are not fewer than parts.
func (j *job) divide(first, n, parts int) {
	j.parts = j.parts[:parts]
	size, more := (n-first)/parts, (n-first)%parts
	for i := range j.parts {
		j.parts[i].next.Store(int64(first))
		if first += size; i < more {
			first++
		}
		j.parts[i].end = first
	}
}

// finish withdraws a job, waits for the workers that joined it and recycles it.
// It runs deferred: no worker still runs a task when Parallel panics.
func (p *pool) finish(j *job) {
	j.withdraw() // after a panic
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
	p.admits.Add(-int32(j.admits))
	j.admits = 0
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

// await spins, then parks, until no worker is in j.
func (p *pool) await(j *job) {
	for i := 0; i < spinRounds; i++ {
		if j.joined.Load() == 0 {
			if j.nextID > 1 {
				p.late.note(false)
			}
			return
		}
		relax(i)
	}
	own := time.Since(j.start)
	p.mu.Lock()
	if j.joined.Load() == 0 {
		p.mu.Unlock()
		return
	}
	j.wait = true
	p.mu.Unlock()
	<-j.done
	p.late.note(time.Since(j.start)-own > max(own, minLate))
}

// work claims and runs tasks until none is left: those of part own first. Where there are more workers than parts, several begin with
// the same one, and none with the caller's, which is part 0.
func (j *job) work(id, own int) {
	first := 0
	if workers := len(j.parts) - 1; own > 0 && workers > 0 { // the first part is the caller's
		first = 1 + (own-1)%workers
	}
	for k := range j.parts {
		p := &j.parts[(first+k)%len(j.parts)]
		for i := int(p.next.Add(1)) - 1; i < p.end; i = int(p.next.Add(1)) - 1 {
			j.task.Run(i, id)
		}
	}
}

// withdraw leaves no index to claim.
func (j *job) withdraw() {
	for i := range j.parts {
		j.parts[i].next.Store(int64(j.parts[i].end))
	}
}

// workGuarded is work on a pool goroutine: a panic is returned, for the caller of Parallel to raise.
func (j *job) workGuarded(id, own int) (panicked any) {
	defer func() {
		if panicked = recover(); panicked != nil {
			j.withdraw()
		}
	}()
	j.work(id, own)
	return nil
}

// loop is the body of worker goroutine number own, from 1 on, which never ends.
func (p *pool) loop(own int) {
	for {
		j, id := p.join()
		if j == nil {
			p.idle()
			continue
		}
		panicked := j.workGuarded(id, own)
		p.mu.Lock()
		if panicked != nil && j.panics == nil {
			j.panics = panicked
		}
		if j.joined.Add(-1) == 0 && j.wait {
			j.wait = false
			j.done <- struct{}{}
		}
		p.mu.Unlock()
	}
}

// join enters a published job that admits another worker; nil where there is none.
func (p *pool) join() (*job, int) {
	if p.admits.Load() <= 0 {
		return nil, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.jobs {
		if j.admits > 0 {
			j.admits--
			p.admits.Add(-1)
			j.joined.Add(1)
			id := j.nextID
			j.nextID++
			return j, id
		}
	}
	return nil, 0
}

// idle waits until a job admits workers: it spins first, then parks.
func (p *pool) idle() {
	for i := 0; i < spinRounds || i < runRounds && p.runs.Load() > 0 && !p.late.isLate(); i++ {
		if p.admits.Load() > 0 {
			return
		}
		relax(i)
	}
	p.mu.Lock()
	if p.admits.Load() > 0 {
		p.mu.Unlock()
		return
	}
	p.parked++
	p.mu.Unlock()
	<-p.wake
}

// relax delays round i of a busy wait; some rounds let other goroutines run.
func relax(i int) {
	if i%yieldRounds == yieldRounds-1 {
		runtime.Gosched()
		return
	}
	pause()
}
