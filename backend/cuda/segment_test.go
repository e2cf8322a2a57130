package cuda

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// calls are what a device is asked for.
type calls struct{ Launches, Copies, Graphs, Captures, Waits, Allocations int }

// counted is the interpreter with its calls counted; what is asked for while a graph is captured is part of the graph.
type counted struct {
	*sim.Device
	lock      sync.Mutex // of calls, which what is given back makes, too
	calls     calls
	capturing atomic.Bool
	isDry     bool        // graphs do nothing, so that what is left is the work of the host
	isHasty   atomic.Bool // nothing is waited for
	onWait    func()
	Uploads   atomic.Int64 // calls of CopyIn
}

func (d *counted) add(n *int) {
	if !d.capturing.Load() {
		d.lock.Lock()
		defer d.lock.Unlock()
		*n++
	}
}

func (d *counted) Alloc(bytes int64) (device.Pointer, error) {
	d.add(&d.calls.Allocations)
	return d.Device.Alloc(bytes)
}

func (d *counted) AllocHost(bytes int64) ([]byte, error) {
	d.add(&d.calls.Allocations)
	return d.Device.AllocHost(bytes)
}

func (d *counted) CopyIn(to device.Pointer, from []byte) error {
	d.add(&d.calls.Copies)
	d.Uploads.Add(1)
	return d.Device.CopyIn(to, from)
}

func (d *counted) CopyOut(to []byte, from device.Pointer) error {
	d.add(&d.calls.Copies)
	return d.Device.CopyOut(to, from)
}

func (d *counted) Copy(to, from device.Pointer, bytes int64) error {
	d.add(&d.calls.Copies)
	return d.Device.Copy(to, from, bytes)
}

func (d *counted) Launch(l *device.Launch) error {
	d.add(&d.calls.Launches)
	return d.Device.Launch(l)
}

func (d *counted) NewEvent(isTimed bool) (device.Event, error) {
	e, err := d.Device.NewEvent(isTimed)
	return &countedEvent{e, d}, err
}

// Forget is no work of the host's.
func (d *counted) Forget(p device.Pointer, bytes int64) error {
	if d.isDry {
		return nil
	}
	return d.Device.Forget(p, bytes)
}

type countedEvent struct {
	device.Event
	device *counted
}

func (e *countedEvent) Wait(ctx context.Context) error {
	e.device.add(&e.device.calls.Waits)
	if e.device.onWait != nil {
		e.device.onWait()
	}
	if e.device.isHasty.Load() {
		return nil
	}
	return e.Event.Wait(ctx)
}

func (d *counted) Capture(ask func() error) (device.Graph, error) {
	d.add(&d.calls.Captures)
	d.capturing.Store(true)
	defer d.capturing.Store(false)
	g, err := d.Device.Capture(ask)
	return &countedGraph{g, d}, err
}

type countedGraph struct {
	device.Graph
	device *counted
}

func (g *countedGraph) Run(ctx context.Context) error {
	g.device.calls.Graphs++
	if g.device.isDry {
		return nil
	}
	return g.Graph.Run(ctx)
}

// since gives the calls since it was last called.
func (d *counted) since() calls {
	d.lock.Lock()
	defer d.lock.Unlock()
	c := d.calls
	d.calls = calls{}
	return c
}

// Backends on counted devices of their own; loading the kernels takes a while, so tests share them. The work of the first two is done
// when it is waited for, that of the third at once, so that what each piece of it takes is known.
const (
	countingName  = "cuda-test-counting"
	elsewhereName = "cuda-test-elsewhere"
	promptName    = "cuda-test-prompt"
)

var (
	counting  = sync.OnceValues(countedBackend(countingName, true))
	elsewhere = sync.OnceValues(countedBackend(elsewhereName, true))
	prompt    = sync.OnceValues(countedBackend(promptName, false))
)

// countedBackend registers a backend.
func countedBackend(name string, isLate bool) func() (*counted, *machine) {
	return func() (*counted, *machine) {
		d := &counted{Device: sim.New(sim.Options{Threads: 1, Late: isLate})}
		m := &machine{open: func() (device.Device, error) { return d, nil }}
		backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, m, fast) })
		return d, m
	}
}

// modelOf is a model in the text form of graphs.
func modelOf(t testing.TB, text string) *berth.Model {
	t.Helper()
	g, err := ssa.ParseGraph("graph \"g\" {\n" + text + "\n}")
	require.NoError(t, err)
	m := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// sessionOn is a session of a model on a backend.
func sessionOn(t testing.TB, m *berth.Model, name string) *berth.Session {
	t.Helper()
	p, err := m.Compile(t.Context(), berth.WithBackend(name))
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	return s
}

// wave is an input that differs by number.
func wave(number int, shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, math.Sin(float64(i+7*number)))
	}
	return a
}

// equal compares what a session gives with the reference kernels.
func equal(t *testing.T, m *berth.Model, in, got map[string]ndarray.Value) {
	t.Helper()
	want, err := m.RunValues(t.Context(), in, berth.WithBackend("reference"))
	require.NoError(t, err)
	for name, g := range got {
		w, g := want[name].(*ndarray.Array), g.(*ndarray.Array)
		require.Equal(t, w.Shape, g.Shape, name)
		for i := range w.Len() {
			require.InDelta(t, w.Float(i), g.Float(i), 1e-4*math.Max(1, math.Abs(w.Float(i))), "%s[%d]", name, i)
		}
	}
}

// onDeviceAlone has a kernel for every node, the other graph a node on the host between two on the device.
const (
	onDeviceAlone = `in %x: float32[4,4] %p = MatMul(%x, %x) %s = Softmax(%p) %y = MatMul(%s, %x) %z = Exp(%s) out %y, %z`
	withIndices   = `in %x: float32[4,4] %r = Relu(%x) %i = Cast(%r) [to=7] %g = Gather(%x, %i) %h = Gather(%g, %i) [axis=1] %y = Exp(%h) out %y`
	withAnIsland  = `in %x: float32[4,4] const %k: int64[1] = 3 %p = MatMul(%x, %x) %v, %i = TopK(%p, %k) [axis=1] %y = MatMul(%x, %v) out %y`
)

// TestRunIsOneGraph: when a run's segments have come once, a run is a launch of a graph and a wait for each of them, and nothing else.
func TestRunIsOneGraph(t *testing.T) {
	loop := func(condition string) string {
		return `in %x: float32[4,4] const %n: int64[] = 256 const %t: bool[] = true %y = Loop(%n, %t, %x) {
			body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4,4] const %k: float32[] = 0.75 const %most: float32[] = 1000
			%q = Mul(%p, %k) %r = Softmax(%q) ` + condition + ` } } out %y`
	}
	tests := []struct {
		name, graph string
		segments    int
	}{
		{"all on the device", onDeviceAlone, 1},
		{"indices that are noted", withIndices, 1},
		{"a node on the host", withAnIsland, 2},
		{"a loop of 256 iterations", loop("out %c, %r"), 1},
		{"a loop with a condition of the device", loop("%a = ReduceMax(%r) [keepdims=0] %d = Less(%a, %most) out %d, %r"), 256},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			d, _ := counting()
			m := modelOf(t, c.graph)
			s := sessionOn(t, m, countingName)
			for run := range 5 {
				in := map[string]ndarray.Value{"x": wave(run, 4, 4)}
				d.since()
				got, err := s.RunValues(t.Context(), in)
				require.NoError(t, err)
				equal(t, m, in, got)
				switch did := d.since(); run {
				case 0:
					assert.Equal(t, c.segments, did.Waits)
					assert.Positive(t, did.Launches)
				case 1:
				default:
					assert.Equal(t, calls{Graphs: c.segments, Waits: c.segments}, did, "run %d", run)
				}
				assert.Zero(t, s.DeviceMemory().(*memory).stats.BytesMoved)
			}
		})
	}
}

// TestBranchesAreGraphs: segments of the same addresses are known by their kernels; each branch of a condition becomes a graph.
func TestBranchesAreGraphs(t *testing.T) {
	d, _ := counting()
	m := modelOf(t, `in %x: float32[4,4] const %zero: float32[] = 0 %s = ReduceSum(%x) [keepdims=0] %c = Less(%s, %zero) %y = If(%c | %x) {
		then_branch: graph "a" { in %p: float32[4,4] %r = Relu(%p) out %r }
		else_branch: graph "b" { in %q: float32[4,4] %h = Tanh(%q) out %h } } out %y`)
	s := sessionOn(t, m, countingName)
	for run := range 8 {
		x := wave(run, 4, 4)
		x.SetFloat(0, []float64{50, -50}[run%2])
		in := map[string]ndarray.Value{"x": x}
		d.since()
		got, err := s.RunValues(t.Context(), in)
		require.NoError(t, err)
		equal(t, m, in, got)
		if did := d.since(); run >= 4 {
			assert.Equal(t, calls{Graphs: 2, Waits: 2}, did, "run %d", run)
		}
	}
}

// TestStagedOnce: an input may lie elsewhere in each run, and what the caller writes to it after a run changes nothing.
func TestStagedOnce(t *testing.T) {
	d, _ := counting()
	m := modelOf(t, onDeviceAlone)
	s := sessionOn(t, m, countingName)
	same := wave(1, 4, 4)
	for run := range 4 {
		in := map[string]ndarray.Value{"x": same}
		if run%2 == 1 {
			in["x"] = wave(run, 4, 4)
		}
		got, err := s.RunValues(t.Context(), in)
		require.NoError(t, err)
		equal(t, m, in, got)
		clear(in["x"].(*ndarray.Array).Data)
	}
	assert.Equal(t, 3, d.since().Graphs)
}

// TestManySegments: a session keeps so many segments, and forgets those that come no more.
func TestManySegments(t *testing.T) {
	r := recordings{}
	make := func(i int) *segment { return &segment{list: []work{{what: copiesInside, to: device.Pointer(i + 1)}}} }
	for run := range 3 {
		r.run++
		for i := range mostSegments + 10 {
			_, err := r.find(make(run*10000 + i))
			require.NoError(t, err)
			require.LessOrEqual(t, len(r.of), mostSegments)
			require.EqualValues(t, len(r.of)*pieceBytes, r.bytes)
		}
	}
	known, err := r.find(make(20000))
	require.NoError(t, err)
	assert.NotNil(t, known, "segments of older runs had to make room")
	assert.NotEqual(t, make(1).hash(), make(2).hash())
	large := &segment{}
	for i := range mostBytes/pieceBytes + 1 {
		large.list = append(large.list, work{to: device.Pointer(i)})
	}
	for range 2 {
		known, err = r.find(large)
		require.NoError(t, err)
		assert.Nil(t, known, fmt.Sprint(len(large.list), " pieces of work"))
	}
}

// TestEndedRun: a run that its context ends leaves the session usable.
func TestEndedRun(t *testing.T) {
	counting()
	m := modelOf(t, onDeviceAlone)
	s := sessionOn(t, m, countingName)
	for run := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		if run%2 == 0 {
			cancel()
		}
		in := map[string]ndarray.Value{"x": wave(run, 4, 4)}
		got, err := s.RunValues(ctx, in)
		if run%2 == 0 {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.NoError(t, err)
			equal(t, m, in, got)
		}
		cancel()
	}
}

// TestStagingBudget: memory for copies, and what stands for tensors, is asked of the program's budget.
func TestStagingBudget(t *testing.T) {
	counting()
	m := modelOf(t, onDeviceAlone)
	p, err := m.Compile(t.Context(), berth.WithBackend(countingName), berth.WithMaxMemory(1<<40))
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	mem := s.DeviceMemory().(*memory)
	assert.Equal(t, ndarray.Budget(1<<40), mem.budget)
	mem.budget = 1 << 10
	var full *berth.MemoryError
	_, err = s.RunValues(t.Context(), map[string]ndarray.Value{"x": wave(1, 4, 4)})
	require.ErrorAs(t, err, &full)
	assert.ErrorContains(t, err, "memory for copies to and from the device")
	_, err = NewTensor(t.Context(), s, ndarray.Float32, 1000)
	require.ErrorAs(t, err, &full)
	mem.budget = 0
	small, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	require.NoError(t, small.Set(t.Context(), wave(1, 4, 4)))
	_, err = small.Get(ndarray.Budget(10).In(t.Context()))
	require.ErrorAs(t, err, &full)
	require.NoError(t, small.Close())
}

// TestHaste: results that are read before they are there are others.
func TestHaste(t *testing.T) {
	d, m := counting()
	defer func() { d.isHasty.Store(false) }()
	model := modelOf(t, onDeviceAlone)
	for before := range 3 { // runs that wait
		s := sessionOn(t, model, countingName)
		run := func(number int) []byte {
			got, err := s.RunValues(t.Context(), map[string]ndarray.Value{"x": wave(number, 4, 4)})
			require.NoError(t, err)
			return slices.Clone(got["y"].(*ndarray.Array).Data)
		}
		for range before {
			run(1)
		}
		want := run(2)
		run(1)
		d.isHasty.Store(true)
		assert.NotEqual(t, want, run(2))
		d.isHasty.Store(false)
		require.NoError(t, m.wait(t.Context()))
	}
}

// narrowed is the interpreter with the launch of a number given less memory than it uses, counted in graphs that are captured.
type narrowed struct {
	*sim.Device
	launch, seen int
	capturing    bool
}

func (d *narrowed) Capture(ask func() error) (device.Graph, error) {
	d.capturing, d.seen = true, 0
	defer func() { d.capturing = false }()
	return d.Device.Capture(ask)
}

func (d *narrowed) Launch(l *device.Launch) error {
	if d.capturing {
		if d.seen == d.launch {
			for i := range l.Windows {
				l.Windows[i].Bytes = min(l.Windows[i].Bytes, 4)
			}
		}
		d.seen++
	}
	return d.Device.Launch(l)
}

// TestReplayErrors: a kernel that fails when a graph runs is named with its node, as it is outside of a graph.
func TestReplayErrors(t *testing.T) {
	const name = "cuda-test-narrowed"
	d := &narrowed{Device: sim.New(sim.Options{Threads: 1})}
	m := &machine{open: func() (device.Device, error) { return d, nil }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, m, fast) })
	inLoop := `in %x: float32[4,4] const %n: int64[] = 3 const %t: bool[] = true %y = Loop(%n, %t, %x) {
		body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4,4] %r = Softmax(%p) %q = MatMul(%r, %r) out %c, %q } } out %y`
	for _, c := range []struct {
		graph  string
		launch int
		node   string
		kernel string
	}{
		{onDeviceAlone, 0, "MatMul", "few"}, {onDeviceAlone, 1, "Softmax", "softmax"}, {onDeviceAlone, 2, "MatMul", "few"}, {onDeviceAlone, 3, "Exp", "fused"},
		{withAnIsland, 1, "MatMul", "few"}, {inLoop, 4, "Softmax", "softmax"}, {inLoop, 5, "MatMul", "few"},
	} {
		d.launch = c.launch
		if c.graph == withAnIsland {
			d.launch = 0 // of the first graph as of the second
		}
		s := sessionOn(t, modelOf(t, c.graph), name)
		var err error
		for run := 0; run < 2 && err == nil; run++ {
			_, err = s.RunValues(t.Context(), map[string]ndarray.Value{"x": wave(run, 4, 4)})
		}
		var at *berth.NodeError
		require.ErrorAs(t, err, &at)
		assert.Contains(t, at.Node, c.node)
		var failed *KernelError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, c.kernel, failed.Kernel)
	}
}

// longChain is a model of so many nodes, all on the device.
func longChain(nodes int) string {
	var text strings.Builder
	text.WriteString("in %x: float32[64]\n")
	from := "x"
	for i := range nodes {
		to := fmt.Sprintf("v%d", i)
		fmt.Fprintf(&text, "%%%s = Softmax(%%%s)\n", to, from)
		from = to
	}
	return text.String() + "out %" + from
}

// TestRunAllocates: a run into the caller's buffers takes no memory of the host either.
func TestRunAllocates(t *testing.T) {
	d, _ := counting()
	defer func() { d.isDry = false }()
	for _, c := range []struct {
		graph string
		in    *ndarray.Array
		out   string
		shape []int
	}{
		{longChain(20), wave(1, 64), "v19", []int{64}},
		{withIndices, wave(1, 4, 4), "y", []int{4, 4, 4, 4}},
	} {
		d.isDry = false
		s := sessionOn(t, modelOf(t, c.graph), countingName)
		in, out := map[string]ndarray.Value{"x": c.in}, map[string]*ndarray.Array{c.out: ndarray.Must(ndarray.Float32, c.shape...)}
		run := func() { require.NoError(t, s.RunInto(context.Background(), in, out)) }
		run()
		run()
		d.isDry = true
		assert.Zero(t, testing.AllocsPerRun(10, run))
	}
}

// BenchmarkHost is what a run of 500 nodes costs the host where the device costs nothing.
func BenchmarkHost(b *testing.B) {
	d, _ := counting()
	s := sessionOn(b, modelOf(b, longChain(500)), countingName)
	in, out := map[string]ndarray.Value{"x": wave(1, 64)}, map[string]*ndarray.Array{"v499": ndarray.Must(ndarray.Float32, 64)}
	for range 2 {
		require.NoError(b, s.RunInto(context.Background(), in, out))
	}
	d.isDry = true
	defer func() { d.isDry = false }()
	for b.Loop() {
		require.NoError(b, s.RunInto(context.Background(), in, out))
	}
}
