// Package sim is a device without a GPU: its kernels are run by the interpreter of PTX, which checks more than a GPU does.
package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/internal/ptx"
)

// Options are what the device is like.
type Options struct {
	Memory  int64  // bytes; 0: 8 GiB
	Threads int    // of the host; 0: as many as there are
	Order   uint64 // of the work of graphs, as far as it is free: the seed by which it is drawn
	Errors  uint64 // of approximate instructions, as [ptx.Options] has them
	Late    bool   // work is done when it is waited for, and no earlier
}

// Device runs kernels on the host: at once, so that nothing is left to wait for, or as late as a GPU may.
type Device struct {
	options Options
	lock    sync.Mutex
	mem     *ptx.Memory
	sizes   map[device.Pointer]int64
	used    int64
	capture *graph // nil outside Capture
	order   *rand.Rand
	counts  map[string]ptx.Counts
	queue   []later // that nobody has waited for yet
	done    int64   // pieces of work that were in it
	pinned  []span
}

// task is work that is asked for.
type task func(ctx context.Context) error

// piece is work of a graph.
type piece struct {
	work   task
	uses   []span
	waits  []int // what it waits for
	behind []int // that wait for it
}

// New makes a device.
func New(o Options) *Device {
	if o.Memory == 0 {
		o.Memory = 8 << 30
	}
	return &Device{options: o, mem: ptx.NewMemory(), sizes: map[device.Pointer]int64{}, counts: map[string]ptx.Counts{},
		order: rand.New(rand.NewPCG(o.Order, 0))}
}

// Info describes the interpreter as a device of the newest architecture that kernels are written for.
func (d *Device) Info() device.Info {
	return device.Info{Name: "PTX interpreter", Major: 8, Minor: 0, Processors: 1}
}

// Memory tells what is left of the limit.
func (d *Device) Memory() (free, total int64, err error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.options.Memory - d.used, d.options.Memory, nil
}

// Alloc gives memory that counts as unwritten.
func (d *Device) Alloc(bytes int64) (device.Pointer, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if bytes < 0 || bytes > d.options.Memory-d.used {
		return 0, &device.MemoryError{Want: bytes, Free: d.options.Memory - d.used, Total: d.options.Memory}
	}
	p := device.Pointer(d.mem.Alloc(int(bytes), nil).Base)
	d.sizes[p] = bytes
	d.used += bytes
	return p, nil
}

// Free gives memory back.
func (d *Device) Free(p device.Pointer) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if err := d.unused(at(p, int(d.sizes[p]))); err != nil {
		return err
	}
	if err := d.mem.Free(uint64(p)); err != nil {
		return err
	}
	d.used -= d.sizes[p]
	delete(d.sizes, p)
	return nil
}

// AllocHost gives ordinary memory.
func (d *Device) AllocHost(bytes int64) ([]byte, error) {
	b := make([]byte, bytes)
	d.lock.Lock()
	defer d.lock.Unlock()
	d.pinned = append(d.pinned, ofHost(b))
	return b, nil
}

// FreeHost leaves it to the collector.
func (d *Device) FreeHost(b []byte) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	own := ofHost(b)
	d.pinned = slices.DeleteFunc(d.pinned, func(s span) bool { return s == own })
	return d.unused(own)
}

// ask does work, or notes it while a graph is captured, or for later.
func (d *Device) ask(ctx context.Context, work task, uses ...span) error {
	return d.askFrom(ctx, work, nil, uses...)
}

// askFrom is ask for work that copies memory of the host to the device.
func (d *Device) askFrom(ctx context.Context, work task, from [][]byte, uses ...span) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	switch {
	case d.capture != nil:
		d.capture.add(work, from, uses)
		return nil
	case d.options.Late:
		d.leave(work, from, uses)
		return nil
	}
	return work(ctx)
}

// CopyIn copies from the host. Where the host's memory is not of AllocHost, it has been done on return, and all work before it.
func (d *Device) CopyIn(to device.Pointer, from []byte) error {
	err := d.askFrom(context.Background(), func(context.Context) error {
		data, err := d.mem.At(uint64(to), len(from))
		if err != nil {
			return fmt.Errorf("copy to the device: %w", err)
		}
		copy(data, from)
		return d.mem.SetWritten(uint64(to), len(from), true)
	}, [][]byte{from}, at(to, len(from)).written(), ofHost(from))
	if err != nil || d.isPinned(from) {
		return err
	}
	return d.finish(d.asked())
}

// CopyOut copies to the host. Bytes that nobody has written are an error.
func (d *Device) CopyOut(to []byte, from device.Pointer) error {
	return d.ask(context.Background(), func(context.Context) error {
		data, err := d.read(from, len(to))
		if err != nil {
			return fmt.Errorf("copy from the device: %w", err)
		}
		copy(to, data)
		return nil
	}, at(from, len(to)), ofHost(to).written())
}

func (d *Device) read(from device.Pointer, size int) ([]byte, error) {
	data, err := d.mem.At(uint64(from), size)
	if err != nil {
		return nil, err
	}
	if at, err := d.mem.Unwritten(uint64(from), size); err != nil || at >= 0 {
		return nil, errors.Join(err, fmt.Errorf("nobody has written byte %d of the %d at %#x", at, size, from))
	}
	return data, nil
}

// Copy copies inside the device.
func (d *Device) Copy(to, from device.Pointer, bytes int64) error {
	return d.ask(context.Background(), func(context.Context) error {
		source, err := d.read(from, int(bytes))
		if err != nil {
			return fmt.Errorf("copy inside the device: %w", err)
		}
		target, err := d.mem.At(uint64(to), int(bytes))
		if err != nil {
			return fmt.Errorf("copy inside the device: %w", err)
		}
		copy(target, source)
		return d.mem.SetWritten(uint64(to), int(bytes), true)
	}, at(from, int(bytes)), at(to, int(bytes)).written())
}

// Zero has all bytes of a range be 0.
func (d *Device) Zero(p device.Pointer, bytes int64) error {
	return d.ask(context.Background(), func(context.Context) error {
		data, err := d.mem.At(uint64(p), int(bytes))
		if err != nil {
			return fmt.Errorf("zeros on the device: %w", err)
		}
		clear(data)
		return d.mem.SetWritten(uint64(p), int(bytes), true)
	}, at(p, int(bytes)).written())
}

// Forget makes memory count as unwritten, as it is for the next run of a program.
func (d *Device) Forget(p device.Pointer, bytes int64) error {
	return d.ask(context.Background(), func(context.Context) error { return d.mem.SetWritten(uint64(p), int(bytes), false) }, at(p, int(bytes)).written())
}

// Counts is the work that kernels have done so far, by their names.
func (d *Device) Counts() map[string]ptx.Counts {
	d.lock.Lock()
	defer d.lock.Unlock()
	out := map[string]ptx.Counts{}
	for name, c := range d.counts {
		out[name] = c
	}
	return out
}

// Work sums over all kernels.
func (d *Device) Work() (w device.Work) {
	d.lock.Lock()
	defer d.lock.Unlock()
	for _, c := range d.counts {
		w.Operations += c.Flops
		w.Instructions += c.Instructions().Warps
		w.Traffic += 32 * c.GlobalSectors
	}
	return w
}

// Load parses and compiles a module.
func (d *Device) Load(text string) (device.Module, error) {
	m, err := ptx.Parse(text)
	if err != nil {
		return nil, err
	}
	p, err := ptx.CompileWith(m, ptx.Options{Errors: d.options.Errors})
	if err != nil {
		return nil, err
	}
	return &module{p}, nil
}

type module struct{ program *ptx.Program }

// Kernel finds a kernel.
func (m *module) Kernel(name string) (device.Kernel, error) {
	if _, err := m.program.Info(name); err != nil {
		return nil, err
	}
	return &kernel{m.program, name}, nil
}

// Unload does nothing.
func (m *module) Unload() error { return nil }

type kernel struct {
	program *ptx.Program
	name    string
}

// Name is the kernel's name.
func (k *kernel) Name() string { return k.name }

// Launch runs a kernel; the first report of a check is its error.
func (d *Device) Launch(l *device.Launch) error {
	k, ok := l.Kernel.(*kernel)
	if !ok {
		return fmt.Errorf("the kernel is not of this device")
	}
	launch := ptx.Launch{Kernel: k.name, Grid: l.Grid, Block: l.Block, Args: append([]byte{}, l.Args...),
		Threads: d.options.Threads}
	if l.Windows != nil {
		launch.Windows = []ptx.Window{}
	}
	var uses []span
	for _, w := range l.Windows {
		use := at(w.Base, int(w.Bytes))
		use.isWritten, use.commutes = w.IsWritten, w.Commutes
		uses = append(uses, use)
		access := ptx.Access(0)
		if w.IsRead {
			access |= ptx.Read
		}
		if w.IsWritten {
			access |= ptx.Write
		}
		launch.Windows = append(launch.Windows, ptx.Window{Name: w.Name, Base: uint64(w.Base), Size: int(w.Bytes), Access: access, Arg: w.Arg})
	}
	for _, w := range l.Fresh {
		launch.Fresh = append(launch.Fresh, ptx.Window{Name: w.Name, Base: uint64(w.Base), Size: int(w.Bytes)})
		uses = append(uses, at(w.Base, int(w.Bytes)).written())
	}
	ctx := l.Context
	if ctx == nil {
		ctx = context.Background()
	}
	return d.ask(ctx, func(ctx context.Context) error {
		r, err := k.program.Launch(ctx, d.mem, launch)
		if err == nil {
			total := d.counts[k.name]
			total.Add(&r.Counts)
			d.counts[k.name] = total
			err = r.Err()
		}
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return &device.KernelError{Kernel: k.name, Err: err}
		}
		return nil
	}, uses...)
}

// graph is work in an order that is free but for what waits for what.
type graph struct {
	device *Device
	pieces []piece
	uses   []span
	from   [][]byte
	waits  []int // of the next piece
	isFree bool  // After has said what that is

	left, ready []int // of a run
}

// add adds a piece of work.
func (g *graph) add(work task, from [][]byte, uses []span) {
	k := len(g.pieces)
	if !g.isFree && k > 0 {
		g.waits = append(g.waits[:0], k-1)
	}
	g.pieces = append(g.pieces, piece{work: work, uses: uses, waits: slices.Clone(g.waits)})
	g.uses, g.from = append(g.uses, uses...), append(g.from, from...)
	for _, p := range g.waits {
		g.pieces[p].behind = append(g.pieces[p].behind, k)
	}
	g.waits, g.isFree = g.waits[:0], false
}

// After says what the next piece of work waits for.
func (d *Device) After(pieces []int) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.capture == nil {
		return fmt.Errorf("work waits for pieces of a graph outside of a graph")
	}
	for _, p := range pieces {
		if p < 0 || p >= len(d.capture.pieces) {
			return fmt.Errorf("piece %d of a graph of %d is waited for", p, len(d.capture.pieces))
		}
	}
	d.capture.waits, d.capture.isFree = append(d.capture.waits[:0], pieces...), true
	return nil
}

// Capture notes the work that ask asks for. What may be done at the same time and touches the same bytes is an error.
func (d *Device) Capture(ask func() error) (device.Graph, error) {
	g := &graph{device: d}
	d.setCapture(g)
	defer d.setCapture(nil)
	if err := ask(); err != nil {
		return nil, err
	}
	if err := g.unordered(); err != nil {
		return nil, err
	}
	return g, nil
}

func (d *Device) setCapture(g *graph) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.capture = g
}

// Run does the work in an order of those that are free, another one in each run, so that what should wait and does not shows.
func (g *graph) Run(ctx context.Context) error {
	return g.device.askFrom(ctx, g.run, g.from, g.uses...)
}

func (g *graph) run(ctx context.Context) error {
	g.left, g.ready = g.left[:0], g.ready[:0]
	for i := range g.pieces {
		if g.left = append(g.left, len(g.pieces[i].waits)); g.left[i] == 0 {
			g.ready = append(g.ready, i)
		}
	}
	for len(g.ready) > 0 {
		last := len(g.ready) - 1
		k := g.device.order.IntN(last + 1)
		i := g.ready[k]
		g.ready[k] = g.ready[last]
		g.ready = g.ready[:last]
		if err := g.pieces[i].work(ctx); err != nil {
			return &device.PieceError{Piece: i, Err: err}
		}
		for _, b := range g.pieces[i].behind {
			if g.left[b]--; g.left[b] == 0 {
				g.ready = append(g.ready, b)
			}
		}
	}
	return nil
}

// Close does nothing.
func (g *graph) Close() error { return nil }

type event struct {
	device *Device
	at     time.Time
	behind int64 // pieces of work
}

// NewEvent makes a mark.
func (d *Device) NewEvent(bool) (device.Event, error) { return &event{device: d}, nil }

// Record notes the time, and how much work has been asked for. A graph has no marks.
func (e *event) Record() error {
	e.device.lock.Lock()
	isCapturing := e.device.capture != nil
	e.device.lock.Unlock()
	if isCapturing {
		return fmt.Errorf("an event is recorded while a graph is captured")
	}
	e.at, e.behind = time.Now(), e.device.asked()
	return nil
}

// Wait does the work before the mark, if it has been left for later.
func (e *event) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.device.finish(e.behind)
}

// Since is the time between two marks, of the host.
func (e *event) Since(earlier device.Event) (time.Duration, error) {
	first, ok := earlier.(*event)
	if !ok || first.at.IsZero() || e.at.IsZero() {
		return 0, fmt.Errorf("an event has not been recorded")
	}
	return e.at.Sub(first.at), nil
}

// Close does nothing.
func (e *event) Close() error { return nil }

// Close forgets all memory.
func (d *Device) Close() error {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.mem, d.sizes, d.used = ptx.NewMemory(), map[device.Pointer]int64{}, 0
	return nil
}
