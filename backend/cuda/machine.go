package cuda

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// machine is a device that is open, with what programs share on it: kernels, weights and arenas. It is asked for one thing at a time, and
// nobody waits for its work while it is locked.
type machine struct {
	open func() (device.Device, error)

	launches atomic.Int64                    // of all sessions
	lost     atomic.Pointer[DeviceLostError] // why nothing can be asked of the device any more
	lock     gate                            // of the device
	dev      device.Device                   // nil until it is open
	set      *kernels.Set

	known   sync.Mutex // of what follows
	emitted map[content]weak.Pointer[emitted]
	weights map[content]weak.Pointer[weight]
	tensors map[uintptr]weak.Pointer[Tensor] // by the memory of the host that stands for them
	arenas  map[any]*arena                   // by what sessions share
}

// slot has the machine of a device for new programs.
type slot struct {
	open func() (device.Device, error)
	lock sync.Mutex
	now  *machine
}

// machine is the present one: another, where the device is lost that it was of.
func (s *slot) machine() *machine {
	s.lock.Lock()
	defer s.lock.Unlock()
	if old := s.now; old == nil || old.lost.Load() != nil {
		s.now = &machine{open: func() (device.Device, error) {
			if old != nil {
				old.close()
			}
			return s.open()
		}}
	}
	return s.now
}

// close closes a device that is lost. What it says to that is of no use to anyone.
func (m *machine) close() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.dev != nil {
		_ = m.dev.Close()
		m.dev = nil
	}
}

// gate is a lock that can be waited for until a context ends.
type gate struct {
	once sync.Once
	room chan struct{}
}

func (g *gate) channel() chan struct{} {
	g.once.Do(func() { g.room = make(chan struct{}, 1) })
	return g.room
}

// Lock waits for the lock.
func (g *gate) Lock() { g.channel() <- struct{}{} }

// Unlock gives it up.
func (g *gate) Unlock() { <-g.room }

// enter is Lock until a context ends.
func (g *gate) enter(ctx context.Context) error {
	room := g.channel()
	select {
	case room <- struct{}{}: // also where the context has ended: whoever has it looks himself
		return nil
	default:
	}
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// content is what identifies text and constants: elements of a file that is closed may be followed by others at their address.
type content [sha256.Size]byte

// emitted is a kernel on the device, for as long as a kernel of a program holds it.
type emitted struct{ kernel device.Kernel }

// weight is a constant on the device, for as long as a kernel of a program holds it.
type weight struct{ at kernels.Operand }

// ready opens the device at the first call, and at later ones where it could not be opened.
func (m *machine) ready(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.lock.Unlock()
	if m.set != nil {
		return nil
	}
	dev, err := m.open()
	if err != nil {
		return err
	}
	set, err := kernels.Load(dev)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	m.known.Lock()
	defer m.known.Unlock()
	m.emitted, m.weights = map[content]weak.Pointer[emitted]{}, map[content]weak.Pointer[weight]{}
	m.tensors, m.arenas = map[uintptr]weak.Pointer[Tensor]{}, map[any]*arena{}
	m.dev, m.set = dev, set
	return nil
}

// enter locks a device that is not lost.
func (m *machine) enter(ctx context.Context) error {
	if err := m.lost.Load(); err != nil {
		return err
	}
	if err := m.lock.enter(ctx); err != nil {
		return err
	}
	if err := m.lost.Load(); err != nil { // meanwhile
		m.lock.Unlock()
		return err
	}
	return nil
}

// note keeps an error after which nothing can be asked of the device.
func (m *machine) note(err error) error {
	if err == nil {
		return nil
	}
	var lost *DeviceLostError
	if errors.As(err, &lost) {
		m.lost.CompareAndSwap(nil, lost)
	}
	return err
}

// ask locks the device for a call.
func (m *machine) ask(ctx context.Context, f func(d device.Device) error) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.lock.Unlock()
	return m.note(f(m.dev))
}

// giveBack is ask for what is given back. A device that is lost has done so.
func (m *machine) giveBack(f func(d device.Device) error) { _ = m.ask(context.Background(), f) }

// wait waits for all work that has been asked for.
func (m *machine) wait(ctx context.Context) error {
	var mark device.Event
	err := m.ask(ctx, func(d device.Device) (err error) {
		if mark, err = d.NewEvent(); err != nil {
			return err
		}
		return mark.Record()
	})
	if mark == nil {
		return err
	}
	if err == nil {
		err = m.note(mark.Wait(ctx))
	}
	m.giveBack(func(device.Device) error { return mark.Close() })
	return err
}

// alloc takes memory of the device. Where there is too little, what the collector finds unused is given back, and it is asked for again.
func (m *machine) alloc(ctx context.Context, what string, bytes int64) (device.Pointer, error) {
	var at device.Pointer
	err := m.withRoom(ctx, func(d device.Device) (err error) {
		at, err = d.Alloc(max(bytes, 1))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s of %d bytes: %w", what, bytes, err)
	}
	return at, nil
}

// withRoom is ask for what takes memory.
func (m *machine) withRoom(ctx context.Context, f func(d device.Device) error) error {
	err := m.ask(ctx, f)
	for pause := time.Millisecond; isFull(err) && pause < 100*time.Millisecond; pause *= 8 {
		collectGarbage(pause)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = m.ask(ctx, f)
	}
	return err
}

// isFull reports an error of memory that others may give back.
func isFull(err error) bool {
	var full *MemoryError
	return errors.As(err, &full) && (full.Host || full.Want <= full.Total)
}

// collectGarbage lets the collector's cleanups run, which give memory of the device back.
func collectGarbage(pause time.Duration) {
	done := make(chan struct{})
	runtime.AddCleanup(new(*byte), func(done chan struct{}) { close(done) }, done)
	runtime.GC()
	select {
	case <-done:
	case <-time.After(pause):
	}
	time.Sleep(pause) // cleanups run in no order
}

// kernel compiles a module, or finds what it has compiled.
func (m *machine) kernel(ctx context.Context, text, name string) (*emitted, error) {
	key := content(sha256.Sum256([]byte(text)))
	if e := find(m, m.emitted, key); e != nil {
		return e, nil
	}
	var mod device.Module
	var k device.Kernel
	err := m.withRoom(ctx, func(d device.Device) (err error) {
		if mod, err = d.Load(text); err != nil {
			return fmt.Errorf("compile an emitted kernel: %w", err)
		}
		if k, err = mod.Kernel(name); err != nil {
			return errors.Join(err, mod.Unload())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	e := &emitted{k}
	runtime.AddCleanup(e, func(mod device.Module) {
		collect(m, m.emitted, key)
		m.giveBack(func(device.Device) error { return mod.Unload() })
	}, mod)
	return share(m, m.emitted, key, e), nil
}

// find is what is held by its content, nil if nobody holds it.
func find[T any](m *machine, in map[content]weak.Pointer[T], key content) *T {
	m.known.Lock()
	defer m.known.Unlock()
	return in[key].Value()
}

// share gives others what was made, or gives what another has made at the same time.
func share[T any](m *machine, in map[content]weak.Pointer[T], key content, made *T) *T {
	m.known.Lock()
	defer m.known.Unlock()
	if x := in[key].Value(); x != nil {
		return x
	}
	in[key] = weak.Make(made)
	return made
}

// collect removes an entry that nobody holds; another may have taken its place.
func collect[T any](m *machine, from map[content]weak.Pointer[T], key content) {
	m.known.Lock()
	defer m.known.Unlock()
	if p, ok := from[key]; ok && p.Value() == nil {
		delete(from, key)
	}
}

// weight uploads a constant, or finds it.
func (m *machine) weight(ctx context.Context, c *ssa.Constant) (*weight, error) {
	a, err := c.ArrayIn(ndarray.BudgetOf(ctx))
	if err != nil {
		return nil, err
	}
	key := content(sha256.Sum256(a.Data))
	if w := find(m, m.weights, key); w != nil {
		return w, nil
	}
	at, err := m.alloc(ctx, "weights", int64(len(a.Data)))
	if err != nil {
		return nil, err
	}
	w := &weight{kernels.Operand{Base: at, Bytes: int64(len(a.Data))}}
	runtime.AddCleanup(w, func(at device.Pointer) {
		collect(m, m.weights, key)
		m.giveBack(func(d device.Device) error { return d.Free(at) })
	}, at)
	if err := m.ask(ctx, func(d device.Device) error { return d.CopyIn(at, a.Data) }); err != nil {
		return nil, err // the collector gives the memory back
	}
	return share(m, m.weights, key, w), nil
}

// arena is memory of the device for sessions that take turns, as large as the largest of them needs.
type arena struct {
	at       device.Pointer
	bytes    int64
	sessions int
}

// arenaOf joins the sessions that share an arena; shared is nil for an arena of one session.
func (m *machine) arenaOf(shared any) *arena {
	m.known.Lock()
	defer m.known.Unlock()
	a := m.arenas[shared]
	if a == nil {
		a = &arena{}
		if shared != nil {
			m.arenas[shared] = a
		}
	}
	a.sessions++
	return a
}

// leave ends a session's part in an arena, and gives the arena back with the last one.
func (m *machine) leave(a *arena, shared any) {
	m.known.Lock()
	a.sessions--
	isLast := a.sessions == 0
	if isLast && shared != nil {
		delete(m.arenas, shared)
	}
	m.known.Unlock()
	if isLast && a.at != 0 {
		m.giveBack(func(d device.Device) error { return d.Free(a.at) })
	}
}

// enlarge makes an arena large enough. What was in it is lost, and where it was may be another's; no session uses it.
func (m *machine) enlarge(ctx context.Context, a *arena, bytes int64) error {
	if a.at != 0 && a.bytes >= bytes {
		return nil
	}
	if a.at != 0 {
		if err := m.wait(ctx); err != nil { // for runs that their contexts have ended
			return err
		}
		if err := m.ask(ctx, func(d device.Device) error { return d.Free(a.at) }); err != nil {
			return err
		}
		a.at, a.bytes = 0, 0
	}
	at, err := m.alloc(ctx, "the arena", bytes)
	if err == nil {
		a.at, a.bytes = at, max(bytes, 1)
	}
	return err
}
