package ptx

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Launch is a kernel with its grid and its arguments.
type Launch struct {
	Kernel        string
	Grid, Block   [3]int
	DynamicShared int      // bytes
	Args          []byte   // the buffer of arguments, see [KernelInfo]
	Windows       []Window // what the kernel may touch; nil: every allocation
	Fresh         []Window // memory in which values begin: what stands there is another's, but for operands until the launch ends
	Threads       int      // of the host; 0: as many as there are
	MaxSteps      int64    // instructions of warps that a block may execute; 0: two to the power of 32
}

// Result is what a launch found and did.
type Result struct {
	Reports []*Report // by line; empty: no check found anything
	Counts  Counts
}

// Err is the first report, or nil.
func (r *Result) Err() error {
	if len(r.Reports) == 0 {
		return nil
	}
	return r.Reports[0]
}

// The most of a launch that GPUs allow.
const (
	mostThreads = 1024
	mostGrid    = 1<<31 - 1
)

// Launch runs a kernel. The error says that the launch cannot run, or that ctx ended; what checks found is in the result.
func (p *Program) Launch(ctx context.Context, mem *Memory, l Launch) (*Result, error) {
	k, err := p.kernel(l.Kernel)
	if err != nil {
		return nil, err
	}
	if err := l.check(k); err != nil {
		return nil, fmt.Errorf("launch of %s: %w", l.Kernel, err)
	}
	windows, err := mem.windows(l.Windows)
	if err != nil {
		return nil, fmt.Errorf("launch of %s: %w", l.Kernel, err)
	}
	if l.MaxSteps == 0 {
		l.MaxSteps = 1 << 32
	}
	g := &grid{kernel: k, launch: &l, windows: windows, total: int64(l.Grid[0]) * int64(l.Grid[1]) * int64(l.Grid[2])}
	if err := g.addGlobals(p); err != nil {
		return nil, err
	}
	if len(l.Fresh) > 0 {
		if g.fresh, err = mem.windows(l.Fresh); err != nil {
			return nil, fmt.Errorf("launch of %s: %w", l.Kernel, err)
		}
	}
	g.addShadows()
	defer g.leaveShadows()
	g.forget()
	r, err := g.run(ctx)
	g.forgetRest()
	return r, err
}

func (l *Launch) check(k *kernel) error {
	threads := 1
	for i := range 3 {
		if l.Grid[i] < 1 || l.Grid[i] > mostGrid || l.Block[i] < 1 || l.Block[i] > mostThreads {
			return fmt.Errorf("a grid of %v blocks of %v threads", l.Grid, l.Block)
		}
		if most := k.info.MaxThreads[i]; most > 0 && l.Block[i] > most {
			return fmt.Errorf("blocks of %v threads, the kernel is compiled for at most %v", l.Block, k.info.MaxThreads)
		}
		threads *= l.Block[i]
	}
	if threads > mostThreads {
		return fmt.Errorf("blocks of %d threads, the most is %d", threads, mostThreads)
	}
	if l.Grid[1] > 65535 || l.Grid[2] > 65535 {
		return fmt.Errorf("a grid of %v, the most is 65535 along y and z", l.Grid)
	}
	if blocks := int64(l.Grid[0]) * int64(l.Grid[1]); blocks > mostBlocksInStamp/int64(l.Grid[2]) {
		return fmt.Errorf("a grid of %v blocks, the most is %d here", l.Grid, mostBlocksInStamp)
	}
	if int64(len(l.Args)) != k.info.ArgBytes {
		return fmt.Errorf("%d bytes of arguments are given, the kernel has %d", len(l.Args), k.info.ArgBytes)
	}
	if shared := k.info.SharedBytes + int64(l.DynamicShared); l.DynamicShared < 0 || shared > k.mostShared {
		return fmt.Errorf("%d bytes of shared memory, the most is %d", shared, k.mostShared)
	}
	return nil
}

// grid is a launch while it runs. Its blocks are handed out in their order; each host thread has one block in work.
type grid struct {
	kernel  *kernel
	launch  *Launch
	windows []window
	fresh   []window
	shadows []*shadow
	origins uint64 // of all windows
	globals []uint64
	total   int64
	next    atomic.Int64
	lock    sync.Mutex
	counts  Counts
	// reports by block: merged in the order of blocks at the end.
	reports map[int64]map[place]*Report
}

// blockBytes is what a block takes on the host: registers and parameters of all functions, local memory, shared memory.
func (k *kernel) blockBytes(l *Launch) int64 {
	lane := 2 * k.info.LocalBytes
	for _, f := range k.functions {
		lane += 8*int64(f.values) + 2*f.paramBytes
	}
	warps := (int64(l.Block[0])*int64(l.Block[1])*int64(l.Block[2]) + 31) / 32
	return 32*warps*lane + 32*(int64(len(k.sharedState))+int64(l.DynamicShared)) + 1<<12
}

// addGlobals gives the module's own variables in global memory a place for the time of the launch.
func (g *grid) addGlobals(p *Program) error {
	own, total := &Memory{next: 1 << 48}, int64(0)
	for _, v := range g.kernel.globals {
		size, ok := v.Size()
		if total += size; !ok || total > mostGlobals {
			return syntaxError(v.Line, "%s needs more than %d bytes of global memory, with the variables before it", v.Name, mostGlobals)
		}
		a := own.Alloc(int(size), nil)
		if err := initialize(v, a.Data); err != nil {
			return err
		}
		for i := range a.state {
			a.state[i] = isWritten
		}
		g.globals = append(g.globals, a.Base)
	}
	extra, err := own.windows(nil)
	g.windows = append(g.windows, extra...)
	g.addOrigins(len(extra))
	return err
}

func (g *grid) run(ctx context.Context) (*Result, error) {
	g.reports = map[int64]map[place]*Report{}
	threads := g.launch.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if g.kernel.isOrdered {
		threads = 1
	}
	threads = int(min(int64(threads), g.total, mostBlocks/g.kernel.blockBytes(g.launch)))
	if threads == 0 {
		return nil, fmt.Errorf("a block of %v threads needs %d bytes of the host, the most is %d", g.launch.Block, g.kernel.blockBytes(g.launch), int64(mostBlocks))
	}
	var wait sync.WaitGroup
	failures := make([]error, threads)
	for i := range threads {
		wait.Add(1)
		go func() {
			defer wait.Done()
			failures[i] = g.work(ctx)
		}()
	}
	wait.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	all := map[place]*Report{}
	for _, i := range sortedKeys(g.reports) {
		merge(all, g.reports[i])
	}
	return &Result{Reports: sorted(all), Counts: g.counts}, nil
}

// work runs blocks until none is left. A panic of the interpreter is its error.
func (g *grid) work(ctx context.Context) (err error) {
	b := newBlock(ctx, g)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("kernel %s, block %v: the interpreter failed: %v", g.kernel.name, b.id, p)
		}
	}()
	for {
		i := g.next.Add(1) - 1
		if i >= g.total {
			break
		}
		b.run(i)
		if err := ctx.Err(); err != nil { // blocks may be many and short; long ones look themselves
			return err
		}
		if len(b.reports) > 0 {
			g.lock.Lock()
			g.reports[i] = b.reports
			g.lock.Unlock()
			b.reports = nil
		}
	}
	b.counts.Classes = b.executed
	g.lock.Lock()
	g.counts.Add(&b.counts)
	g.lock.Unlock()
	b.leave()
	return nil
}
