package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// values are inputs or buffers by name.
type values = map[string]ndarray.Value

const second = `in %y: float32[4,4] const %w: float32[4,4] = [1, 2, 3, 4, 0, 1, 0, 1, -1, 0, 2, 0, 1, 1, 1, 1] %p = MatMul(%y, %w) %u = Tanh(%p) out %u`

// TestChain: the result of one model is the input of the next; from the host come the first input and to it goes the last result.
func TestChain(t *testing.T) {
	d, machine := counting()
	first, next := modelOf(t, onDeviceAlone), modelOf(t, second)
	a, b := sessionOn(t, first, countingName), sessionOn(t, next, countingName)
	x, err := NewTensor(t.Context(), a, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	y, err := NewTensor(t.Context(), a, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	u, err := NewTensor(t.Context(), b, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	for run := range 4 {
		in := wave(run, 4, 4)
		require.NoError(t, x.Set(t.Context(), in))
		d.since()
		require.NoError(t, RunInto(t.Context(), a, values{"x": x}, values{"y": y}))
		require.NoError(t, RunInto(t.Context(), b, values{"y": y}, values{"u": u}))
		if did := d.since(); run > 1 {
			assert.Equal(t, calls{Graphs: 2, Waits: 2}, did)
		}
		for _, s := range []*berth.Session{a, b} {
			stats := s.DeviceMemory().(*memory).stats
			assert.Zero(t, stats.BytesIn+stats.BytesOut, "copied to or from the host: %s", stats.String())
			assert.EqualValues(t, 64, stats.BytesMoved, "the result")
		}
		got, err := y.Get(t.Context())
		require.NoError(t, err)
		equal(t, first, values{"x": in}, values{"y": got})
		last, err := u.Get(t.Context())
		require.NoError(t, err)
		equal(t, next, values{"y": got}, values{"u": last})
	}
	for _, tensor := range []*Tensor{x, y, u} {
		assert.Same(t, tensor, machine.tensor(tensor.shadow.Data))
		require.NoError(t, tensor.Close())
		assert.Nil(t, machine.tensor(tensor.shadow.Data))
	}
}

// TestTensorIsOwn: a result in a tensor is not changed by later runs that are not given it.
func TestTensorIsOwn(t *testing.T) {
	counting()
	m := modelOf(t, onDeviceAlone)
	s := sessionOn(t, m, countingName)
	y, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	z := ndarray.Must(ndarray.Float32, 4, 4)
	in := values{"x": wave(1, 4, 4)}
	require.NoError(t, RunInto(t.Context(), s, in, values{"y": y, "z": z}))
	require.NoError(t, RunInto(t.Context(), s, values{"x": wave(2, 4, 4)}, values{"z": ndarray.Must(ndarray.Float32, 4, 4)}))
	got, err := y.Get(t.Context())
	require.NoError(t, err)
	equal(t, m, in, values{"y": got, "z": z})
}

// TestTensorPaths: tensors that nodes on the host read, that are results as they are, twice, and inputs and results of one run.
func TestTensorPaths(t *testing.T) {
	tests := []struct{ name, graph string }{
		{"read on the host", withAnIsland},
		{"an input as a result", `in %x: float32[4,4] %y = Identity(%x) out %y`},
		{"a result twice", `in %x: float32[4,4] %a = Exp(%x) %y = Identity(%a) %z = Identity(%a) out %y, %z`},
		{"a view of an input", `in %x: float32[4,4] const %s: int64[2] = [4, 4] const %f: int64[1] = 16 %a = Reshape(%x, %f) %b = Neg(%a) %y = Reshape(%b, %s) out %y`},
		{"of a loop", `in %x: float32[4,4] const %n: int64[] = 3 %y = Loop(%n, _, %x) { body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4,4] %q = Neg(%p) out %c, %q } } out %y`},
		{"of unknown size", `in %x: float32[4,4] %n = NonZero(%x) %y = Cast(%n) [to=1] out %y`},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			counting()
			m := modelOf(t, c.graph)
			s := sessionOn(t, m, countingName)
			for run := range 3 {
				in := wave(run+1, 4, 4)
				want, err := m.RunValues(t.Context(), values{"x": in}, berth.WithBackend("reference"))
				require.NoError(t, err)
				x, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
				require.NoError(t, err)
				require.NoError(t, x.Set(t.Context(), in))
				buffers := values{}
				for name, v := range want {
					buffers[name], err = NewTensor(t.Context(), s, ndarray.Float32, v.(*ndarray.Array).Shape...)
					require.NoError(t, err)
				}
				require.NoError(t, RunInto(t.Context(), s, values{"x": x}, buffers))
				for name, b := range buffers {
					got, err := b.(*Tensor).Get(t.Context())
					require.NoError(t, err)
					equal(t, m, values{"x": in}, values{name: got})
				}
				if run == 2 && len(want) == 1 && slices.Equal(buffers["y"].(*Tensor).Shape(), x.Shape()) { // a state: the input becomes the result
					require.NoError(t, RunInto(t.Context(), s, values{"x": x}, values{"y": x}))
					got, err := x.Get(t.Context())
					require.NoError(t, err)
					equal(t, m, values{"x": in}, values{"y": got})
				}
			}
		})
	}
}

// TestTensorErrors: what cannot be, by its kind.
func TestTensorErrors(t *testing.T) {
	counting()
	elsewhere()
	m := modelOf(t, onDeviceAlone)
	s, other := sessionOn(t, m, countingName), sessionOn(t, m, elsewhereName)
	host := sessionOn(t, m, "cpu")
	make := func(s *berth.Session, dt ndarray.DType, shape ...int) *Tensor {
		x, err := NewTensor(t.Context(), s, dt, shape...)
		require.NoError(t, err)
		if dt == ndarray.Float32 {
			require.NoError(t, x.Set(t.Context(), ndarray.Must(dt, shape...)))
		}
		return x
	}
	x, y := make(s, ndarray.Float32, 4, 4), make(s, ndarray.Float32, 4, 4)
	closed := make(s, ndarray.Float32, 4, 4)
	require.NoError(t, closed.Close())
	empty := make(s, ndarray.Int32, 4)
	used := make(s, ndarray.Float32, 4, 4)
	require.NoError(t, used.claim("", true))
	read := make(s, ndarray.Float32, 4, 4)
	require.NoError(t, read.claim("", false))

	run := func(s *berth.Session, in, out ndarray.Value) error {
		return RunInto(t.Context(), s, values{"x": in}, values{"y": out})
	}
	_, noSession := NewTensor(t.Context(), nil, ndarray.Float32)
	_, onHost := NewTensor(t.Context(), host, ndarray.Float32, 4, 4)
	_, text := NewTensor(t.Context(), s, ndarray.String, 4)
	_, number := NewTensor(t.Context(), s, ndarray.DType(200), 4)
	_, negative := NewTensor(t.Context(), s, ndarray.Float32, 4, -1)
	_, noContext := NewTensor(nil, s, ndarray.Float32, 4)
	_, noValue := empty.Get(t.Context())
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no session", noSession, "does not run on a device"},
		{"a session on the host", onHost, "does not run on a device"},
		{"strings", text, "elements of type string"},
		{"no type", number, "elements of type dtype(200)"},
		{"a negative size", negative, "float32[4 -1]: "},
		{"no context", noContext, "the context is nil"},
		{"a run on the host", run(host, x, y), "does not run on a device"},
		{"another device", run(other, x, wave(1, 4, 4)), `for "x": it lies on another device`},
		{"a buffer on another device", run(s, x, make(other, ndarray.Float32, 4, 4)), `for "y": it lies on another device`},
		{"a closed one", run(s, closed, y), "it is closed"},
		{"a closed buffer", run(s, x, closed), "it is closed"},
		{"closed twice", closed.Close(), "it is closed"},
		{"no value", run(s, empty, y), `for "x": it has no value`},
		{"no value to get", noValue, "it has no value"},
		{"written by another", run(s, used, y), "another run or call is writing it"},
		{"a buffer that another reads", run(s, x, read), "another run or call is reading it"},
		{"set while another reads it", read.Set(t.Context(), wave(1, 4, 4)), "another run or call is reading it"},
		{"closed while another reads it", read.Close(), "another run or call is reading it"},
		{"a nil one", run(s, (*Tensor)(nil), y), "not made by NewTensor"},
		{"a zero one", run(s, &Tensor{}, y), "not made by NewTensor"},
		{"no array", run(s, x, &ndarray.Sequence{}), "got a sequence"},
		{"another shape", x.Set(t.Context(), ndarray.Must(ndarray.Float32, 16)), "it is float32[4,4], got float32[16]"},
		{"another type", x.Set(t.Context(), ndarray.Must(ndarray.Int32, 4, 4)), "got int32[4,4]"},
	} {
		var e *TensorError
		if assert.ErrorAs(t, c.err, &e, c.name) {
			assert.ErrorContains(t, c.err, c.want, c.name)
		}
	}
	var input *berth.InputError
	require.ErrorAs(t, run(s, make(s, ndarray.Float32, 4, 5), y), &input)
	_, err := s.RunValues(t.Context(), values{"x": x})
	require.ErrorAs(t, err, &input, "a tensor outside RunInto")
	_, err = m.RunValues(t.Context(), values{"x": x})
	require.ErrorAs(t, err, &input)
	var output *berth.OutputError
	require.ErrorAs(t, run(s, x, empty), &output)
	require.NoError(t, run(s, x, y), "tensors are free again after errors")
	var full *MemoryError
	_, err = NewTensor(t.Context(), s, ndarray.Float32, 1<<20, 1<<20)
	require.ErrorAs(t, err, &full)
}

// TestReaders: several runs and calls read a tensor at a time, on the device and on the host; who would write it is refused meanwhile.
func TestReaders(t *testing.T) {
	onMoody(t, 1<<20)
	on := t.Name()
	for name, text := range map[string]string{"on the device": onDeviceAlone, "on the host": withAnIsland, "as a result": `in %x: float32[4,4] %y = Identity(%x) out %y`} {
		t.Run(name, func(t *testing.T) {
			m := modelOf(t, text)
			var sessions [4]*berth.Session
			for i := range sessions {
				sessions[i] = sessionOn(t, m, on)
			}
			x, err := NewTensor(t.Context(), sessions[0], ndarray.Float32, 4, 4)
			require.NoError(t, err)
			for number := range 3 {
				in := wave(number, 4, 4)
				require.NoError(t, x.Set(t.Context(), in))
				want, err := m.RunValues(t.Context(), values{"x": in}, berth.WithBackend(on))
				require.NoError(t, err)
				require.NoError(t, x.claim("", false)) // so that it is read all the time
				var group sync.WaitGroup
				for _, s := range sessions {
					group.Go(func() {
						for range 5 {
							y := ndarray.Must(ndarray.Float32, want["y"].(*ndarray.Array).Shape...)
							assert.NoError(t, RunInto(t.Context(), s, values{"x": x}, values{"y": y}))
							assert.Equal(t, want["y"].(*ndarray.Array).Data, y.Data)
							got, err := x.Get(t.Context())
							if assert.NoError(t, err) {
								assert.Equal(t, in.Data, got.Data)
							}
							assert.Equal(t, []int{4, 4}, x.Shape())
						}
					})
				}
				group.Go(func() {
					for range 20 {
						var used *TensorError
						for _, err := range []error{x.Set(t.Context(), in), x.Close(), RunInto(t.Context(), sessions[0], values{"x": in}, values{"y": x})} {
							assert.ErrorAs(t, err, &used)
							assert.ErrorContains(t, err, "another run or call is reading it")
						}
					}
				})
				group.Wait()
				x.release()
			}
		})
	}
}

// TestAfterClose: a tensor stays as it is when the model is closed whose session it was made with.
func TestAfterClose(t *testing.T) {
	counting()
	g, err := ssa.ParseGraph("graph \"g\" {\n" + onDeviceAlone + "\n}")
	require.NoError(t, err)
	m := berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}})
	s := sessionOn(t, m, countingName)
	x, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	require.NoError(t, x.Set(t.Context(), wave(1, 4, 4)))
	require.NoError(t, m.Close())
	require.ErrorIs(t, RunInto(t.Context(), s, values{"x": x}, values{"y": x}), berth.ErrClosed)
	for _, number := range []int{1, 2} {
		got, err := x.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, wave(number, 4, 4).Data, got.Data)
		require.NoError(t, x.Set(t.Context(), wave(2, 4, 4)))
	}
	other := modelOf(t, onDeviceAlone)
	y := ndarray.Must(ndarray.Float32, 4, 4)
	require.NoError(t, RunInto(t.Context(), sessionOn(t, other, countingName), values{"x": x}, values{"y": y}))
	equal(t, other, values{"x": wave(2, 4, 4)}, values{"y": y})
	require.NoError(t, x.Close())
}

// TestRefused: a call that is refused leaves tensors as they are.
func TestRefused(t *testing.T) {
	counting()
	s := sessionOn(t, modelOf(t, onDeviceAlone), countingName)
	x, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	want := wave(1, 4, 4)
	require.NoError(t, x.Set(t.Context(), want))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var input *berth.InputError
	require.ErrorAs(t, RunInto(t.Context(), s, values{"x": wave(1, 4, 5)}, values{"y": x}), &input)
	require.ErrorAs(t, RunInto(t.Context(), s, values{"q": want}, values{"y": x}), &input)
	for _, buffers := range []values{{"y": x, "q": wave(1, 4, 4)}, {"y": x, "z": (*ndarray.Array)(nil)}, {"y": x, "z": x}, {"y": x, "z": wave(1, 4, 5)}} {
		var output *berth.OutputError
		require.ErrorAs(t, RunInto(t.Context(), s, values{"x": x}, buffers), &output)
	}
	other, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 5)
	require.NoError(t, err)
	require.Error(t, RunInto(t.Context(), s, values{"x": x}, values{"y": other}))
	require.ErrorIs(t, RunInto(over, s, values{"x": want}, values{"y": x}), context.Canceled)
	require.ErrorContains(t, RunInto(nil, s, values{"x": want}, values{"y": x}), "the context is nil")
	got, err := x.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want.Data, got.Data)
	assert.Equal(t, "float32[4,4]", fmt.Sprint(x))
	require.ErrorContains(t, s.RunInto(nil, values{"x": want}, nil), "the context is nil")
}

// TestOpenSizes: a tensor has room for the shape that it was made with, and the shape of what it was given last.
func TestOpenSizes(t *testing.T) {
	counting()
	first := modelOf(t, `in %x: float32[N,4] %y = Relu(%x) out %y`)
	second := modelOf(t, `in %x: float32[N,4] const %k: int64[1] = 2 %s = Tanh(%x) %v, %i = TopK(%x, %k) [axis=1] out %s, %v`)
	s, next := sessionOn(t, first, countingName), sessionOn(t, second, countingName)
	x, err := NewTensor(t.Context(), s, ndarray.Float32, 6, 4)
	require.NoError(t, err)
	for _, n := range []int{6, 2, 0, 4, 6, 1} {
		require.NoError(t, RunInto(t.Context(), s, values{"x": wave(n, n, 4)}, values{"y": x}))
		require.Equal(t, []int{n, 4}, x.Shape())
		got := values{"s": ndarray.Must(ndarray.Float32, n, 4), "v": ndarray.Must(ndarray.Float32, n, 2)}
		require.NoError(t, RunInto(t.Context(), next, values{"x": x}, got))
		relu, err := first.RunValues(t.Context(), values{"x": wave(n, n, 4)})
		require.NoError(t, err)
		equal(t, second, values{"x": relu["y"]}, got)
	}
	require.NoError(t, x.Set(t.Context(), wave(3, 6, 4)), "the shape that it was made with")
	require.NoError(t, x.Set(t.Context(), wave(4, 6, 4)))
	require.ErrorContains(t, x.Set(t.Context(), wave(4, 7, 4)), "it is float32[6,4]")
	got, err := x.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, wave(4, 6, 4).Data, got.Data)
	var output *berth.OutputError
	require.ErrorAs(t, RunInto(t.Context(), s, values{"x": wave(1, 7, 4)}, values{"y": x}), &output)
}

// ending is a context that ends, with a cause, when it has been looked at some times.
type ending struct {
	context.Context
	left atomic.Int64
	end  context.CancelCauseFunc
}

var errEnough = errors.New("enough")

func (c *ending) Err() error {
	if c.left.Add(-1) < 0 {
		c.end(errEnough)
	}
	return c.Context.Err()
}

// TestEndedAnywhere: wherever a context ends, the error has both that it did and why.
func TestEndedAnywhere(t *testing.T) {
	for _, name := range []string{countingName, promptName} {
		counting()
		prompt()
		s := sessionOn(t, modelOf(t, onDeviceAlone), name)
		x, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
		require.NoError(t, err)
		for looks, done := int64(0), false; !done; looks++ {
			require.Less(t, looks, int64(1000))
			inner, cancel := context.WithCancelCause(t.Context())
			ctx := &ending{Context: inner, end: cancel}
			for i, call := range []func() error{
				func() error { return x.Set(ctx, wave(1, 4, 4)) },
				func() error { return RunInto(ctx, s, values{"x": wave(1, 4, 4)}, values{"y": x}) },
				func() error { _, err := s.RunValues(ctx, values{"x": wave(1, 4, 4)}); return err },
				func() error { _, err := x.Get(ctx); return err },
			} {
				require.NoError(t, x.Set(t.Context(), wave(1, 4, 4)))
				if ctx.left.Store(looks); inner.Err() != nil {
					continue
				}
				if err := call(); err != nil {
					require.ErrorIs(t, err, context.Canceled, "call %d after %d looks: %v", i, looks, err)
					require.ErrorIs(t, err, errEnough, "call %d after %d looks: %v", i, looks, err)
				}
			}
			done = inner.Err() == nil
			cancel(nil)
		}
	}
}

// TestUnreachableTensor: the memory of a tensor that nobody has any more is given back.
func TestUnreachableTensor(t *testing.T) {
	d, machine := counting()
	s := sessionOn(t, modelOf(t, onDeviceAlone), countingName)
	free := func() int64 {
		machine.lock.Lock()
		defer machine.lock.Unlock()
		n, _, err := d.Memory()
		require.NoError(t, err)
		return n
	}
	before := free()
	func() {
		x, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
		require.NoError(t, err)
		require.NoError(t, x.Set(t.Context(), wave(1, 4, 4)))
		require.NoError(t, RunInto(t.Context(), s, values{"x": x}, nil))
	}()
	assert.Eventually(t, func() bool { runtime.GC(); return free() >= before }, 10*time.Second, time.Millisecond)
	require.NoError(t, RunInto(t.Context(), s, values{"x": wave(1, 4, 4)}, nil))
}
