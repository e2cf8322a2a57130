package sim

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/internal/ptx"
)

const elements = 300

// setup allocates x, y and z and prepares z = 2x + y.
func setup(t *testing.T) (d *Device, x, y, z device.Pointer, launch *device.Launch) {
	t.Helper()
	text, err := os.ReadFile("../../../../internal/ptx/testdata/basic.ptx")
	require.NoError(t, err)
	d = New(Options{Memory: 1 << 20})
	m, err := d.Load(string(text))
	require.NoError(t, err)
	k, err := m.Kernel("saxpy")
	require.NoError(t, err)
	assert.Equal(t, "saxpy", k.Name())
	for _, p := range []*device.Pointer{&x, &y, &z} {
		*p, err = d.Alloc(4 * elements)
		require.NoError(t, err)
	}
	var args []byte
	for _, p := range []device.Pointer{x, y, z} {
		args = binary.LittleEndian.AppendUint64(args, uint64(p))
	}
	args = binary.LittleEndian.AppendUint32(args, math.Float32bits(2))
	args = binary.LittleEndian.AppendUint32(args, elements)
	return d, x, y, z, &device.Launch{Kernel: k, Grid: [3]int{3, 1, 1}, Block: [3]int{128, 1, 1}, Args: args, Windows: []device.Window{
		{Name: "x", Base: x, Bytes: 4 * elements, IsRead: true}, {Name: "y", Base: y, Bytes: 4 * elements, IsRead: true},
		{Name: "z", Base: z, Bytes: 4 * elements, IsWritten: true}}}
}

func ramp(scale float32) (out []byte) {
	for i := range elements {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(scale*float32(i)))
	}
	return out
}

func TestGraph(t *testing.T) {
	d, x, y, z, launch := setup(t)
	in, err := d.AllocHost(4 * elements)
	require.NoError(t, err)
	out, err := d.AllocHost(4 * elements)
	require.NoError(t, err)
	require.NoError(t, d.CopyIn(y, ramp(1)))
	g, err := d.Capture(func() error {
		require.NoError(t, d.CopyIn(x, in))
		require.NoError(t, d.Launch(launch))
		return d.CopyOut(out, z)
	})
	require.NoError(t, err)
	assert.Empty(t, d.Counts(), "a captured launch has run")
	for run := 1; run <= 3; run++ {
		copy(in, ramp(float32(run)))
		require.NoError(t, g.Run(context.Background()))
		assert.Equal(t, ramp(float32(2*run+1)), out)
	}
	assert.EqualValues(t, 3*2*elements, d.Counts()["saxpy"].Flops)
	require.NoError(t, g.Close())
}

func TestErrors(t *testing.T) {
	d, x, y, z, launch := setup(t)
	var failed *device.KernelError
	require.NoError(t, d.CopyIn(x, ramp(1)))
	err := d.Launch(launch)
	require.ErrorAs(t, err, &failed)
	var report *ptx.Report
	require.ErrorAs(t, err, &report)
	assert.Equal(t, ptx.Uninitialized, report.Kind, "y has not been written")

	require.NoError(t, d.CopyIn(y, ramp(1)))
	assert.ErrorContains(t, d.CopyOut(make([]byte, 8), device.Pointer(1)), "lie in no allocation")
	require.NoError(t, d.Forget(z, 4*elements))
	assert.ErrorContains(t, d.CopyOut(make([]byte, 8), z), "nobody has written byte 0")
	require.NoError(t, d.Launch(launch))
	launch.Windows[2].Bytes -= 4
	require.ErrorAs(t, d.Launch(launch), &report)
	assert.Equal(t, ptx.OutOfBounds, report.Kind)
	assert.Contains(t, report.Detail, "window z")

	_, err = d.Alloc(1 << 20)
	var memory *device.MemoryError
	require.ErrorAs(t, err, &memory)
	assert.EqualValues(t, 1<<20-3*4*elements, memory.Free)
	require.NoError(t, d.Free(z))
	require.Error(t, d.Free(z))
	_, err = d.Load(".version 8.1 nonsense")
	var syntax *ptx.SyntaxError
	require.ErrorAs(t, err, &syntax)
}

// TestCopyInside copies a part of an allocation.
func TestCopyInside(t *testing.T) {
	d, x, y, _, _ := setup(t)
	require.NoError(t, d.CopyIn(x, ramp(1)))
	require.NoError(t, d.Copy(y+8, x+40, 16))
	got := make([]byte, 16)
	require.NoError(t, d.CopyOut(got, y+8))
	assert.Equal(t, ramp(1)[40:56], got)
	assert.ErrorContains(t, d.CopyOut(got, y+12), "nobody has written byte 12")
	require.Error(t, d.Copy(y, x+1192, 16))
}
