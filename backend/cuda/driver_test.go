//go:build linux && (amd64 || arm64)

package cuda

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/driver"
	"github.com/berth-onnx/berth/backend/cuda/internal/driver/drivertest"
	"github.com/berth-onnx/berth/ndarray"
)

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
	later := []string{"cuGraphLaunch 0x99 0x55", "cuStreamSynchronize 0x55"}

	first := calls()
	assert.Equal(t, append(append([]string{"cuMemAlloc_v2 64", "cuMemAllocHost_v2 65536"}, work...), "cuStreamSynchronize 0x55"), first)
	second := append(append([]string{"cuStreamBeginCapture_v2 0x55 1"}, work...), "cuStreamEndCapture 0x55", "cuGraphInstantiateWithFlags 0x66 0", "cuGraphDestroy 0x66")
	assert.Equal(t, append(second, later...), calls())
	for range 3 {
		assert.Equal(t, later, calls())
	}
}
