//go:build linux && (amd64 || arm64) && !nocuda

package driver

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/driver/drivertest"
)

// wait waits for all that a device has been asked for.
func wait(ctx context.Context, d device.Device) error {
	e, err := d.NewEvent(false)
	if err != nil {
		return err
	}
	err = errors.Join(e.Record(), e.Wait(ctx))
	return errors.Join(err, e.Close())
}

// TestCalls compares every call with its arguments, in order.
func TestCalls(t *testing.T) {
	s := drivertest.Build(t)
	d, err := Open(s.Library, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"cuDriverGetVersion", "cuInit 0", "cuDeviceGetCount", "cuDeviceGet 1", "cuDeviceGetName 41",
		"cuDevicePrimaryCtxRetain 41", "cuStreamCreate 1"}, s.Since())
	assert.Equal(t, device.Info{Name: "Stub 41", Major: 75, Minor: 76, Processors: 16, ClockKHz: 13, MemoryClockKHz: 36, MemoryBusBits: 37}, d.Info())

	p, err := d.Alloc(1 << 10)
	require.NoError(t, err)
	q, err := d.Alloc(1 << 10)
	require.NoError(t, err)
	host, err := d.AllocHost(100)
	require.NoError(t, err)
	require.Len(t, host, 100)
	s.OK()
	copy(host, "there and back")
	require.NoError(t, d.CopyIn(p, host))
	require.NoError(t, d.Copy(q, p, 100))
	back := make([]byte, 100)
	require.NoError(t, d.CopyOut(back, q))
	require.NoError(t, wait(context.Background(), d))
	assert.Equal(t, "there and back", string(back[:14]))
	assert.Equal(t, []string{"cuMemcpyHtoDAsync_v2 100 stream 0x55", "cuMemcpyDtoDAsync_v2 100 stream 0x55", "cuMemcpyDtoHAsync_v2 100 stream 0x55",
		"cuEventCreate 2", "cuEventRecord 0x22 0x55", "cuEventQuery 0x22", "cuEventDestroy_v2 0x22"}, s.Since())
	require.NoError(t, d.Zero(p, 14))
	require.NoError(t, d.CopyOut(back, p))
	assert.Equal(t, make([]byte, 14), back[:14])
	assert.Equal(t, "cuMemsetD8Async 0 14 stream 0x55", s.Since()[0])
	require.NoError(t, d.FreeHost(host))
	require.NoError(t, d.Free(p))
	require.NoError(t, d.Free(q))
	s.OK()

	m, err := d.Load("the PTX")
	require.NoError(t, err)
	k, err := m.Kernel("gemm")
	require.NoError(t, err)
	require.NoError(t, d.Launch(&device.Launch{Kernel: k, Grid: [3]int{1, 2, 3}, Block: [3]int{4, 5, 6}, Args: []byte{1, 2, 255}}))
	require.NoError(t, d.Launch(&device.Launch{Kernel: k, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}))
	assert.Equal(t, []string{"cuModuleLoadDataEx the PTX, 2 options 5 6", "cuModuleGetFunction 0x33 gemm", "args 01 02 ff as 1 2 0",
		"cuLaunchKernel 0x44 grid 1 2 3 block 4 5 6 shared 0 stream 0x55 params 0", "args as 1 2 0",
		"cuLaunchKernel 0x44 grid 1 1 1 block 1 1 1 shared 0 stream 0x55 params 0"}, s.Since())

	g, err := d.Capture(func() error {
		return d.Launch(&device.Launch{Kernel: k, Grid: [3]int{9, 1, 1}, Block: [3]int{8, 1, 1}})
	})
	require.NoError(t, err)
	require.NoError(t, g.Run(context.Background()))
	require.NoError(t, g.Close())
	assert.Equal(t, []string{"cuStreamBeginCapture_v2 0x55 1", "args as 1 2 0", "cuLaunchKernel 0x44 grid 9 1 1 block 8 1 1 shared 0 stream 0x55 params 0",
		"cuStreamEndCapture 0x55", "cuGraphInstantiateWithFlags 0x66 0", "cuGraphDestroy 0x66", "cuGraphLaunch 0x99 0x55", "cuGraphExecDestroy 0x99"}, s.Since())

	from, err := d.NewEvent(true)
	require.NoError(t, err)
	to, err := d.NewEvent(true)
	require.NoError(t, err)
	require.NoError(t, from.Record())
	took, err := to.Since(from)
	require.NoError(t, err)
	assert.Equal(t, 1500*time.Microsecond, took)
	require.NoError(t, to.Close())
	require.NoError(t, m.Unload())
	require.NoError(t, d.Close())
	assert.Equal(t, []string{"cuEventCreate 0", "cuEventCreate 0", "cuEventRecord 0x22 0x55", "cuEventElapsedTime 0x22 0x22",
		"cuEventDestroy_v2 0x22", "cuModuleUnload 0x33", "cuStreamDestroy_v2 0x55", "cuDevicePrimaryCtxRelease_v2 41"}, s.Since())
}

// TestOpenErrors: what keeps a device from being used, each with an error of its own.
func TestOpenErrors(t *testing.T) {
	_, err := Open("libcuda-that-nobody-has.so", 0)
	var none *device.NoDriverError
	require.ErrorAs(t, err, &none)
	assert.ErrorContains(t, err, "no NVIDIA driver: load libcuda-that-nobody-has.so")

	s := drivertest.Build(t)
	tests := []struct {
		name             string
		fail             string
		with             int32
		version, devices int32
		index            int
		want             string
		isLate           bool // Find does not meet it
	}{
		{"an old driver", "", 0, 11080, 1, 0, "the NVIDIA driver is for CUDA 11.8; version 12.1 or later is needed", false},
		{"no device", "cuInit", noDevice, needed, 0, 0, "finds no GPU", false},
		{"none visible", "", 0, needed, 0, 0, "finds no GPU", false},
		{"a number too high", "", 0, needed, 2, 2, "there is no GPU 2: the driver finds 0: Stub 40, 1: Stub 41", false},
		{"a number too low", "", 0, needed, 2, -1, "there is no GPU -1: the driver finds 0: Stub 40, 1: Stub 41", false},
		{"a driver that fails", "cuInit", 999, needed, 1, 0, "cuInit gives 999: some error", false},
		{"a context that fails", "cuDevicePrimaryCtxRetain", 2, needed, 1, 0, "out of device memory for a context of the driver (cuDevicePrimaryCtxRetain)", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s.Reset(test.fail, test.with, test.version, test.devices)
			_, err := Open(s.Library, test.index)
			require.ErrorContains(t, err, test.want)
			if err := Find(s.Library, test.index); test.isLate {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
	s.Reset("", 0, needed, 2)
	s.Major(6)
	_, err = Open(s.Library, 0)
	var weak *device.OldDeviceError
	require.ErrorAs(t, err, &weak)
	assert.Equal(t, device.OldDeviceError{Device: "Stub 40", Major: 6, Minor: 76}, *weak)
	_, err = Open(drivertest.Build(t, "-DWITHOUT_EVENTS").Library, 0)
	var old *device.OldDriverError
	require.ErrorAs(t, err, &old)
	assert.Equal(t, "cuEventDestroy_v2", old.Missing)
}

// TestFailures: calls that fail while a device is used.
func TestFailures(t *testing.T) {
	s := drivertest.Build(t)
	d, err := Open(s.Library, 0)
	require.NoError(t, err)
	fail := func(name string, code int32) { s.Reset(name, code, needed, 2) }

	fail("cuMemAlloc_v2", outOfMemory)
	_, err = d.Alloc(9999)
	var memory *device.MemoryError
	require.ErrorAs(t, err, &memory)
	assert.Equal(t, device.MemoryError{Want: 9999, Free: 1000, Total: 5000}, *memory)
	fail("cuMemHostRegister_v2", outOfMemory)
	_, err = d.AllocHost(777)
	require.ErrorAs(t, err, &memory)
	assert.Equal(t, device.MemoryError{Want: 777, Host: true}, *memory)

	fail("cuModuleLoadDataEx", 218)
	_, err = d.Load("nonsense")
	require.ErrorContains(t, err, "line 3: what is this?")
	s.OK()
	m, err := d.Load("good")
	require.NoError(t, err)
	fail("cuModuleGetFunction", 500)
	_, err = m.Kernel("nothing")
	require.ErrorContains(t, err, "kernel nothing: cuModuleGetFunction gives 500")
	s.OK()
	k, err := m.Kernel("gemm")
	require.NoError(t, err)

	launch := &device.Launch{Kernel: k, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}
	fail("cuLaunchKernel", 701)
	var failed *device.KernelError
	require.ErrorAs(t, d.Launch(launch), &failed)
	assert.Equal(t, "gemm", failed.Kernel)
	s.OK()
	require.NoError(t, d.Launch(launch))
	host, err := d.AllocHost(8)
	require.NoError(t, err)
	p, err := d.Alloc(8)
	require.NoError(t, err)
	for call, want := range map[string]string{"cuStreamGetCaptureInfo_v2": "cuStreamGetCaptureInfo_v2 gives 900",
		"cuStreamUpdateCaptureDependencies": "cuStreamUpdateCaptureDependencies gives 900", "status": "given up a graph that is captured (status 2)"} {
		s.OK()
		_, err = d.Capture(func() error {
			for _, after := range [][]int{nil, {0}} {
				if err := errors.Join(d.After(after), d.CopyIn(p, host)); err != nil {
					return err
				}
				fail(call, 900)
			}
			return nil
		})
		assert.ErrorContains(t, err, want)
	}
	s.OK()
	_, err = d.Capture(func() error { return d.After([]int{0}) })
	assert.ErrorContains(t, err, "piece 0 of a graph of 0")

	s.OK()
	broken := errors.New("broken")
	_, err = d.Capture(func() error { return broken })
	require.ErrorIs(t, err, broken)
	assert.Equal(t, []string{"cuStreamBeginCapture_v2 0x55 1", "cuStreamEndCapture 0x55", "cuGraphDestroy 0x66"}, s.Since())
	assert.Panics(t, func() { _, _ = d.Capture(func() error { panic("a defect") }) })
	assert.Equal(t, []string{"cuStreamBeginCapture_v2 0x55 1", "cuStreamEndCapture 0x55"}, s.Since(), "the stream takes nothing more for a graph")
	assert.ErrorContains(t, d.Launch(&device.Launch{}), "not of this device")
}

// TestLost: after a fault that lasts every call says that the GPU is lost, and the next Open has it again; after another the GPU is as it was.
func TestLost(t *testing.T) {
	s := drivertest.Build(t)
	for code := int32(1); code < 1000; code++ {
		name := lasting[code]
		if name == "" && code != 1 && code != 701 && code != 713 && code != 720 && code != 800 && code != 900 && code != 910 && code != 999 {
			continue
		}
		d, err := Open(s.Library, 0)
		require.NoError(t, err)
		s.Reset("cuEventQuery", code, needed, 2)
		err = wait(t.Context(), d)
		s.OK()
		if name == "" {
			var failed *device.CallError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, code, failed.Code)
			require.NoError(t, wait(t.Context(), d))
			require.NoError(t, d.Close())
			continue
		}
		var lost *device.DeviceLostError
		require.ErrorAs(t, err, &lost, name)
		assert.Equal(t, "Stub 40", lost.Device)
		_, err = d.Alloc(8)
		require.ErrorAs(t, err, &lost, "a later call")
		require.ErrorAs(t, d.Close(), &lost)
		d, err = Open(s.Library, 0)
		require.NoError(t, err)
		require.NoError(t, wait(context.Background(), d))
		require.NoError(t, d.Close())
	}
}

// TestTooLittleMemory: what the driver has too little memory for is an error of one type, with what is free.
func TestTooLittleMemory(t *testing.T) {
	s := drivertest.Build(t)
	d, err := Open(s.Library, 0)
	require.NoError(t, err)
	m, err := d.Load("the PTX")
	require.NoError(t, err)
	k, err := m.Kernel("gemm")
	require.NoError(t, err)
	launch := &device.Launch{Kernel: k, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}
	g, err := d.Capture(func() error { return d.Launch(launch) })
	require.NoError(t, err)
	for call, f := range map[string]func() error{
		"cuModuleLoadDataEx":          func() error { _, err := d.Load("the PTX"); return err },
		"cuModuleGetFunction":         func() error { _, err := m.Kernel("gemm"); return err },
		"cuLaunchKernel":              func() error { return d.Launch(launch) },
		"cuGraphInstantiateWithFlags": func() error { _, err := d.Capture(func() error { return d.Launch(launch) }); return err },
		"cuGraphLaunch":               func() error { return g.Run(t.Context()) },
		"cuEventCreate":               func() error { _, err := d.NewEvent(false); return err },
	} {
		s.Reset(call, outOfMemory, needed, 2)
		var full *device.MemoryError
		require.ErrorAs(t, f(), &full, call)
		assert.Equal(t, device.MemoryError{What: call, Free: 1000, Total: 5000}, *full)
		assert.ErrorContains(t, full, "out of device memory for "+call+"; 1000 of 5000 bytes are free")
		s.OK()
		require.NoError(t, f())
	}
}

// TestEndedWait: a wait that its context ends leaves nothing behind: no thread in the driver, nothing that hinders a capture or Close of the
// event.
func TestEndedWait(t *testing.T) {
	s := drivertest.Build(t)
	d, err := Open(s.Library, 0)
	require.NoError(t, err)
	e, err := d.NewEvent(false)
	require.NoError(t, err)
	require.NoError(t, e.Record())
	s.OK()
	s.Hold(1)
	before := runtime.NumGoroutine()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.ErrorIs(t, e.Wait(ctx), context.DeadlineExceeded)
		cancel()
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
	g, err := d.Capture(func() error { return nil })
	require.NoError(t, err)
	require.NoError(t, g.Close())
	other, err := d.NewEvent(false)
	require.NoError(t, err)
	require.NoError(t, other.Record())
	require.NoError(t, other.Close(), "before the work is done")
	for _, line := range s.Since() {
		assert.NotContains(t, line, "Synchronize")
	}
	s.Hold(0)
	require.NoError(t, e.Wait(t.Context()))
	require.NoError(t, e.Close())
}

// TestClose: a GPU is closed when the calls in progress have returned; memory of the host stays, and later calls say that the GPU is lost.
func TestClose(t *testing.T) {
	s := drivertest.Build(t)
	d, err := Open(s.Library, 0)
	require.NoError(t, err)
	host, err := d.AllocHost(5000)
	require.NoError(t, err)
	copy(host, "still there")
	p, err := d.Alloc(8)
	require.NoError(t, err)
	s.OK()
	s.Hold(1)
	freed, closed := make(chan error, 1), make(chan error, 1)
	go func() { freed <- d.Free(p) }()
	for !slices.Contains(strings.Split(s.Recorded(), "\n"), "cuMemFree_v2 ") {
		time.Sleep(time.Millisecond)
	}
	go func() { closed <- d.Close() }()
	select {
	case <-closed:
		assert.Fail(t, "closed while a call is in progress")
	case <-time.After(5 * time.Millisecond):
	}
	s.Hold(0)
	require.NoError(t, <-freed)
	require.NoError(t, <-closed)
	assert.Equal(t, []string{"cuMemFree_v2", "cuStreamDestroy_v2 0x55", "cuDevicePrimaryCtxRelease_v2 40"}, s.Since())
	assert.Equal(t, "still there", string(host[:11]))
	var lost *device.DeviceLostError
	require.ErrorAs(t, d.CopyIn(p, host), &lost)
	require.ErrorAs(t, d.FreeHost(host), &lost)
	require.ErrorAs(t, d.Close(), &lost)
	assert.Equal(t, []string{""}, s.Since(), "the driver is not asked")
}
