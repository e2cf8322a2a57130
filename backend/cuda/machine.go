package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/internal/digest"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// machine is a device that is open, with what programs share on it: kernels, weights and arenas. One at a time asks it for work. What may
// take the driver long is not done meanwhile: waiting for work, taking memory and giving it back, compiling kernels.
type machine struct {
	open func() (device.Device, error)

	launches  atomic.Int64                    // of all sessions
	lost      atomic.Pointer[DeviceLostError] // why nothing can be asked of the device any more
	lock      gate                            // of who asks for work
	measuring gate                            // of MeasureRuns
	isOpen    atomic.Bool
	dev       device.Device // nil until it is open
	set       *kernels.Set
	buffer    pinnedBuffer
	returns   returns

	sizesLock sync.Mutex
	sizes     map[device.Pointer]int64 // of all that is allocated; under sizesLock
	used      atomic.Int64             // the sum of them, and what is about to be; written under sizesLock

	known sync.Mutex // of what follows
	// Texts and constants are found by their digests: elements of a file that is closed may be followed by others at their address.
	emitted map[digest.Sum]weak.Pointer[emitted]
	weights map[digest.Sum]weak.Pointer[weight]
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

// emitted is a kernel on the device, for as long as a kernel of a program holds it.
type emitted struct{ kernel device.Kernel }

// weight is a constant on the device, for as long as a kernel of a program holds it. It has its elements when a program that reads it has
// been compiled: until then it is not known whether the program fits.
type weight struct {
	at       kernels.Operand
	loading  gate // of what follows
	isLoaded bool
	isLeft   *atomic.Bool // by an upload that its context has ended, and that may go on

	takers  int // programs that were given it, less those that were refused; under the machine's lock of what is known
	cleanup runtime.Cleanup
}

// ready opens the device at the first call, and at later ones where it could not be opened. Where ctx ends before, it is opened for the next.
func (m *machine) ready(ctx context.Context) error {
	if m.isOpen.Load() {
		return m.use(func(device.Device) error { return nil })
	}
	if err := m.enter(ctx); err != nil {
		return err
	}
	return until(ctx, func() error {
		defer m.lock.Unlock()
		if m.isOpen.Load() {
			return nil
		}
		return m.openNow()
	}, func(error) {})
}

// openNow opens the device, which is locked.
func (m *machine) openNow() error {
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
	m.emitted, m.weights = map[digest.Sum]weak.Pointer[emitted]{}, map[digest.Sum]weak.Pointer[weight]{}
	m.tensors, m.arenas = map[uintptr]weak.Pointer[Tensor]{}, map[any]*arena{}
	m.dev, m.set, m.sizes = dev, set, map[device.Pointer]int64{}
	m.isOpen.Store(true)
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

// ask locks the device to ask it for work.
func (m *machine) ask(ctx context.Context, f func(d device.Device) error) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.lock.Unlock()
	return m.note(f(m.dev))
}

// use makes calls that ask for no work, beside what others ask for.
func (m *machine) use(f func(d device.Device) error) error {
	if err := m.lost.Load(); err != nil {
		return err
	}
	return m.note(f(m.dev))
}

// call is use for a call that may take the driver long. Where ctx ends before it, the call goes on without the caller, and undo gives
// back what it has made.
func (m *machine) call(ctx context.Context, f func(d device.Device) error, undo func(d device.Device)) error {
	return until(ctx, func() error { return m.use(f) }, func(err error) {
		if err == nil {
			undo(m.dev)
		}
	})
}

// until calls f, and returns when ctx ends. Then f goes on, and late is called with its error.
func until(ctx context.Context, f func() error, late func(err error)) error {
	if ctx.Done() == nil {
		return f()
	}
	done := make(chan error)
	rescue.Go(func() {
		call := func() (err error) {
			defer rescue.Into(&err)
			return f()
		}
		err := call()
		select {
		case done <- err:
		case <-ctx.Done():
			late(err)
		}
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits for all work that has been asked for.
func (m *machine) wait(ctx context.Context) error {
	var mark device.Event
	err := m.use(func(d device.Device) (err error) {
		mark, err = d.NewEvent(false)
		return err
	})
	if err != nil {
		return err
	}
	if err = m.ask(ctx, func(device.Device) error { return mark.Record() }); err == nil {
		err = m.note(mark.Wait(ctx))
	}
	return errors.Join(err, m.use(func(device.Device) error { return mark.Close() }))
}

// alloc takes memory of the device, within a limit of all that is taken there; 0 is none. Where there is too little, what the collector
// finds unused is given back, and it is asked for again.
func (m *machine) alloc(ctx context.Context, what string, bytes, limit int64) (device.Pointer, error) {
	var at device.Pointer
	bytes = max(bytes, 1)
	err := m.withRoom(ctx, func(d device.Device) (err error) {
		if err := m.reserve(what, bytes, limit); err != nil {
			return err
		}
		at, err = d.Alloc(bytes)
		m.sizesLock.Lock()
		defer m.sizesLock.Unlock()
		if err != nil {
			m.used.Add(-bytes)
			return err
		}
		m.sizes[at] = bytes
		return nil
	}, func(d device.Device) { _ = m.free(d, at) })
	if err != nil {
		return 0, fmt.Errorf("%s of %d bytes: %w", what, bytes, err)
	}
	return at, nil
}

// reserve counts memory that is about to be taken, if the limit allows it.
func (m *machine) reserve(what string, bytes, limit int64) error {
	m.sizesLock.Lock()
	defer m.sizesLock.Unlock()
	if used := m.used.Load(); limit > 0 && bytes > limit-used {
		return &MemoryError{What: what, Want: bytes, Limit: limit, Used: used}
	}
	m.used.Add(bytes)
	return nil
}

// free gives back what alloc has taken.
func (m *machine) free(d device.Device, at device.Pointer) error {
	m.sizesLock.Lock()
	bytes := m.sizes[at]
	delete(m.sizes, at) // before the address is another's
	m.sizesLock.Unlock()
	err := d.Free(at)
	m.sizesLock.Lock()
	defer m.sizesLock.Unlock()
	m.used.Add(-bytes)
	return err
}

// mostCollections looks for memory to be given back: what a finalizer or a cleanup held is found unused by the collection after it.
const mostCollections = 3

// withRoom is call for what takes memory. Where there is too little, it is called again when what is being given back has been.
func (m *machine) withRoom(ctx context.Context, f func(d device.Device) error, undo func(d device.Device)) error {
	err := m.call(ctx, f, undo)
	wait := ctx
	if backend.IsBrief(ctx) && isFull(err) {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
	}
	// First what is being given back already, then what collections find.
	for asked, hasRun := 0, true; isFull(err) && asked <= mostCollections && hasRun; asked++ {
		if asked > 0 {
			hasRun = collectGarbage(wait)
		}
		failed := m.returns.settle(wait)
		if failed != nil {
			return errors.Join(err, failed)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		err = m.call(ctx, f, undo)
	}
	return err
}

// isFull reports an error of memory that others may give back.
func isFull(err error) bool {
	if err == nil {
		return false
	}
	var full *MemoryError // on the heap
	return errors.As(err, &full) && full.IsFull()
}

// cleanupTime bounds the wait for the cleanups of a collection, for a caller may have registered one that never returns.
const cleanupTime = time.Second / 4

// collectGarbage returns when the collector's cleanups have run, which give memory of the device back; it reports false if they
// take too long, or when ctx ends.
func collectGarbage(ctx context.Context) bool {
	collected := make(chan struct{})
	rescue.Go(func() { runtime.GC(); close(collected) })
	select {
	case <-collected:
	case <-ctx.Done():
		return false
	}
	counts := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"}}
	metrics.Read(counts)
	queued := counts[0].Value.Uint64()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(cleanupTime); counts[1].Value.Uint64() < queued; metrics.Read(counts) {
		select {
		case <-tick.C:
		case <-end:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// kernel compiles a module, or finds what it has compiled.
func (m *machine) kernel(ctx context.Context, text, name string) (*emitted, error) {
	key, err := digest.Of(ctx, []byte(text))
	if err != nil {
		return nil, err
	}
	if e := find(m, m.emitted, key); e != nil {
		return e, nil
	}
	var mod device.Module
	var k device.Kernel
	err = m.withRoom(ctx, func(d device.Device) (err error) {
		if mod, err = d.Load(text); err != nil {
			return fmt.Errorf("compile an emitted kernel: %w", err)
		}
		if k, err = mod.Kernel(name); err != nil {
			return errors.Join(err, mod.Unload())
		}
		return nil
	}, func(device.Device) { _ = mod.Unload() })
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
func find[T any](m *machine, in map[digest.Sum]weak.Pointer[T], key digest.Sum) *T {
	m.known.Lock()
	defer m.known.Unlock()
	return in[key].Value()
}

// share gives others what was made, or gives what another has made at the same time.
func share[T any](m *machine, in map[digest.Sum]weak.Pointer[T], key digest.Sum, made *T) *T {
	m.known.Lock()
	defer m.known.Unlock()
	if x := in[key].Value(); x != nil {
		return x
	}
	in[key] = weak.Make(made)
	return made
}

// collect removes an entry that nobody holds; another may have taken its place.
func collect[T any](m *machine, from map[digest.Sum]weak.Pointer[T], key digest.Sum) {
	m.known.Lock()
	defer m.known.Unlock()
	if p, ok := from[key]; ok && p.Value() == nil {
		delete(from, key)
	}
}

// weight finds a constant by its content, or takes memory for it.
func (m *machine) weight(ctx context.Context, key digest.Sum, bytes, limit int64) (*weight, error) {
	if w := m.taken(key, nil); w != nil {
		return w, nil
	}
	at, err := m.alloc(ctx, "weights", bytes, limit)
	if err != nil {
		return nil, err
	}
	left := &atomic.Bool{}
	w := &weight{at: kernels.Operand{Base: at, Bytes: bytes}, isLeft: left}
	w.cleanup = runtime.AddCleanup(w, func(at device.Pointer) {
		collect(m, m.weights, key)
		m.giveBackWhen(!left.Load(), func(d device.Device) error { return m.free(d, at) })
	}, at)
	return m.taken(key, w), nil
}

// taken is the weight of a content for one program more: the one that is known, or the one that was made, or nil.
func (m *machine) taken(key digest.Sum, made *weight) *weight {
	m.known.Lock()
	defer m.known.Unlock()
	w := m.weights[key].Value()
	if w == nil && made != nil {
		w = made
		m.weights[key] = weak.Make(made)
	}
	if w != nil {
		w.takers++
	}
	return w
}

// refuse gives back a weight that was taken for a program which is refused, unless another program has been given it. Nothing was uploaded to it.
func (m *machine) refuse(key digest.Sum, w *weight) {
	m.known.Lock()
	defer m.known.Unlock()
	if w.takers--; w.takers > 0 {
		return
	}
	delete(m.weights, key)
	w.cleanup.Stop()
	m.giveBack(func(d device.Device) error { return m.free(d, w.at.Base) })
}

// load has a weight on the device when it returns.
func (m *machine) load(ctx context.Context, w *weight, c *ssa.Constant) error {
	if err := w.loading.enter(ctx); err != nil {
		return err
	}
	defer w.loading.Unlock()
	if w.isLoaded {
		return nil
	}
	a, err := c.ArrayContext(ctx, ndarray.BudgetOf(ctx))
	if err != nil {
		return err
	}
	if err := m.upload(ctx, w.at.Base, a.Data); err != nil {
		w.isLeft.Store(true)
		return err
	}
	w.isLoaded = true
	return nil
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
		m.giveBack(func(d device.Device) error { return m.free(d, a.at) })
	}
}

// enlarge makes an arena large enough. What was in it is lost, and where it was may be another's; no session uses it but for runs that
// their contexts have ended.
func (m *machine) enlarge(ctx context.Context, a *arena, bytes, limit int64) error {
	if a.at != 0 && a.bytes >= bytes {
		return nil
	}
	if old := a.at; old != 0 {
		a.at, a.bytes = 0, 0
		m.giveBackWhen(false, func(d device.Device) error { return m.free(d, old) })
	}
	at, err := m.alloc(ctx, "the arena", bytes, limit)
	if err == nil {
		a.at, a.bytes = at, max(bytes, 1)
	}
	return err
}
