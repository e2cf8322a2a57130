package cuda

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/ndarray"
)

// withWeight has a weight of 64 bytes and an arena of 128 at most.
const withWeight = `in %x: float32[4,4] const %w: float32[4,4] = [1, 2, 3, 4, 0, 1, 0, 1, -1, 0, 2, 0, 1, 1, 1, 1] %p = MatMul(%x, %w) %q = Softmax(%p) %y = MatMul(%q, %w) out %y`

// TestDeviceMemory: a program that cannot fit is refused before anything is uploaded, with what it needs; sessions, programs and tensors
// count together, whatever limits they have.
func TestDeviceMemory(t *testing.T) {
	d, m := countedBackend(t.Name(), false)()
	model := modelOf(t, withWeight)
	uploads := d.Uploads.Load
	compile := func(limit int64) (*berth.Program, error) {
		return model.Compile(t.Context(), berth.WithBackend(t.Name()), berth.WithDeviceMemory(limit))
	}
	runtime.GC()
	before := uploads()
	var full *MemoryError
	for _, limit := range []int64{1, 63, 64, 150} {
		used := m.used.Load()
		_, err := compile(limit)
		require.ErrorAs(t, err, &full, "a limit of %d", limit)
		assert.EqualValues(t, 64, full.Weights)
		assert.Greater(t, full.Arena, int64(64))
		assert.Equal(t, full.Weights+full.Arena, full.Want)
		assert.Equal(t, limit, full.Limit)
		assert.Equal(t, used, full.Used, "the program's own weights are none of what others use")
		require.NoError(t, m.returns.settle(t.Context()))
		assert.Equal(t, used, m.used.Load(), "memory for weights is given back at once")
		assert.ErrorContains(t, err, "WithDeviceMemory, --device-memory")
		assert.ErrorContains(t, err, fmt.Sprintf("weights of 64, an arena of %d with %d of workspace in it", full.Arena, full.Workspace))
	}
	assert.Equal(t, before, uploads(), "nothing is uploaded of what cannot fit")

	others := m.used.Load()
	limit := others + full.Want + 64 // a session, with its input
	p, err := compile(limit)
	require.NoError(t, err)
	assert.Equal(t, before+1, uploads())
	s, err := p.NewSession()
	require.NoError(t, err)
	in := values{"x": wave(1, 4, 4)}
	got, err := s.RunValues(t.Context(), in)
	require.NoError(t, err)
	equal(t, model, in, got)
	_, err = p.NewSession()
	require.ErrorAs(t, err, &full)
	assert.Equal(t, []any{"the arena", limit}, []any{full.What, full.Limit})
	_, err = NewTensor(t.Context(), s, ndarray.Float32, 1000)
	require.ErrorAs(t, err, &full)
	assert.Equal(t, []any{"a tensor", int64(4000)}, []any{full.What, full.Want})
	free, err := sessionOn(t, model, t.Name()).RunValues(t.Context(), in)
	require.NoError(t, err, "a program without a limit")
	equal(t, model, in, free)
	stats, err := StatsOf(s)
	require.NoError(t, err)
	assert.Equal(t, m.used.Load(), stats.UsedBytes)
	assert.Greater(t, stats.UsedBytes, others)
	assert.Equal(t, full.Limit, limit)
	runtime.KeepAlive(p)
	p, s = nil, nil
	assert.Eventually(t, func() bool { runtime.GC(); return m.used.Load() <= others }, 10*time.Second, time.Millisecond, "what is given back counts no more")
}

// TestRunsWaitForRoom: a run waits for those in progress that have the memory it lacks, for a session or for its operands, until its context
// ends. Idle sessions of other programs are dropped. Sessions of NewSession are not waited for.
func TestRunsWaitForRoom(t *testing.T) {
	d, m := onMoody(t, 1<<20)
	model, in := modelOf(t, large), values{"x": wave(1, 64, 64)}
	compile := func(limit int64) *berth.Program {
		p, err := model.Compile(t.Context(), berth.WithBackend(t.Name()), berth.WithDeviceMemory(limit))
		require.NoError(t, err)
		return p
	}
	p := compile(1 << 20)
	before := m.used.Load()
	_, err := p.RunValues(t.Context(), in)
	require.NoError(t, err)
	session := m.used.Load() - before
	p.Trim()
	var full *MemoryError
	for name, limit := range map[string]int64{"for a session": before + session, "for operands": before + session + p.Plan().ArenaBytes} {
		t.Run(name, func(t *testing.T) {
			p, q := compile(limit), compile(limit)
			d.blocked, d.held = make(chan struct{}), make(chan struct{})
			held, done := d.held, make(chan error)
			run := func(p *berth.Program) {
				got, err := p.RunValues(context.Background(), in)
				if err == nil {
					equal(t, model, in, got)
				}
				done <- err
			}
			go run(p)
			<-held
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := q.RunValues(ctx, in)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			go run(p)
			go run(q)
			close(d.blocked)
			for range 3 {
				require.NoError(t, <-done)
			}
			for range 3 {
				for _, p := range []*berth.Program{p, q} {
					go func() {
						for range 3 {
							run(p)
						}
					}()
				}
				for range 6 {
					require.NoError(t, <-done)
				}
			}
			p.Trim()
			q.Trim()
			s, err := p.NewSession()
			require.NoError(t, err)
			_, err = s.RunValues(t.Context(), in)
			require.NoError(t, err)
			_, err = q.RunValues(context.Background(), in)
			require.ErrorAs(t, err, &full)
			runtime.KeepAlive(s)
		})
	}
}

// TestDeviceMemoryWhileRunning: weights of nodes whose shapes a run decides, and inputs, are within the limit too.
func TestDeviceMemoryWhileRunning(t *testing.T) {
	model := modelOf(t, `in %x: float32[n,4] const %w: float32[4,4] = [1, 2, 3, 4, 0, 1, 0, 1, -1, 0, 2, 0, 1, 1, 1, 1] %p = MatMul(%x, %w) %y = Softmax(%p) out %y`)
	in := values{"x": wave(1, 3, 4)}
	for _, room := range []int64{0, 70, 1 << 20} {
		t.Run(fmt.Sprintf("%d bytes", room), func(t *testing.T) {
			countedBackend(t.Name(), false)()
			p, err := model.Compile(t.Context(), berth.WithBackend(t.Name()), berth.WithDeviceMemory(64+room))
			require.NoError(t, err)
			got, err := p.RunValues(t.Context(), in)
			if room < 1<<20 {
				var full *MemoryError
				require.ErrorAs(t, err, &full)
				return
			}
			require.NoError(t, err)
			equal(t, model, in, got)
		})
	}
}

// TestTooLargeForTheDevice: what the device does not have is told before anything is uploaded, too.
func TestTooLargeForTheDevice(t *testing.T) {
	d, _ := onMoody(t, 120<<10)
	m := modelOf(t, `in %x: float32[128,128] const %w: float32[4,128] = [`+strings.Repeat("1, ", 511)+`1] %p = MatMul(%x, %x) %q = Softmax(%p) %r = MatMul(%q, %p) %y = MatMul(%w, %r) out %y`)
	before := d.Uploads.Load()
	_, err := m.Compile(t.Context(), berth.WithBackend(t.Name()))
	var full *MemoryError
	require.ErrorAs(t, err, &full)
	assert.Equal(t, []int64{4 * 512, 120 << 10, 0}, []int64{full.Weights, full.Total, full.Limit})
	assert.Equal(t, before, d.Uploads.Load())
}

// TestEvictedGraphs: where shapes change from run to run, the graphs of those that came last longest ago make room.
func TestEvictedGraphs(t *testing.T) {
	prompt()
	s := sessionOn(t, modelOf(t, `in %x: float32[n] %y = Softmax(%x) out %y`), promptName)
	for run := range mostSegments + 40 {
		_, err := s.RunValues(t.Context(), values{"x": wave(run, 1+run)})
		require.NoError(t, err)
	}
	stats, err := StatsOf(s)
	require.NoError(t, err)
	assert.Equal(t, mostSegments, stats.Graphs)
	assert.EqualValues(t, 40, stats.EvictedGraphs)
	assert.Positive(t, stats.StagingBytes)
	assert.Positive(t, stats.OperandBytes)
	assert.GreaterOrEqual(t, stats.GraphBytes, int64(mostSegments*pieceBytes))
	assert.LessOrEqual(t, stats.GraphBytes, int64(mostBytes))
	var none *TensorError
	_, err = StatsOf(nil)
	require.ErrorAs(t, err, &none)
}

// TestFullRecordings: recordings make room by their bytes, those of the oldest run first.
func TestFullRecordings(t *testing.T) {
	r := recordings{}
	k := &kernel{bytes: mostBytes/2 - pieceBytes} // two segments with it fit
	segment := func(i int) *segment { return &segment{list: []work{{what: launches, bytes: int64(i), kernel: k}}} }
	for i, c := range []struct{ run, segment, evicted int }{{1, 1, 0}, {1, 2, 0}, {1, 3, 0}, {2, 3, 0}, {3, 2, 0}, {4, 3, 1}, {9, 4, 2}, {9, 5, 3}} {
		r.run = int64(c.run)
		_, err := r.find(segment(c.segment))
		require.NoError(t, err)
		assert.LessOrEqual(t, r.bytes, int64(mostBytes), i)
		assert.EqualValues(t, c.evicted, r.evicted, "step %d", i)
	}
}

// TestErrorFields: the documentation of every error that another package defines has all of its fields.
func TestErrorFields(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, parser.ParseComments)
	require.NoError(t, err)
	docs := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			docs[spec.Name.Name] = spec.Doc.Text()
		}
		return true
	})
	types := []reflect.Type{reflect.TypeFor[NoDriverError](), reflect.TypeFor[OldDriverError](), reflect.TypeFor[NoDeviceError](), reflect.TypeFor[OldDeviceError](),
		reflect.TypeFor[MemoryError](), reflect.TypeFor[DeviceLostError](), reflect.TypeFor[KernelError]()}
	assert.Len(t, docs, len(types))
	for _, typ := range types {
		listed := regexp.MustCompile(`(?m)^\t`).FindAllString(docs[typ.Name()], -1)
		assert.Len(t, listed, typ.NumField(), typ.Name())
		for i := range typ.NumField() {
			f := typ.Field(i)
			assert.Regexp(t, fmt.Sprintf(`(?m)^\t%s +%s( |$)`, f.Name, regexp.QuoteMeta(f.Type.String())), docs[typ.Name()], typ.Name())
		}
	}
}

// TestBlockedDriver: a call of the driver that does not return ends for the caller with his context; what it makes later is given back.
func TestBlockedDriver(t *testing.T) {
	d, m := onMoody(t, 1<<20)
	model := modelOf(t, withWeight)
	s, err := programOn(t, model).NewSession()
	require.NoError(t, err)
	x, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	other := modelOf(t, `in %x: float32[4] const %w: float32[4] = [5, 6, 7, 8] %y = Max(%x, %w) out %y`)
	p := programOn(t, model)
	_, err = s.RunValues(t.Context(), values{"x": wave(1, 4, 4)})
	require.NoError(t, err)
	before := m.used.Load()
	for name, call := range map[string]func(ctx context.Context) error{
		"NewTensor": func(ctx context.Context) error { _, err := NewTensor(ctx, s, ndarray.Float32, 4, 4); return err },
		"Set":       func(ctx context.Context) error { return x.Set(ctx, wave(1, 4, 4)) },
		"RunValues": func(ctx context.Context) error { _, err := p.RunValues(ctx, values{"x": wave(1, 4, 4)}); return err }, // which makes a session
		"Compile":   func(ctx context.Context) error { _, err := other.Compile(ctx, berth.WithBackend(t.Name())); return err },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		blocked, held := make(chan struct{}), make(chan struct{})
		d.block = func() { close(held); <-blocked }
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		<-held
		if name != "Set" { // it waits for work, which others do not overtake on the interpreter
			_, err := s.RunValues(t.Context(), values{"x": wave(1, 4, 4)})
			require.NoError(t, err, "others run while %s is in the driver", name)
		}
		cancel(errEnough)
		err := <-done // while the driver is still in its call
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorIs(t, err, errEnough, name)
		close(blocked)
		require.NoError(t, x.Set(t.Context(), wave(1, 4, 4)), name)
	}
	assert.Eventually(t, func() bool { runtime.GC(); return m.used.Load() == before }, 10*time.Second, time.Millisecond)
	runtime.KeepAlive(p)
	runtime.KeepAlive(s)
	runtime.KeepAlive(x)
}

// TestOpeningEnds: opening a device, which takes the driver long, ends for the caller with his context, and is done for the next one.
func TestOpeningEnds(t *testing.T) {
	opening, open := make(chan struct{}), make(chan struct{})
	m := &machine{open: func() (device.Device, error) {
		close(opening)
		<-open
		return sim.New(sim.Options{}), nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.ready(ctx) }()
	<-opening
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	close(open)
	require.NoError(t, m.ready(t.Context()))
}

// TestSlowDriver: a call without a deadline waits for the driver, however long that takes.
func TestSlowDriver(t *testing.T) {
	d, _ := onMoody(t, 1<<20)
	p := programOn(t, modelOf(t, large))
	slow := func() { d.block = func() { time.Sleep(1200 * time.Millisecond) } }
	slow()
	_, err := p.NewSession()
	require.NoError(t, err)
	slow()
	_, err = p.RunValues(context.Background(), map[string]ndarray.Value{"x": wave(1, 64, 64)})
	require.NoError(t, err)
}

// TestSessionWaitsForNoDevice: a session for which there is no memory until the device has done its work is refused, not waited for.
func TestSessionWaitsForNoDevice(t *testing.T) {
	d, m := onMoody(t, 128<<10)
	p := programOn(t, modelOf(t, large))
	s, err := p.NewSession()
	require.NoError(t, err)
	x, err := NewTensor(t.Context(), s, ndarray.Uint8, int(freeOf(t, d)))
	require.NoError(t, err)
	work := make(chan struct{})
	for _, c := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return x.Set(ctx, ndarray.Must(ndarray.Uint8, x.Shape()...)) },
		func(context.Context) error { return x.Close() },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		waits := make(chan struct{})
		d.block = func() { close(waits); <-work }
		if err := c(ctx); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		<-waits
		cancel()
	}
	var full *MemoryError
	_, err = p.NewSession()
	require.ErrorAs(t, err, &full)
	close(work)
	require.NoError(t, m.returns.settle(t.Context()))
	_, err = p.NewSession()
	require.NoError(t, err)
	runtime.KeepAlive(s)
}
