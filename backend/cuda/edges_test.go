package cuda

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/testmodels"
)

// TestEdges compares with a list of uses for each byte.
func TestEdges(t *testing.T) {
	const size, base = 64, 1000
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		var e edges
		var writer [size]int // 0: none, else the piece and 1
		var readers [size]map[int]bool
		for piece := range 25 {
			want := map[int]bool{}
			for range 1 + r.IntN(3) {
				lo := r.IntN(size)
				hi := lo + r.IntN(size-lo+1)
				if isWrite := r.IntN(2) == 0; isWrite {
					e.write(base+device.Pointer(lo), int64(hi-lo))
					for i := lo; i < hi; i++ {
						for reader := range readers[i] {
							want[reader] = true
						}
						if writer[i] > 0 {
							want[writer[i]-1] = true
						}
						writer[i], readers[i] = piece+1, nil
					}
					continue
				}
				e.read(base+device.Pointer(lo), int64(hi-lo))
				for i := lo; i < hi; i++ {
					if writer[i] > 0 {
						want[writer[i]-1] = true
					}
					if readers[i] == nil {
						readers[i] = map[int]bool{}
					}
					readers[i][piece] = true
				}
			}
			delete(want, piece)
			got := map[int]bool{}
			for _, p := range e.next() {
				got[p] = true
			}
			require.Equal(t, want, got, "seed %d, piece %d", seed, piece)
		}
	}
}

// watchedEdges is the interpreter with the edges of its graphs noted, and one of them left out.
type watchedEdges struct {
	*sim.Device
	waits  [][]int                // of the newest graph
	data   [][]int                // what its pieces would wait for if no memory were used again
	leave  [2]int                 // the piece and what it should wait for; -1: none
	writer map[device.Pointer]int // of 4 bytes, by their address
}

func (d *watchedEdges) Capture(ask func() error) (device.Graph, error) {
	d.waits, d.data, d.writer = nil, nil, map[device.Pointer]int{}
	defer func() { d.writer = nil }()
	return d.Device.Capture(ask)
}

// note notes what a piece of work of a graph reads and writes.
func (d *watchedEdges) note(windows ...device.Window) {
	if d.writer == nil {
		return
	}
	waits := map[int]bool{}
	each := func(w device.Window, is bool, f func(at device.Pointer)) {
		for at := w.Base &^ 3; is && at < w.Base+device.Pointer(w.Bytes); at += 4 {
			f(at)
		}
	}
	for _, w := range windows {
		each(w, w.IsRead, func(at device.Pointer) {
			if p, ok := d.writer[at]; ok {
				waits[p] = true
			}
		})
	}
	for _, w := range windows {
		each(w, w.IsWritten, func(at device.Pointer) { d.writer[at] = len(d.data) })
	}
	d.data = append(d.data, slices.Sorted(maps.Keys(waits)))
}

func (d *watchedEdges) Launch(l *device.Launch) error {
	d.note(l.Windows...)
	return d.Device.Launch(l)
}

func (d *watchedEdges) CopyIn(to device.Pointer, from []byte) error {
	d.note(device.Window{Base: to, Bytes: int64(len(from)), IsWritten: true})
	return d.Device.CopyIn(to, from)
}

func (d *watchedEdges) CopyOut(to []byte, from device.Pointer) error {
	d.note(device.Window{Base: from, Bytes: int64(len(to)), IsRead: true})
	return d.Device.CopyOut(to, from)
}

func (d *watchedEdges) Copy(to, from device.Pointer, bytes int64) error {
	d.note(device.Window{Base: from, Bytes: bytes, IsRead: true}, device.Window{Base: to, Bytes: bytes, IsWritten: true})
	return d.Device.Copy(to, from, bytes)
}

func (d *watchedEdges) After(pieces []int) error {
	pieces = slices.Clone(pieces)
	if d.leave[0] == len(d.waits) {
		pieces = slices.DeleteFunc(pieces, func(p int) bool { return p == d.leave[1] })
	}
	d.waits = append(d.waits, pieces)
	return d.Device.After(pieces)
}

// watchEdges registers a backend on such a device.
func watchEdges(name string, order uint64) *watchedEdges {
	d := &watchedEdges{Device: sim.New(sim.Options{Threads: 1, Order: order}), leave: [2]int{-1, -1}}
	m := &machine{open: func() (device.Device, error) { return d, nil }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, m, fast) })
	return d
}

// behind reports by pairs what waits for what, through others too.
func behind(waits [][]int) [][]bool {
	out := make([][]bool, len(waits))
	for i, list := range waits {
		out[i] = make([]bool, len(waits))
		for _, w := range list {
			out[i][w] = true
			for k, is := range out[w] {
				out[i][k] = out[i][k] || is
			}
		}
	}
	return out
}

// longest is how many pieces the longest chain of a graph has.
func longest(waits [][]int) int {
	of := make([]int, len(waits))
	for i, list := range waits {
		for _, w := range list {
			of[i] = max(of[i], of[w])
		}
		of[i]++
	}
	return slices.Max(of)
}

// branches has two branches of several nodes; without fusion, so that there are many edges.
const branches = `in %x: float32[4,4] %a = MatMul(%x, %x) %b = Softmax(%x) %c = MatMul(%a, %b) %d = Softmax(%a) %e = Softmax(%b) %f = MatMul(%e, %d)
	%g = Softmax(%f) %y = MatMul(%g, %c) out %y`

// TestMissingEdge: the interpreter refuses a graph that lacks any edge which no other path replaces, and goes through others in orders that their edges
// allow, so one that lacks none never gives an error or another result.
func TestMissingEdge(t *testing.T) {
	const name, runs = "cuda-test-missing", 60
	d := watchEdges(name, 1)
	for _, c := range []struct {
		name, graph string
		opts        []berth.Option
	}{
		{"one plan for the order", branches, nil},
		{"a plan for every order", branches, []berth.Option{berth.WithParallelSafe()}},
		{"a node on the host", withAnIsland, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := modelOf(t, c.graph)
			var in, want [5]map[string]ndarray.Value
			for k := range in {
				in[k] = map[string]ndarray.Value{"x": wave(k, 4, 4)}
				var err error
				want[k], err = m.RunValues(t.Context(), in[k], berth.WithBackend("reference"))
				require.NoError(t, err)
			}
			isCaught := func(leave [2]int) bool {
				d.leave = leave
				p, err := m.Compile(t.Context(), append([]berth.Option{berth.WithBackend(name)}, c.opts...)...)
				require.NoError(t, err)
				s, err := p.NewSession()
				require.NoError(t, err)
				for run := range runs {
					k := run % len(in)
					got, err := s.RunValues(t.Context(), in[k])
					if err != nil {
						return true
					}
					w, g := want[k]["y"].(*ndarray.Array), got["y"].(*ndarray.Array)
					for i := range w.Len() {
						if diff := w.Float(i) - g.Float(i); diff > 1e-4 || diff < -1e-4 {
							return true
						}
					}
				}
				return false
			}
			require.False(t, isCaught([2]int{-1, -1}))
			waits, tried := d.waits, 0
			for i, list := range waits {
				for _, w := range list {
					less := slices.Clone(waits)
					less[i] = slices.DeleteFunc(slices.Clone(list), func(p int) bool { return p == w })
					if !behind(less)[i][w] { // else another path replaces it
						tried++
						assert.True(t, isCaught([2]int{i, w}), "piece %d does not wait for %d", i, w)
					}
				}
			}
			assert.GreaterOrEqual(t, tried, 2)
		})
	}
}

// TestParallelEdges: in a plan for every order memory is used again only where the data has an edge anyway, so branches stay parallel that an
// ordinary plan puts behind each other.
func TestParallelEdges(t *testing.T) {
	const name = "cuda-test-parallel"
	d := watchEdges(name, 2)
	for _, model := range []string{"inception", "dense-block", "shared", "loop-conv", "lstm-loop", "loop-swap"} {
		t.Run(model, func(t *testing.T) {
			mod, err := testmodels.Build(model)
			require.NoError(t, err)
			m := berth.FromModule(mod)
			defer m.Close()
			in := inputsOf(m)
			want, err := m.RunValues(t.Context(), in, berth.WithBackend("reference"))
			require.NoError(t, err)
			graph := func(opts ...berth.Option) (waits, data [][]int) {
				p, err := m.Compile(t.Context(), append(opts, berth.WithBackend(name))...)
				require.NoError(t, err)
				s, err := p.NewSession()
				require.NoError(t, err)
				for range 3 {
					got, err := s.RunValues(context.Background(), in)
					require.NoError(t, err)
					for out, v := range want {
						w, g := v.(*ndarray.Array), got[out].(*ndarray.Array)
						for i := range w.Len() {
							require.InDelta(t, w.Float(i), g.Float(i), 1e-3, out)
						}
					}
				}
				return d.waits, d.data
			}
			safe, data := graph(berth.WithParallelSafe())
			assert.Equal(t, behind(data), behind(safe))
			ordinary, _ := graph()
			t.Logf("longest chain: %d of %d pieces in a plan for every order, %d of %d in an ordinary plan", longest(safe), len(safe), longest(ordinary), len(ordinary))
			if model == "inception" {
				assert.Less(t, longest(safe), longest(ordinary))
			}
		})
	}
}
