package ptx

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// block is a block of threads while it runs: its warps, its shared memory, its barriers. It is used again for further blocks.
type block struct {
	kernel      *kernel
	launch      *Launch
	ctx         context.Context // of the launch
	id          [3]int
	warps       []*warp
	shared      []byte
	sharedState []byte
	template    []byte // sharedState when a block begins
	cells       []cell
	barriers    [16]barrier
	windows     []window
	lastWindow  *window
	globals     []uint64
	reports     map[place]*Report
	counts      Counts
	executed    [classes]Work
	budget      int64
	isStopped   bool
}

func newBlock(ctx context.Context, g *grid) *block {
	k := g.kernel
	size := int64(len(k.sharedState))
	if g.launch.DynamicShared > 0 {
		size = k.dynamicAt + int64(g.launch.DynamicShared)
	}
	b := &block{ctx: ctx, kernel: k, launch: g.launch, windows: g.windows, globals: g.globals}
	b.template = fill(slices.Clone(k.sharedState), min(size, k.dynamicAt), isGap)
	b.template = fill(b.template, size, isFree)
	b.shared, b.sharedState = make([]byte, size), make([]byte, size)
	b.cells = make([]cell, size/int64(k.sharedGrain)+1)
	n := b.threads()
	for i := 0; i*32 < n; i++ {
		w := &warp{block: b, index: i, valid: allLanes}
		if rest := n - i*32; rest < 32 {
			w.valid = 1<<rest - 1
		}
		b.warps = append(b.warps, w)
	}
	return b
}

func (b *block) threads() int { return b.launch.Block[0] * b.launch.Block[1] * b.launch.Block[2] }

// run executes the block of a number. Its warps take turns: each runs until it waits or ends.
func (b *block) run(number int64) {
	x, y := int64(b.launch.Grid[0]), int64(b.launch.Grid[1])
	b.id = [3]int{int(number % x), int(number / x % y), int(number / (x * y))}
	copy(b.sharedState, b.template)
	clear(b.shared)
	clear(b.cells)
	b.barriers = [16]barrier{}
	b.budget, b.isStopped = b.launch.MaxSteps, false
	for _, w := range b.warps {
		w.begin()
	}
	for isMoving := true; isMoving && !b.isStopped; {
		isMoving = false
		for _, w := range b.warps {
			if len(w.frames) > 0 && !w.waits.isWaiting && !b.isStopped {
				isMoving = true
				w.run()
			}
		}
	}
	if !b.isStopped {
		b.stuck()
	}
}

// stuck reports a barrier that warps wait at and that will never be complete.
func (b *block) stuck() {
	for _, w := range b.warps {
		if w.waits.isWaiting {
			w.step = w.waits.step
			w.report(Deadlock, firstLane(w.waits.lanes), "barrier %d has been met by %d of %d threads", w.waits.id, b.barriers[w.waits.id].threads, b.threads())
			return
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
