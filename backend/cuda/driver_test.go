//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/driver"
	"github.com/berth-onnx/berth/backend/cuda/internal/driver/drivertest"
	"github.com/berth-onnx/berth/ndarray"
)

// TestDriverProfile: times are those between events behind every piece of work, and limits those of the clocks that the driver tells.
func TestDriverProfile(t *testing.T) {
	stub := drivertest.Build(t)
	const name = "cuda-test-driver-profile"
	m := &machine{open: func() (device.Device, error) { return driver.Open(stub.Library, 0) }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, m, fast) })
	s := sessionOn(t, modelOf(t, onDeviceAlone), name)
	stub.OK()
	p, err := MeasureRuns(t.Context(), s, []ndarray.Value{wave(1, 4, 4)}, 3)
	require.NoError(t, err)
	assert.Equal(t, "Stub 40", p.Device)
	assert.Equal(t, []Limits{{"Stub 40", 16 * 128 * 2 * 13e3, 2 * 36e3 * 37 / 8, 16 * 4 * 13e3}}, p.Limits)
	const one = 1500 * time.Microsecond // between any two events of the stub
	assert.Equal(t, []ProfileRow{
		{Kernel: "copy from the device", IsCopy: true, IsHost: true, Launches: 2, Bytes: 128, Time: 2 * one},
		{Kernel: "few", Launches: 2, Operations: 2 * 2 * 4 * 4 * 4, Bytes: 2 * 3 * 64, Time: 2 * one},
		{Kernel: "copy to the device", IsCopy: true, IsHost: true, Launches: 1, Bytes: 64, Time: one},
		{Kernel: "fused", Launches: 1, Operations: 16, Bytes: 128, Time: one},
		{Kernel: "softmax", Launches: 1, Operations: 80, Bytes: 128, Time: one},
	}, p.Rows)
	made := map[string]int{}
	for _, line := range stub.Since() {
		call, _, _ := strings.Cut(line, " ")
		made[call]++
	}
	assert.Equal(t, 3*8, made["cuEventCreate"])
	assert.Equal(t, 3*8+3, made["cuEventRecord"], "and one behind each segment")
	assert.Equal(t, 3*8, made["cuEventDestroy_v2"])
	assert.Zero(t, made["cuGraphLaunch"])
}

// TestDriverCalls: what a session asks the driver for, in its order, in the first run, the second and later ones.
func TestDriverCalls(t *testing.T) {
	stub := drivertest.Build(t)
	const name = "cuda-test-driver"
	m := &machine{open: func() (device.Device, error) { return driver.Open(stub.Library, 0) }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, m, fast) })
	s := sessionOn(t, modelOf(t, onDeviceAlone), name)
	calls := func() []string {
		stub.OK()
		_, err := s.RunValues(t.Context(), map[string]ndarray.Value{"x": wave(1, 4, 4)})
		require.NoError(t, err)
		var names []string
		for _, line := range stub.Since() {
			if !strings.HasPrefix(line, "args ") { // they are those of the next line
				names = append(names, line)
			}
		}
		return names
	}
	const in, out = "cuMemcpyHtoDAsync_v2 64 stream 0x55", "cuMemcpyDtoHAsync_v2 64 stream 0x55"
	work := []string{in, "cuLaunchKernel 0x44 grid 1 1 1 block 256 1 1 shared 0 stream 0x55 params 0",
		"cuLaunchKernel 0x44 grid 4 1 1 block 128 1 1 shared 0 stream 0x55 params 0",
		"cuLaunchKernel 0x44 grid 1 1 1 block 256 1 1 shared 0 stream 0x55 params 0",
		"cuLaunchKernel 0x44 grid 1 1 1 block 256 1 1 shared 0 stream 0x55 params 0", out, out}
	wait := []string{"cuEventRecord 0x22 0x55", "cuEventQuery 0x22"}
	later := append([]string{"cuGraphLaunch 0x99 0x55"}, wait...)

	first := calls()
	assert.Equal(t, slices.Concat([]string{"cuMemAlloc_v2 64", "cuMemHostRegister_v2 65536 0"}, work, wait), first)
	second := []string{"cuStreamBeginCapture_v2 0x55 1"}
	for i, after := range []string{ // the last kernel writes over what the one before it reads
		"after", "after 0x1000", "after 0x1001", "after 0x1000 0x1002", "after 0x1002 0x1003", "after 0x1003", "after 0x1004"} {
		second = append(second, after, work[i])
	}
	second = append(second, "after 0x1005 0x1006", "cuStreamEndCapture 0x55", "cuGraphInstantiateWithFlags 0x66 0", "cuGraphDestroy 0x66")
	assert.Equal(t, append(second, later...), calls())
	for range 3 {
		assert.Equal(t, later, calls())
	}

}

// TestLost: after a fault of a kernel sessions, programs and tensors say at once that the GPU is lost; what is compiled later runs.
func TestLost(t *testing.T) {
	stub := drivertest.Build(t)
	const name = "cuda-test-lost"
	gpus := &slot{open: func() (device.Device, error) { return driver.Open(stub.Library, 0) }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, gpus.machine(), fast) })
	m := modelOf(t, onDeviceAlone)
	in := map[string]ndarray.Value{"x": wave(1, 4, 4)}
	for _, c := range []struct {
		call string
		code int32
		runs int // before it
	}{{"cuEventQuery", 700, 2}, {"cuGraphLaunch", 715, 2}, {"cuLaunchKernel", 719, 0}, {"cuMemcpyHtoDAsync_v2", 716, 0}} {
		stub.OK()
		p, err := m.Compile(t.Context(), berth.WithBackend(name))
		require.NoError(t, err)
		s, err := p.NewSession()
		require.NoError(t, err)
		other := sessionOn(t, m, name)
		x, err := NewTensor(t.Context(), s, ndarray.Float32, 4, 4)
		require.NoError(t, err)
		for range c.runs {
			_, err = s.RunValues(t.Context(), in)
			require.NoError(t, err)
		}
		stub.Reset(c.call, c.code, drivertest.Version, 2)
		_, err = s.RunValues(t.Context(), in)
		var lost *DeviceLostError
		require.ErrorAs(t, err, &lost, c.call)
		assert.ErrorContains(t, err, c.call+" gives "+fmt.Sprint(c.code))
		if c.runs > 0 { // the driver does not tell which kernel has failed
			var failed *KernelError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, "few, fused or one between them", failed.Kernel)
			assert.ErrorContains(t, err, "one of the nodes from MatMul")
			assert.ErrorContains(t, err, "to Exp")
		}
		stub.OK()
		for _, old := range []*berth.Session{s, other} {
			_, err = old.RunValues(t.Context(), in)
			require.ErrorAs(t, err, &lost)
		}
		_, err = p.NewSession()
		require.ErrorAs(t, err, &lost)
		require.ErrorAs(t, x.Set(t.Context(), wave(1, 4, 4)), &lost)
		require.ErrorAs(t, x.Close(), &lost)
		assert.Equal(t, []string{""}, stub.Since(), "the driver is not asked")
		_, err = sessionOn(t, m, name).RunValues(t.Context(), in)
		require.NoError(t, err, "a program that is compiled later")
	}
	more := map[string]ndarray.Value{"x": wave(2, 4, 4)}
	_, err := m.RunValues(t.Context(), in, berth.WithBackend(name), berth.WithThreads(2))
	require.NoError(t, err)
	stub.Reset("cuLaunchKernel", 719, drivertest.Version, 2)
	_, err = m.RunValues(t.Context(), in, berth.WithBackend(name))
	var lost *DeviceLostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, 1, strings.Count(err.Error(), "is lost"), "%v", err)
	stub.OK()
	for range 2 {
		_, err = m.RunValues(t.Context(), more, berth.WithBackend(name))
		require.NoError(t, err, "programs that the model keeps are compiled again")
		_, err = m.RunValues(t.Context(), in, berth.WithBackend(name), berth.WithThreads(2))
		require.NoError(t, err, "those of other options, too")
	}
}

// TestDevices: a GPU is chosen by its number; one that is not there is an error before all work, which lists those that are, and leaves nothing.
func TestDevices(t *testing.T) {
	stub := drivertest.Build(t)
	const name = "cuda-test-devices"
	all := &gpus{library: stub.Library}
	backend.Register(name, all.newOnFirst)
	m := modelOf(t, onDeviceAlone)
	known := func() (n int) {
		all.slots.Range(func(any, any) bool { n++; return true })
		return n
	}
	_, err := m.Compile(t.Context(), berth.WithBackend(name))
	require.NoError(t, err)
	for _, index := range []int{-1, 2, 1 << 20, math.MaxInt, math.MinInt} {
		_, err := m.Compile(t.Context(), berth.WithBackend(name), berth.WithDevice(index))
		var option *berth.OptionError
		require.ErrorAs(t, err, &option)
		assert.Equal(t, []string{"WithDevice", fmt.Sprint(index)}, []string{option.Option, option.Got})
		var none *NoDeviceError
		require.ErrorAs(t, err, &none)
		assert.Equal(t, NoDeviceError{Index: index, Devices: []string{"Stub 40", "Stub 41"}}, *none)
		assert.ErrorContains(t, err, "0: Stub 40, 1: Stub 41")
	}
	assert.Equal(t, 1, known(), "only the first is kept")
	p, err := m.Compile(t.Context(), berth.WithBackend(name), berth.WithDevice(1), berth.WithDevice(1))
	require.NoError(t, err)
	assert.Equal(t, 2, known())
	s, err := p.NewSession()
	require.NoError(t, err)
	profile, err := MeasureRuns(t.Context(), s, []ndarray.Value{wave(1, 4, 4)}, 1)
	require.NoError(t, err)
	assert.Equal(t, "Stub 41", profile.Device)
	var none *NoDeviceError
	_, err = m.Compile(t.Context(), berth.WithBackend(SimName), berth.WithDevice(1))
	require.ErrorAs(t, err, &none)
	assert.Equal(t, []string{SimName}, none.Devices)
	var missing *NoDriverError
	backend.Register(name, (&gpus{library: "libcuda-that-nobody-has.so"}).newOnFirst)
	for _, index := range []int{0, 1} {
		_, err = m.Compile(t.Context(), berth.WithBackend(name), berth.WithDevice(index))
		require.ErrorAs(t, err, &missing)
	}
}

// TestWaits: while a session waits for the device others ask for work, and record graphs; and a run that ends early hinders nobody.
func TestWaits(t *testing.T) {
	stub := drivertest.Build(t)
	const name = "cuda-test-waits"
	m := &machine{open: func() (device.Device, error) { return driver.Open(stub.Library, 0) }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, m, fast) })
	model := modelOf(t, onDeviceAlone)
	in := map[string]ndarray.Value{"x": wave(1, 4, 4)}
	a, b := sessionOn(t, model, name), sessionOn(t, model, name)
	_, err := b.RunValues(t.Context(), in)
	require.NoError(t, err)
	stub.Hold(1)
	for _, s := range []*berth.Session{a, b} { // b records a graph
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = s.RunValues(ctx, in)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	x, err := NewTensor(t.Context(), a, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, x.Set(ctx, wave(1, 4, 4)), context.DeadlineExceeded)
	require.NoError(t, x.Close(), "which waits for no work")
	y, err := NewTensor(t.Context(), a, ndarray.Float32, 4, 4)
	require.NoError(t, err)
	require.NoError(t, m.ask(t.Context(), func(device.Device) error { return nil }), "nobody holds the device")
	before := runtime.NumGoroutine()
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err = a.RunValues(ctx, in)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, y.Set(ctx, wave(1, 4, 4)), context.DeadlineExceeded)
		cancel()
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before, "calls that have ended leave nobody waiting")
	stub.Hold(0)
	for _, s := range []*berth.Session{a, b} {
		_, err = s.RunValues(t.Context(), in)
		require.NoError(t, err)
	}
	require.NoError(t, m.returns.settle(t.Context()))
}

// TestFullGraphs: where the driver has no memory for a graph, those of other segments make room, and where that is not enough the work is
// asked for piece by piece.
func TestFullGraphs(t *testing.T) {
	stub := drivertest.Build(t)
	const name = "cuda-test-full-graphs"
	m := &machine{open: func() (device.Device, error) { return driver.Open(stub.Library, 0) }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, m, fast) })
	s := sessionOn(t, modelOf(t, `in %x: float32[n] %y = Softmax(%x) out %y`), name)
	run := func(n int) map[string]int {
		_, err := s.RunValues(t.Context(), values{"x": wave(1, n)})
		require.NoError(t, err)
		made := map[string]int{}
		for _, line := range stub.Since() {
			call, _, _ := strings.Cut(line, " ")
			made[call]++
		}
		return made
	}
	for i, call := range []string{"cuGraphInstantiateWithFlags", "cuGraphLaunch"} {
		n := 5 + i
		for range 3 {
			run(4)
			run(8)
		}
		require.Equal(t, 1, run(4)["cuGraphLaunch"])
		require.Equal(t, 1, run(n)["cuLaunchKernel"])
		stub.Reset(call, 2, drivertest.Version, 2)
		made := run(n)
		assert.Equal(t, 2, made[call], "it is tried again")
		assert.Equal(t, 2+2*i, made["cuGraphExecDestroy"], "the graphs of 4, 8 and 5 elements, and the one that is not launched")
		assert.GreaterOrEqual(t, made["cuLaunchKernel"], 2, "captured, and asked for")
		stub.Reset(call, 2, drivertest.Version, 2)
		made = run(n)
		assert.Equal(t, []int{1, 0}, []int{made["cuLaunchKernel"], made[call]}, "it comes as for the first time")
		assert.Equal(t, 1, run(n)["cuGraphLaunch"], "when there is memory again")
	}
}

// TestOpenAgainWhileRunning: a GPU that is lost is opened again under a run that is in progress, which ends with the error of the loss.
func TestOpenAgainWhileRunning(t *testing.T) {
	stub := drivertest.Build(t)
	const name = "cuda-test-open-again"
	gpus := &slot{open: func() (device.Device, error) { return driver.Open(stub.Library, 0) }}
	backend.Register(name, func(fast backend.Backend) backend.Backend { return newOn(name, gpus.machine(), fast) })
	m := modelOf(t, onDeviceAlone)
	in := values{"x": wave(1, 4, 4)}
	s, other := sessionOn(t, m, name), sessionOn(t, m, name)
	_, err := s.RunValues(t.Context(), in)
	require.NoError(t, err)
	stub.Hold(1)
	done := make(chan error, 1)
	go func() { _, err := s.RunValues(context.Background(), in); done <- err }()
	mem := s.DeviceMemory().(*memory)
	for !strings.Contains(stub.Recorded(), "cuEventRecord") {
		time.Sleep(time.Millisecond)
	}
	stub.Reset("cuMemcpyHtoDAsync_v2", 226, drivertest.Version, 2)
	_, err = other.RunValues(t.Context(), in)
	var lost *DeviceLostError
	require.ErrorAs(t, err, &lost)
	stub.OK()
	again, err := m.Compile(t.Context(), berth.WithBackend(name))
	require.NoError(t, err)
	for _, chunk := range mem.staging { // which the run reads and writes
		for i := range chunk {
			chunk[i]++
		}
	}
	require.ErrorAs(t, <-done, &lost)
	stub.Hold(0)
	_, err = again.RunValues(t.Context(), in)
	require.NoError(t, err)
}

// TestOpensAgain: what kept a device from being opened may be over at the next call.
func TestOpensAgain(t *testing.T) {
	stub := drivertest.Build(t)
	m := &machine{open: func() (device.Device, error) { return driver.Open(stub.Library, 0) }}
	for _, call := range []string{"cuInit", "cuModuleLoadDataEx", "cuModuleGetFunction"} {
		stub.Reset(call, 2, drivertest.Version, 2)
		require.Error(t, m.ready(t.Context()))
		made := strings.Join(stub.Since(), "\n")
		assert.Equal(t, strings.Count(made, "cuDevicePrimaryCtxRetain"), strings.Count(made, "cuDevicePrimaryCtxRelease"), call)
	}
	stub.OK()
	require.NoError(t, m.ready(t.Context()))
}
