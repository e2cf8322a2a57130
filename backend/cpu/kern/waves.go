package kern

// ParallelWaves is Parallel for tasks that write over memory which later tasks no
// longer read, once tasks 0 … i/2 are done with it:
//
//	0 │ 1 │ 2 3 │ 4 5 6 7 │ …       one wave after the other
//
// Work that turns long runs into runs at most half as long, at the same address,
// is of that kind.
func ParallelWaves(n, threads int, t Task) {
	if threads <= 1 || n <= 2 {
		for i := range n {
			t.Run(i, 0)
		}
		return
	}
	w := waves.get()
	defer func() {
		w.t = nil
		waves.put(w)
	}()
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

var waves freeList[wave]

// Run does task first+i.
func (w *wave) Run(i, worker int) { w.t.Run(w.first+i, worker) }
