//go:build linux && (amd64 || arm64) && !nocuda

package driver

import (
	"context"
	"errors"
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
	e, err := d.NewEvent()
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
		"cuEventCreate 0", "cuEventRecord 0x22 0x55", "cuEventSynchronize 0x22", "cuEventDestroy_v2 0x22"}, s.Since())
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

	from, err := d.NewEvent()
	require.NoError(t, err)
	to, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, from.Record())
	took, err := to.Since(from)
	require.NoError(t, err)
	assert.Equal(t, 1500*time.Microsecond, took)
	require.NoError(t, to.Close())
	require.NoError(t, m.Unload())
	require.NoError(t, d.Close())
	assert.Equal(t, []string{"cuEventCreate 0", "cuEventCreate 0", "cuEventRecord 0x22 0x55", "cuEventSynchronize 0x22", "cuEventElapsedTime 0x22 0x22",
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
		{"a context that fails", "cuDevicePrimaryCtxRetain", 2, needed, 1, 0, "cuDevicePrimaryCtxRetain gives 2: out of memory", true},
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
	fail("cuMemAllocHost_v2", outOfMemory)
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
	for _, call := range []string{"cuStreamGetCaptureInfo_v2", "cuStreamUpdateCaptureDependencies"} {
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
		assert.ErrorContains(t, err, call+" gives 900")
	}
	s.OK()
	_, err = d.Capture(func() error { return d.After([]int{0}) })
	assert.ErrorContains(t, err, "piece 0 of a graph of 0")

	s.OK()
	broken := errors.New("broken")
	_, err = d.Capture(func() error { return broken })
	require.ErrorIs(t, err, broken)
	assert.Equal(t, []string{"cuStreamBeginCapture_v2 0x55 1", "cuStreamEndCapture 0x55", "cuGraphDestroy 0x66"}, s.Since())
	assert.ErrorContains(t, d.Launch(&device.Launch{}), "not of this device")
}

// TestLost: after a fault of a kernel every call says that the GPU is lost, and the next Open has it again.
func TestLost(t *testing.T) {
	s := drivertest.Build(t)
	for code := range isLasting {
		if code < 700 {
			continue
		}
		d, err := Open(s.Library, 0)
		require.NoError(t, err)
		s.Reset("cuEventSynchronize", code, needed, 2)
		var lost *device.DeviceLostError
		require.ErrorAs(t, wait(t.Context(), d), &lost)
		assert.Equal(t, "Stub 40", lost.Device)
		s.OK()
		_, err = d.Alloc(8)
		require.ErrorAs(t, err, &lost, "a later call")
		require.ErrorAs(t, d.Close(), &lost)
		d, err = Open(s.Library, 0)
		require.NoError(t, err)
		require.NoError(t, wait(context.Background(), d))
		require.NoError(t, d.Close())
	}
}

// TestEndedWait: a wait that its context ends leaves nothing behind that hinders a capture, and the event can be closed.
func TestEndedWait(t *testing.T) {
	s := drivertest.Build(t)
	d, err := Open(s.Library, 0)
	require.NoError(t, err)
	e, err := d.NewEvent()
	require.NoError(t, err)
	require.NoError(t, e.Record())
	s.OK()
	s.Hold(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, e.Wait(ctx), context.DeadlineExceeded)
	g, err := d.Capture(func() error { return nil })
	require.NoError(t, err)
	require.NoError(t, g.Close())
	assert.NotContains(t, strings.Join(s.Since(), " "), "cuStreamSynchronize")
	s.Hold(0)
	require.NoError(t, e.Wait(t.Context()))
	require.NoError(t, e.Close())
}
