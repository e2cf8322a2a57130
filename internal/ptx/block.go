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
	extent      [3]int // in threads
	launch      *Launch
	ctx         context.Context // of the launch
	id          [3]int
	number      int64 // in the grid
	warps       []*warp
	shared      []byte
	sharedState []byte
	template    []byte // sharedState when a block begins
	cells       []cell
	more        moreReaders // of cells
	phase       phase
	barriers    [16]barrier
	windows     []window
	origins     uint64    // of all windows
	recent      []*window // by access: the window that it was in last
	globals     []uint64
	reports     map[place]*Report
	counts      Counts
	executed    [classes]Work
	budget      int64
	isStopped   bool
}

// newBlock makes a block for a launch, from one that an earlier launch has left if that is of the same size.
func newBlock(ctx context.Context, g *grid) *block {
	k := g.kernel
	size := int64(len(k.sharedState))
	if g.launch.DynamicShared > 0 {
		size = k.dynamicAt + int64(g.launch.DynamicShared)
	}
	b, _ := k.idle.Get().(*block)
	if b == nil || int64(len(b.shared)) != size || b.extent != g.launch.Block {
		b = &block{kernel: k, extent: g.launch.Block, recent: make([]*window, k.accesses+1)}
		b.makeShared(size)
		b.makeWarps()
	}
	b.ctx, b.launch, b.windows, b.origins, b.globals = ctx, g.launch, g.windows, g.origins, g.globals
	b.counts, b.executed, b.reports = Counts{}, [classes]Work{}, nil
	for _, w := range b.warps {
		w.place(b.launch)
	}
	return b
}

// leave keeps the block for another launch.
func (b *block) leave() {
	clear(b.recent)
	b.ctx, b.launch, b.windows, b.globals = nil, nil, nil, nil
	b.kernel.idle.Put(b)
}

func (b *block) makeShared(size int64) {
	k := b.kernel
	b.template = fill(slices.Clone(k.sharedState), min(size, k.dynamicAt), isGap)
	b.template = fill(b.template, size, isFree)
	b.shared, b.sharedState = make([]byte, size), make([]byte, size)
	b.cells = make([]cell, size/int64(k.sharedGrain)+1)
	b.phase = newPhase(size)
}

func (b *block) makeWarps() {
	n := b.threads()
	for i := 0; i*32 < n; i++ {
		w := newWarp(b, i)
		if rest := n - i*32; rest < 32 {
			w.valid = 1<<rest - 1
		}
		b.warps = append(b.warps, w)
	}
}

func (b *block) threads() int { return b.extent[0] * b.extent[1] * b.extent[2] }

// run executes the block of a number. Its warps take turns: each runs until it waits or ends.
func (b *block) run(number int64) {
	x, y := int64(b.launch.Grid[0]), int64(b.launch.Grid[1])
	b.number = number
	b.id = [3]int{int(number % x), int(number / x % y), int(number / (x * y))}
	copy(b.sharedState, b.template)
	clear(b.shared)
	clear(b.cells)
	clear(b.more.of)
	b.phase.begin()
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
