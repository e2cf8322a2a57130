package cpu

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// tiler is a kernel whose work is cut into tiles that do not depend on each other.
type tiler interface {
	// tile does piece i of a call. worker selects a slice of the workspace: no two
	// tiles run with the same worker at the same time.
	tile(c *ops.Call, i, worker int)
}

// job binds a tiler to a call: tasks for the worker pool, each of per tiles.
type job struct {
	t               tiler
	c               *ops.Call
	first, end, per int
}

// Run does task i.
func (j *job) Run(i, worker int) {
	from := j.first + i*j.per
	for k := from; k < min(from+j.per, j.end) && !j.c.Ended(); k++ {
		j.t.tile(j.c, k, worker)
	}
}

var jobs struct {
	sync.Mutex
	free []*job
}

// runTiles runs tiles 0..n-1 on at most c.Threads threads.
func runTiles(c *ops.Call, n int, t tiler) { runTasks(c, 0, n, 1, c.Threads, t) }

// runSmall is runTiles for tiles of about elems elements each, on at most threads threads.
func runSmall(c *ops.Call, n, elems, threads int, t tiler) {
	runTasks(c, 0, n, smallTasks(elems), threads, t)
}

// smallTasks is how many tiles of about elems elements each make a task: passing a task
// to a worker costs microseconds.
func smallTasks(elems int) int { return max(1, TileElems/max(1, elems)) }

// runTasks runs tiles first up to end in tasks of per tiles, on at most threads and
// c.Threads threads. Where a result begins at the same address as a larger operand,
// tasks run in waves: what [ops.Facts].Smaller promises then holds if later tiles are
// no longer than earlier ones and each writes at most half of what it reads.
func runTasks(c *ops.Call, first, end, per, threads int, t tiler) {
	if end-first == 1 {
		t.tile(c, first, 0) // whoever calls the kernel has just asked whether the call is to end
		return
	}
	threads, tasks := min(threads, c.Threads), ceilDiv(end-first, per)
	if tasks <= 1 || threads <= 1 {
		for i := first; i < end && !c.Ended(); i++ {
			t.tile(c, i, 0)
		}
		return
	}
	j := takeJob()
	j.t, j.c, j.first, j.end, j.per = t, c, first, end, per
	defer j.release()
	if c.OverlaysAny() {
		machine.ParallelWaves(tasks, threads, j)
		return
	}
	machine.Parallel(tasks, threads, j)
}

// tiled is the kernel that runs the tiles of a tiler and does nothing else; see
// [runTasks].
type tiled struct {
	tiler
	n, per, threads int
}

// allTiles is the kernel that runs n tiles.
func allTiles(n int, t tiler) ops.Kernel { return &tiled{t, n, 1, math.MaxInt} }

// smallTiles is the kernel that runs n tiles of about elems elements each, on at most
// threads threads.
func smallTiles(n, elems, threads int, t tiler) ops.Kernel {
	return &tiled{t, n, smallTasks(elems), threads}
}

// Run computes all tiles.
func (k *tiled) Run(c *ops.Call) error {
	runTasks(c, 0, k.n, k.per, k.threads, k.tiler)
	return nil
}

// Choice is what the tiler says.
func (k *tiled) Choice() backend.Choice {
	if t, ok := k.tiler.(backend.Chooser); ok {
		return t.Choice()
	}
	return backend.Choice{Algorithm: "tiles", Reason: strconv.Itoa(k.n) + " that do not depend on each other"}
}

// ranges is the kernel that calls f for n elements or rows, per of them at a time.
type ranges struct {
	n, per, tiles int
	f             func(c *ops.Call, lo, hi int)
}

// newRanges divides once: a division takes longer than some of the kernels.
func newRanges(n, per int, f func(c *ops.Call, lo, hi int)) *ranges {
	return &ranges{n, per, ceilDiv(n, per), f}
}

// elementwise is the kernel that computes n elements, about most of them at a time.
func elementwise(n, most int, f func(c *ops.Call, lo, hi int)) *ranges {
	per := max(n, 1)
	if n > most {
		per = roundUp(ceilDiv(n, ceilDiv(n, most)), 16)
	}
	return newRanges(n, per, f)
}

// rowwise is the kernel that computes n rows, per of them at a time but one at least.
func rowwise(n, per int, f func(c *ops.Call, lo, hi int)) *ranges {
	return newRanges(n, max(per, 1), f)
}

// Run computes all elements.
func (k *ranges) Run(c *ops.Call) error {
	runTiles(c, k.tiles, k)
	return nil
}

// Choice says how it is computed.
func (k *ranges) Choice() backend.Choice {
	return backend.Choice{Algorithm: "in order of memory", Reason: strconv.Itoa(k.per) + " elements or rows at a time"}
}

func (k *ranges) tile(c *ops.Call, i, _ int) { k.f(c, i*k.per, min((i+1)*k.per, k.n)) }

// lookStep is how many elements, of rows that have no tiles, are computed between two looks at the context.
const lookStep = 1 << 20

// pieces calls f for the pieces of a row of n elements; between them it looks whether the call is to end.
func pieces(c *ops.Call, n int, f func(lo, hi int)) {
	for lo := 0; lo < n && (lo == 0 || !c.Ended()); lo += lookStep {
		f(lo, min(lo+lookStep, n))
	}
}

// watch looks whether a call is to end now and then, for tiles whose windows may be as large as the operand.
type watch struct {
	c    *ops.Call
	work int // elements of a window
	done int // since it looked
}

// ended reports whether the call is to end, before work on a window.
//
//go:noinline
func (w *watch) ended() bool {
	if w.done += w.work; w.done < lookStep {
		return false
	}
	w.done = 0
	return w.c.Ended()
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

// cut divides runs × run elements into tiles of at most about so many elements:
// several runs to a tile, or several tiles to a run.
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

// TileElems and TileBytes are the sizes of tiles: elements that a kernel computes,
// and bytes that a kernel only moves. Passing a tile to a worker takes about a
// microsecond, so tiles must not be small. Tests set both to cut everything into tiles.
var (
	TileElems = 32 << 10
	TileBytes = 128 << 10
)

// Which nodes are worth several threads. A worker that is awake takes a task in about a
// microsecond, one that has to be woken in some tens of them, and a node on two threads saves
// at most half of its time. So a node whose whole work is estimated below a bound is prepared
// for one thread, and has the workspace of one:
//
//	estimate   0 ─────────── ShareNanos ───────────▶
//	            one thread   │  as many as there are
//
// The estimate is the largest of what arithmetic, elements and bytes take at rates that
// ordinary cores reach. It uses no clock: the workspace, and with it the plan, is the same on
// every machine.

// ShareNanos is the estimated work in nanoseconds from which on a node is shared by threads.
// Tests set it to 0, to have everything shared.
var ShareNanos int64 = 25_000

// The rates of one core: operations of products and the like, those of depthwise windows, bytes moved, and
// elements of elementwise functions, each per nanosecond.
const (
	flopsPerNano       = 40
	windowFlopsPerNano = 16
	bytesPerNano       = 20
	elemsPerNano       = 2
)

// threadsFor is how many of some threads a node is prepared for.
func threadsFor(n *ssa.Node, threads int) int {
	if threads > 1 && workOf(n) < ShareNanos {
		return 1
	}
	return max(threads, 1)
}

// workOf estimates the nanoseconds that a node with static types takes on one core.
func workOf(n *ssa.Node) int64 {
	o, c := ops.Of(n), ops.CostOf(n)
	work := max(c.FLOPs/flopsPerNano, c.Bytes/bytesPerNano)
	switch {
	case o == nil || o.Facts.Cost == nil && !o.Facts.IsElementwise():
		work = max(work, c.Bytes) // sorting, sampling and the like, element by element
	case o.Facts.Cost == nil:
		work = c.FLOPs / elemsPerNano // an operation is an element; operands are mostly in a cache
	case isDepthwise(n):
		work = max(work, c.FLOPs/windowFlopsPerNano)
	}
	return work
}

// isDepthwise reports a convolution, plain or over blocks, whose groups have one input channel.
func isDepthwise(n *ssa.Node) bool {
	if !n.Has("group") || ops.Int(n, "group") <= 1 {
		return false
	}
	isWeights := func(v *ssa.Value) bool { return v != nil && v.Type.Ranked && v.Type.Rank() >= 3 } // scales and zero points are not
	k := slices.IndexFunc(n.In[min(1, len(n.In)):], isWeights)
	return k >= 0 && n.In[1+k].Type.Shape[1].Is(1)
}

// arrayOf returns a tensor operand or result.
func arrayOf(v ndarray.Value) *ndarray.Array { return v.(*ndarray.Array) }

// f32 returns the elements of a float32 operand or result.
func f32(v ndarray.Value) []float32 { return ndarray.Slice[float32](v.(*ndarray.Array)) }

// optF32 returns the elements of operand or result i, nil if it is absent
// or i negative.
func optF32(values []ndarray.Value, i int) []float32 {
	if i < 0 || i >= len(values) || values[i] == nil {
		return nil
	}
	return f32(values[i])
}

// optHalves returns the elements of a half type of operand i, nil if it is absent.
func optHalves(values []ndarray.Value, i int) []uint16 {
	if i >= len(values) || values[i] == nil {
		return nil
	}
	return elems[uint16](values[i])
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
