package cuda

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// moody is the interpreter with calls that fail, or do not return, when they are told to.
type moody struct {
	*sim.Device
	failing       error         // of Alloc and Load
	blocked, held chan struct{} // if not nil: a launch closes held, and waits for blocked
	block         func()        // if not nil: called once, by Alloc, Load or a wait for an event
	Uploads       atomic.Int64  // calls of CopyIn
}

func (d *moody) CopyIn(to device.Pointer, from []byte) error {
	d.Uploads.Add(1)
	return d.Device.CopyIn(to, from)
}

// pause calls block.
func (d *moody) pause() {
	if f := d.block; f != nil {
		d.block = nil
		f()
	}
}

func (d *moody) Alloc(bytes int64) (device.Pointer, error) {
	d.pause()
	if d.failing != nil {
		return 0, d.failing
	}
	return d.Device.Alloc(bytes)
}

func (d *moody) Load(text string) (device.Module, error) {
	d.pause()
	if d.failing != nil {
		return nil, d.failing
	}
	return d.Device.Load(text)
}

func (d *moody) NewEvent(isTimed bool) (device.Event, error) {
	e, err := d.Device.NewEvent(isTimed)
	return moodyEvent{e, d}, err
}

type moodyEvent struct {
	device.Event
	device *moody
}

func (e moodyEvent) Wait(ctx context.Context) error {
	if f := e.device.block; f != nil {
		e.device.block = nil
		done := make(chan struct{})
		go func() { f(); close(done) }()
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return e.Event.Wait(ctx)
}

func (d *moody) Launch(l *device.Launch) error {
	if d.held != nil {
		close(d.held)
		<-d.blocked
		d.held = nil
	}
	return d.Device.Launch(l)
}

// onMoody registers a backend of a name on a device of some bytes.
func onMoody(t *testing.T, bytes int64) (*moody, *machine) {
	d := &moody{Device: sim.New(sim.Options{Memory: bytes, Threads: 1})}
	m := &machine{open: func() (device.Device, error) { return d, nil }}
	backend.Register(t.Name(), func(fast backend.Backend) backend.Backend { return newOn(t.Name(), m, fast) })
	return d, m
}

func freeOf(t *testing.T, d *moody) int64 {
	t.Helper()
	n, _, err := d.Memory()
	require.NoError(t, err)
	return n
}

// programOn compiles a model for a test's backend.
func programOn(t *testing.T, m *berth.Model) *berth.Program {
	t.Helper()
	p, err := m.Compile(t.Context(), berth.WithBackend(t.Name()))
	require.NoError(t, err)
	return p
}

const large = `in %x: float32[64,64] %p = MatMul(%x, %x) %q = Softmax(%p) %y = MatMul(%q, %p) out %y`

// TestSharedArena: sessions that share an arena share its counterpart, which is as large as the largest needs; one that could not be
// enlarged is made when there is room.
func TestSharedArena(t *testing.T) {
	d, _ := onMoody(t, 1<<20)
	small, big := modelOf(t, onDeviceAlone), modelOf(t, large)
	p, q := programOn(t, small), programOn(t, big)
	before := freeOf(t, d)
	room := berth.NewArena()
	s, err := p.NewSessionIn(room)
	require.NoError(t, err)
	run := func() error {
		in := map[string]ndarray.Value{"x": wave(1, 4, 4)}
		got, err := s.RunValues(t.Context(), in)
		if err == nil {
			equal(t, small, in, got)
		}
		return err
	}
	for range 3 {
		require.NoError(t, run())
	}

	blocker, err := NewTensor(t.Context(), s, ndarray.Uint8, int(freeOf(t, d))-1<<10)
	require.NoError(t, err)
	var full *MemoryError
	_, err = q.NewSessionIn(room)
	require.ErrorAs(t, err, &full)
	for range 2 {
		require.ErrorAs(t, run(), &full, "the arena that the sessions share has grown")
	}
	require.NoError(t, blocker.Close())
	require.NoError(t, run())

	u, err := q.NewSessionIn(room)
	require.NoError(t, err)
	in := map[string]ndarray.Value{"x": wave(1, 64, 64)}
	for range 3 {
		got, err := u.RunValues(t.Context(), in)
		require.NoError(t, err)
		equal(t, big, in, got)
		require.NoError(t, run())
	}
	assert.Equal(t, room.Bytes(), s.DeviceMemory().(*memory).room.bytes)
	assert.Same(t, s.DeviceMemory().(*memory).room, u.DeviceMemory().(*memory).room)
	runtime.KeepAlive(u)
	u, s = nil, nil
	assert.Eventually(t, func() bool { runtime.GC(); return freeOf(t, d) == before }, 10*time.Second, time.Millisecond)
}

// TestUnusedMemory: memory of sessions that nobody has any more is no reason to refuse any.
func TestUnusedMemory(t *testing.T) {
	onMoody(t, 100<<10)
	p := programOn(t, modelOf(t, large))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range 5 {
		s, err := p.NewSession()
		require.NoError(t, err)
		_, err = s.RunValues(t.Context(), map[string]ndarray.Value{"x": wave(1, 64, 64)})
		require.NoError(t, err)
	}
}

// TestRoomBesideStuckCleanups: what is being given back is waited for although a cleanup of the caller's never returns.
func TestRoomBesideStuckCleanups(t *testing.T) {
	d, m := onMoody(t, 1<<20)
	p := programOn(t, modelOf(t, large))
	s, err := p.NewSession()
	require.NoError(t, err)
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	runtime.AddCleanup(new([64]int), func(int) { close(entered); <-release }, 1)
	runtime.GC()
	<-entered
	all, err := NewTensor(t.Context(), s, ndarray.Uint8, int(freeOf(t, d))-100)
	require.NoError(t, err)
	given := make(chan struct{})
	m.giveBack(func(device.Device) error { <-given; return nil })
	require.NoError(t, all.Close())
	time.AfterFunc(20*time.Millisecond, func() { close(given) })
	_, err = p.NewSession()
	require.NoError(t, err)
}

// TestKernelsHold: tables, weights and modules of a kernel go with it, and tell their size.
func TestKernelsHold(t *testing.T) {
	d, m := onMoody(t, 1<<20)
	e := newOn(t.Name(), m, nil)
	require.NoError(t, e.Ready(t.Context()))
	require.NoError(t, e.Load(t.Context(), 0, 0))
	before := freeOf(t, d)
	for _, c := range []struct {
		text          string
		weight, table int64 // bytes in the device's memory
		hasModule     bool
	}{
		{`in %x: float32[64] const %i: int64[5] = [3, 1, 4, 1, 5] %y = Gather(%x, %i) out %y`, 40, 0, false},
		{`in %x: float32[4,4] const %w: float32[4,4] = [1, 2, 3, 4, 0, 1, 0, 1, -1, 0, 2, 0, 1, 1, 1, 1] %y = MatMul(%x, %w) out %y`, 64, 0, false},
		{`in %x: float8e4m3fn[64] %y = Cast(%x) [to=1] out %y`, 0, 4 << 8, false},
		{`in %x: float32[64] %y = Exp(%x) out %y`, 0, 0, true},
	} {
		text := c.text
		g, err := ssa.ParseGraph("graph \"g\" {\n" + text + "\n}")
		require.NoError(t, err)
		require.NoError(t, ops.Infer(g.Nodes[0]))
		made, err := e.Prepare(t.Context(), g.Nodes[0], 1)
		require.NoError(t, err)
		require.IsType(t, &kernel{}, made.Kernel, text)
		assert.Equal(t, c.weight+c.table, before-freeOf(t, d), text)
		if c.hasModule {
			assert.Positive(t, made.Tables, text)
		} else {
			assert.Equal(t, c.table, made.Tables, text)
		}
		runtime.KeepAlive(made)
		made = backend.Prepared{}
		assert.Eventually(t, func() bool { runtime.GC(); return freeOf(t, d) == before }, 10*time.Second, time.Millisecond, text)
	}
	runtime.KeepAlive(e)
}

// TestFinalErrors: what a device lacks for shapes met while running ends the run, and is not computed by the host instead.
func TestFinalErrors(t *testing.T) {
	d, _ := onMoody(t, 1<<20)
	m := modelOf(t, `in %x: float32[n,4] const %w: float32[4,4] = [1, 2, 3, 4, 0, 1, 0, 1, -1, 0, 2, 0, 1, 1, 1, 1] %p = MatMul(%x, %w) %y = Softmax(%p) out %y`)
	s, err := programOn(t, m).NewSession()
	require.NoError(t, err)
	for _, failing := range []error{&MemoryError{Want: 1}, &device.CallError{Call: "cuModuleLoadDataEx", Code: 218}, errors.New("any other")} {
		in := map[string]ndarray.Value{"x": wave(1, 3, 4)}
		d.failing = failing
		_, err := s.RunValues(t.Context(), in)
		require.ErrorIs(t, err, failing)
		var at *berth.NodeError
		require.ErrorAs(t, err, &at)
		assert.Contains(t, at.Node, "MatMul")
	}
	d.failing = nil
	in := map[string]ndarray.Value{"x": wave(1, 3, 4)}
	got, err := s.RunValues(t.Context(), in)
	require.NoError(t, err)
	equal(t, m, in, got)
}

// TestLockedDevice: what another run asks of the device makes no run wait beyond its context.
func TestLockedDevice(t *testing.T) {
	d, _ := onMoody(t, 1<<20)
	m := modelOf(t, onDeviceAlone)
	p := programOn(t, m)
	s, err := p.NewSession()
	require.NoError(t, err)
	other, err := p.NewSession()
	require.NoError(t, err)
	x, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	in := map[string]ndarray.Value{"x": wave(1, 4, 4)}
	d.blocked, d.held = make(chan struct{}), make(chan struct{})
	held, done := d.held, make(chan error)
	go func() {
		_, err := other.RunValues(context.Background(), in)
		done <- err
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = s.RunValues(ctx, in)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, x.Set(ctx, wave(1, 4, 4)), context.DeadlineExceeded)
	close(d.blocked)
	require.NoError(t, <-done)
	_, err = s.RunValues(t.Context(), in)
	require.NoError(t, err)
}
