package machine

// ParallelWaves is Parallel for tasks whose results overwrite inputs: task i may write
// memory that only tasks 0 … i/2 read. Tasks run in waves, one wave after the other:
//
//	0 │ 1 │ 2 3 │ 4 5 6 7 │ …
//
// A reduction whose result begins where its input does, and is at most half as long, is
// an example.
func ParallelWaves(n, threads int, t Task) {
	if threads <= 1 || n <= 2 {
		for i := range n {
			t.Run(i, 0)
		}
		return
	}
	w := waves.Get()
	defer waves.Release(w)
	w.t = t
	for lo, hi := 0, 1; lo < n; lo, hi = hi, min(2*hi, n) {
		w.first = lo
		Parallel(hi-lo, threads, w)
	}
}

// wave is a run of another task's indices; it is a Task.
type wave struct {
	t     Task
	first int
}

var waves FreeList[wave]

// Run does task first+i.
func (w *wave) Run(i, worker int) { w.t.Run(w.first+i, worker) }
