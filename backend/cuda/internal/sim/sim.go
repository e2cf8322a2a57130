// Package sim is a device without a GPU: its kernels are run by the interpreter of PTX, which checks more than a GPU does.
package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/internal/ptx"
)

// Options are what the device is like.
type Options struct {
	Memory  int64 // bytes; 0: 8 GiB
	Threads int   // of the host; 0: as many as there are
}

// Device runs kernels on the host, at once: nothing is ever left to wait for.
type Device struct {
	options Options
	lock    sync.Mutex
	mem     *ptx.Memory
	sizes   map[device.Pointer]int64
	used    int64
	capture *[]task // nil outside Capture
	counts  map[string]ptx.Counts
}

// task is work that is asked for.
type task func(ctx context.Context) error

// New makes a device.
func New(o Options) *Device {
	if o.Memory == 0 {
		o.Memory = 8 << 30
	}
	return &Device{options: o, mem: ptx.NewMemory(), sizes: map[device.Pointer]int64{}, counts: map[string]ptx.Counts{}}
}

// Info describes the interpreter as a device of the newest architecture that kernels are written for.
func (d *Device) Info() device.Info {
	return device.Info{Name: "PTX interpreter", Major: 8, Minor: 0, Processors: 1, SharedPerBlock: 48 << 10}
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
	if err := d.mem.Free(uint64(p)); err != nil {
		return err
	}
	d.used -= d.sizes[p]
	delete(d.sizes, p)
	return nil
}

// AllocHost gives ordinary memory.
func (d *Device) AllocHost(bytes int64) ([]byte, error) { return make([]byte, bytes), nil }

// FreeHost leaves it to the collector.
func (d *Device) FreeHost([]byte) error { return nil }

// ask does work, or notes it while a graph is captured.
func (d *Device) ask(ctx context.Context, work task) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.capture != nil {
		*d.capture = append(*d.capture, work)
		return nil
	}
	return work(ctx)
}

// CopyIn copies from the host.
func (d *Device) CopyIn(to device.Pointer, from []byte) error {
	return d.ask(context.Background(), func(context.Context) error {
		data, err := d.mem.At(uint64(to), len(from))
		if err != nil {
			return fmt.Errorf("copy to the device: %w", err)
		}
		copy(data, from)
		return d.mem.SetWritten(uint64(to), len(from), true)
	})
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
	})
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
	})
}

// Forget makes memory count as unwritten, as it is for the next run of a program.
func (d *Device) Forget(p device.Pointer, bytes int64) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.mem.SetWritten(uint64(p), int(bytes), false)
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
	p, err := ptx.Compile(m)
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
	launch := ptx.Launch{Kernel: k.name, Grid: l.Grid, Block: l.Block, DynamicShared: l.Shared, Args: append([]byte{}, l.Args...),
		Threads: d.options.Threads}
	if l.Windows != nil {
		launch.Windows = []ptx.Window{}
	}
	for _, w := range l.Windows {
		access := ptx.Access(0)
		if w.IsRead {
			access |= ptx.Read
		}
		if w.IsWritten {
			access |= ptx.Write
		}
		launch.Windows = append(launch.Windows, ptx.Window{Name: w.Name, Base: uint64(w.Base), Size: int(w.Bytes), Access: access})
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
			return context.Cause(ctx)
		}
		if err != nil {
			return &device.KernelError{Kernel: k.name, Err: err}
		}
		return nil
	})
}

type graph struct {
	device *Device
	work   []task
}

// Capture notes the work that ask asks for.
func (d *Device) Capture(ask func() error) (device.Graph, error) {
	g := &graph{device: d}
	d.setCapture(&g.work)
	defer d.setCapture(nil)
	if err := ask(); err != nil {
		return nil, err
	}
	return g, nil
}

func (d *Device) setCapture(work *[]task) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.capture = work
}

// Run does the work in its order.
func (g *graph) Run(ctx context.Context) error {
	for _, work := range g.work {
		if err := g.device.ask(ctx, work); err != nil {
			return err
		}
	}
	return nil
}

// Close does nothing.
func (g *graph) Close() error { return nil }

type event struct{ at time.Time }

// NewEvent makes a mark.
func (d *Device) NewEvent() (device.Event, error) { return &event{}, nil }

// Record notes the time, since all work asked for is done.
func (e *event) Record() error {
	e.at = time.Now()
	return nil
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

// Wait returns at once.
func (d *Device) Wait(ctx context.Context) error { return context.Cause(ctx) }

// Close forgets all memory.
func (d *Device) Close() error {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.mem, d.sizes, d.used = ptx.NewMemory(), map[device.Pointer]int64{}, 0
	return nil
}
