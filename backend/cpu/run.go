package cpu

import (
	"sync"
	"unsafe"

	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// tiler is a kernel whose work is cut into tiles that do not depend on each other.
type tiler interface {
	// tile does piece i of a call. worker selects a slice of the workspace: no two
	// tiles run with the same worker at the same time.
	tile(c *ops.Call, i, worker int)
}

// job binds a tiler to a call, as a task of the worker pool: per tiles of n a task.
type job struct {
	t      tiler
	c      *ops.Call
	n, per int
}

// Run does task i.
func (j *job) Run(i, worker int) {
	for k := i * j.per; k < min((i+1)*j.per, j.n); k++ {
		j.t.tile(j.c, k, worker)
	}
}

var jobs struct {
	sync.Mutex
	free []*job
}

// runTiles runs tiles 0..n-1 on at most c.Threads threads. If a result begins where
// a larger operand does they run in waves, which keeps the promise of
// [ops.Facts].Smaller as long as later tiles are no longer than earlier ones and
// each writes at most half of what it reads.
func runTiles(c *ops.Call, n int, t tiler) { runTasks(c, n, 1, c.Threads, t) }

// runTilesOn is runTiles for kernels with a workspace for each worker, which was
// reserved for so many threads.
func runTilesOn(c *ops.Call, n, threads int, t tiler) { runTasks(c, n, 1, threads, t) }

// runSmall is runTilesOn for tiles of about so many elements each, which may be
// few: handing over a task costs microseconds, so that many small tiles make one.
func runSmall(c *ops.Call, n, elems, threads int, t tiler) {
	runTasks(c, n, max(1, tileElems/max(1, elems)), threads, t)
}

func runTasks(c *ops.Call, n, per, threads int, t tiler) {
	threads, tasks := min(threads, c.Threads), ceilDiv(n, per)
	if tasks <= 1 || threads <= 1 {
		for i := range n {
			t.tile(c, i, 0)
		}
		return
	}
	j := takeJob()
	j.t, j.c, j.n, j.per = t, c, n, per
	defer j.release()
	if c.OverlaysAny() {
		kern.ParallelWaves(tasks, threads, j)
		return
	}
	kern.Parallel(tasks, threads, j)
}

func takeJob() *job {
	jobs.Lock()
	defer jobs.Unlock()
	if last := len(jobs.free) - 1; last >= 0 {
		j := jobs.free[last]
		jobs.free = jobs.free[:last]
		return j
	}
	return new(job)
}

func (j *job) release() {
	j.t, j.c = nil, nil
	jobs.Lock()
	jobs.free = append(jobs.free, j)
	jobs.Unlock()
}

// cut deals runs × run elements out into tiles of about most elements: several
// runs to a tile, or several tiles to a run.
type cut struct {
	runs, run int
	per       int // runs in a tile
	chunk     int // elements of a run in a tile
	chunks    int // tiles of a run
	tiles     int
}

func newCut(runs, run, most int) cut {
	k := cut{runs: runs, run: run, per: 1, chunk: run, chunks: 1}
	switch {
	case runs == 0 || run == 0:
		return k
	case run > most:
		k.chunks = ceilDiv(run, most)
		k.chunk = roundUp(ceilDiv(run, k.chunks), 16)
		k.chunks = ceilDiv(run, k.chunk)
	default:
		k.per = most / run
	}
	k.tiles = ceilDiv(runs, k.per) * k.chunks
	return k
}

// tile returns runs r0..r1 and, within each of them, elements lo..hi of tile i.
func (k *cut) tile(i int) (r0, r1, lo, hi int) {
	if k.chunks > 1 {
		r := i / k.chunks
		lo = i % k.chunks * k.chunk
		return r, r + 1, lo, min(lo+k.chunk, k.run)
	}
	return i * k.per, min((i+1)*k.per, k.runs), 0, k.run
}

// Sizes of tiles: elements that a kernel computes, bytes that a kernel only moves.
// Handing a tile over takes about a microsecond, so it must not be small. They are
// variables for tests, which make tiles of everything.
var (
	tileElems = 32 << 10
	tileBytes = 128 << 10
)

// arrayOf returns a tensor operand or result.
func arrayOf(v ndarray.Value) *ndarray.Array { return v.(*ndarray.Array) }

// f32 returns the elements of a float32 operand or result.
func f32(v ndarray.Value) []float32 { return ndarray.Slice[float32](v.(*ndarray.Array)) }

// optF32 is f32 for operand i of a call, nil if it is absent.
func optF32(c *ops.Call, i int) []float32 {
	if i >= len(c.In) || c.In[i] == nil {
		return nil
	}
	return f32(c.In[i])
}

// elems returns the elements of an operand or result as T.
func elems[T ndarray.Elem](v ndarray.Value) []T { return ndarray.Slice[T](v.(*ndarray.Array)) }

// scratchOf returns n elements of workspace from a byte offset that was reserved
// with [prep.workspace].
func scratchOf[T ndarray.Elem](c *ops.Call, offset, n int) []T {
	if n == 0 {
		return nil
	}
	var z T
	size := int(unsafe.Sizeof(z))
	b := c.Scratch[offset : offset+n*size]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// sameStart reports that two byte slices begin at one address.
func sameStart(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && &a[0] == &b[0]
}

const lineBytes = 64

// roundUp is the next multiple of to.
func roundUp(n, to int) int { return (n + to - 1) / to * to }

// ceilDiv is ⌈n/d⌉.
func ceilDiv(n, d int) int { return (n + d - 1) / d }
