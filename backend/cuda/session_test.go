package cuda

import (
	"context"
	"errors"
	"math"
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

// watched is a backend that tells of the memory of its last session.
type watched struct {
	*executor
	last **memory
}

func (w watched) Open(ctx context.Context, arena []byte, shared any, budget ndarray.Budget) (backend.Memory, error) {
	m, err := newMemory(ctx, w.machine, arena, shared, budget, w.limit)
	*w.last = m
	return m, err
}

// withMemory registers a device of some bytes and gives where its last session's memory will be.
func withMemory(name string, bytes int64) **memory {
	m := &machine{open: func() (device.Device, error) { return sim.New(sim.Options{Memory: bytes, Threads: 1}), nil }}
	last := new(*memory)
	backend.Register(name, func(fast backend.Backend) backend.Backend { return watched{newOn(name, m, fast), last} })
	return last
}

func inputsOf(m *berth.Model) map[string]ndarray.Value {
	in := map[string]ndarray.Value{}
	for _, p := range m.Inputs() {
		shape, _ := p.Type.Static()
		a := ndarray.Must(p.Type.DType, shape...)
		for i := range a.Len() {
			a.SetFloat(i, math.Sin(float64(i)))
		}
		if p.Type.DType == ndarray.Int64 {
			a.SetInt(0, 5)
		}
		in[p.Name] = a
	}
	return in
}

// TestLoop: carried values of a loop are not copied, on the device or to the host.
func TestLoop(t *testing.T) {
	last := withMemory("cuda-test-loop", 1<<30)
	mod, err := testmodels.Build("loop-conv")
	require.NoError(t, err)
	m := berth.FromModule(mod)
	defer m.Close()
	in := inputsOf(m)
	got, err := m.RunValues(t.Context(), in, berth.WithBackend("cuda-test-loop"))
	require.NoError(t, err)
	want, err := m.RunValues(t.Context(), in, berth.WithBackend("reference"))
	require.NoError(t, err)
	result := int64(0)
	for name, v := range want {
		w, g := v.(*ndarray.Array), got[name].(*ndarray.Array)
		require.Equal(t, w.Shape, g.Shape)
		for i := range w.Len() {
			require.InDelta(t, w.Float(i), g.Float(i), 1e-4*math.Max(1, math.Abs(w.Float(i))))
		}
		result += int64(len(w.Data))
	}
	s := (*last).stats
	assert.Zero(t, s.BytesMoved)
	assert.Positive(t, s.Launches)
	assert.LessOrEqual(t, s.BytesOut, result+64, "more than the results and conditions: %s", s.String())
}

// TestTooLittleMemory: the error says how much is needed.
func TestTooLittleMemory(t *testing.T) {
	withMemory("cuda-test-small", 1<<10)
	mod, err := testmodels.Build("loop-conv")
	require.NoError(t, err)
	m := berth.FromModule(mod)
	defer m.Close()
	_, err = m.RunValues(t.Context(), inputsOf(m), berth.WithBackend("cuda-test-small"))
	var full *MemoryError
	require.ErrorAs(t, err, &full)
	assert.Positive(t, full.Want)
	assert.EqualValues(t, 1<<10, full.Total)
}

// TestNoDevice: a GPU that is not there is an error of compiling, of a type of its own.
func TestNoDevice(t *testing.T) {
	mod, err := testmodels.Build("loop-conv")
	require.NoError(t, err)
	m := berth.FromModule(mod)
	defer m.Close()
	_, err = m.Compile(t.Context(), berth.WithBackend(Name), berth.WithDevice(1000))
	var driver *NoDriverError
	var old *OldDriverError
	var none *NoDeviceError
	assert.True(t, errors.As(err, &driver) || errors.As(err, &none) || errors.As(err, &old), "%v", err)
}
