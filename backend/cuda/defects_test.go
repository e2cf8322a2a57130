package cuda

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/sim"
	"github.com/berth-onnx/berth/ndarray"
)

// TestDefects plants defects in how sessions and tensors wait, by events that return before the work behind them is done, and expects the
// interpreter, which does work as late as a GPU may, to find them; without the defect it finds nothing. Edges of graphs that are left out are
// in TestMissingEdge, what kernels do wrong is in internal/ptx.
func TestDefects(t *testing.T) {
	d, m := counting()
	defer func() { d.isHasty.Store(false) }()
	type subject struct {
		s    *berth.Session
		x, y *Tensor
	}
	run := func(number int) func(t *testing.T, c *subject) error {
		return func(t *testing.T, c *subject) error {
			return RunInto(t.Context(), c.s, values{"x": wave(number, 4, 4)}, values{"y": c.y})
		}
	}
	setX := func(t *testing.T, c *subject) error { return c.x.Set(t.Context(), wave(3, 4, 4)) }
	setY := func(t *testing.T, c *subject) error { return c.y.Set(t.Context(), wave(4, 4, 4)) }
	get := func(t *testing.T, c *subject) error { _, err := c.y.Get(t.Context()); return err }
	const written, givenBack = "of the host are written before they have been copied to the device", "is given back before work is done that uses it"
	for _, c := range []struct {
		name   string
		before int // runs without the defect
		hasty  func(t *testing.T, c *subject) error
		then   []func(t *testing.T, c *subject) error
		want   string
	}{
		{"staging memory used again before the copy is done, piece by piece", 0, run(1), []func(t *testing.T, c *subject) error{run(2), get}, written},
		{"staging memory used again before the copy of a new graph is done", 1, run(1), []func(t *testing.T, c *subject) error{run(2), get}, written},
		{"staging memory used again before the copy of a graph is done", 2, run(1), []func(t *testing.T, c *subject) error{run(2), get}, written},
		{"staging memory of tensors used again before the copy is done", 0, setY, []func(t *testing.T, c *subject) error{setX, get}, written},
		{"a tensor given back before the copy is done", 0, setY, []func(t *testing.T, c *subject) error{func(t *testing.T, c *subject) error { return c.y.Close() }}, givenBack},
	} {
		for _, hasDefect := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				on := &subject{s: sessionOn(t, modelOf(t, onDeviceAlone), countingName)}
				var err error
				on.x, err = NewTensor(t.Context(), on.s, ndarray.Float32, 4, 4)
				require.NoError(t, err)
				on.y, err = NewTensor(t.Context(), on.s, ndarray.Float32, 4, 4)
				require.NoError(t, err)
				require.NoError(t, on.x.Set(t.Context(), wave(0, 4, 4)))
				for range c.before {
					require.NoError(t, run(0)(t, on))
				}
				require.NoError(t, m.returns.settle(t.Context()), "of others")
				d.isHasty.Store(hasDefect)
				require.NoError(t, c.hasty(t, on))
				d.isHasty.Store(false)
				for _, f := range c.then {
					if err = f(t, on); err != nil {
						break
					}
				}
				err = errors.Join(err, m.returns.settle(t.Context()))
				for m.wait(t.Context()) != nil {
					continue // what is left of the defect
				}
				if !hasDefect {
					require.NoError(t, err)
				} else if assert.Error(t, err) {
					assert.ErrorContains(t, err, c.want)
				}
			})
		}
	}
}

// shortDevice is the interpreter, of which one launch of several blocks has a block too few.
type shortDevice struct {
	*sim.Device
	launch, short int // those of several blocks so far; which one is short, -1: none
}

func (d *shortDevice) Launch(l *device.Launch) error {
	if l.Grid[0] > 1 {
		if d.launch == d.short {
			l.Grid[0]--
		}
		d.launch++
	}
	return d.Device.Launch(l)
}

// TestStaleMemory: a row of a result that no block writes is an error also where memory is used again, and has the bytes of an earlier tensor.
func TestStaleMemory(t *testing.T) {
	const name, launches = "cuda-test-stale", 4
	d := &shortDevice{Device: sim.New(sim.Options{})}
	m := &machine{open: func() (device.Device, error) { return d, nil }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, m, fast) })
	model := modelOf(t, `in %x: float32[8,8] %a = MatMul(%x, %x) %b = Softmax(%a) %c = MatMul(%b, %x) %d = Softmax(%c) %e = MatMul(%d, %d)
		%f = Softmax(%e) %g = MatMul(%f, %f) %y = Softmax(%g) out %y`)
	for short := -1; short < launches; short++ {
		d.launch, d.short = 0, short
		s := sessionOn(t, model, name)
		_, err := s.RunValues(t.Context(), values{"x": wave(1, 8, 8)})
		if short < 0 {
			require.NoError(t, err)
			require.Equal(t, launches, d.launch)
			continue
		}
		assert.ErrorContains(t, err, "nobody has written", "launch %d", short)
	}
}

// TestFreshInOrder: the value of a node of several launches begins where it is written, behind all that read the memory before. The first launch of the
// Resize writes workspace alone, and may run before the ReduceSum, whose operand lies where the Resize puts its result.
func TestFreshInOrder(t *testing.T) {
	m := modelOf(t, `in %x: float32[32,32] in %v: float32[1,1,8,8] const %s: float32[4] = [1, 1, 4, 4]
		%t = Softmax(%x) %u = ReduceSum(%t) %n = Resize(%v, _, %s) [mode="cubic"] %y = Add(%n, %u) out %y`)
	for range 5 {
		s := sessionOn(t, m, SimName)
		for i := range 20 {
			_, err := s.RunValues(t.Context(), values{"x": wave(1, 32, 32), "v": wave(1, 1, 1, 8, 8)})
			require.NoError(t, err, "run %d", i)
		}
	}
}
