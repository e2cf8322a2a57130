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

// TestUnordered: a graph is refused in which two pieces may touch the same bytes at the same time, one of them writing.
func TestUnordered(t *testing.T) {
	const x, y, z, commuting = 0, 1, 2, 3
	type work struct {
		reads, writes []int // areas; the last one is written by work whose order does not matter
		waits         []int
	}
	for _, c := range []struct {
		name string
		list []work
		want string
	}{
		{"a chain", []work{{nil, []int{x}, nil}, {[]int{x}, []int{y}, []int{0}}, {[]int{y}, []int{z}, []int{1}}}, ""},
		{"a reader that does not wait", []work{{nil, []int{x}, nil}, {[]int{x}, []int{y}, nil}}, "pieces 0 and 1"},
		{"a writer that does not wait for a writer", []work{{nil, []int{x}, nil}, {nil, []int{x}, nil}}, "pieces 0 and 1"},
		{"a writer that waits for one of two readers", []work{{nil, []int{x}, nil}, {[]int{x}, []int{y}, []int{0}}, {[]int{x}, []int{z}, []int{0}}, {nil, []int{x}, []int{1}}}, "pieces 2 and 3"},
		{"a writer that waits for both", []work{{nil, []int{x}, nil}, {[]int{x}, []int{y}, []int{0}}, {[]int{x}, []int{z}, []int{0}}, {nil, []int{x}, []int{1, 2}}}, ""},
		{"a path through another piece", []work{{nil, []int{x}, nil}, {nil, []int{y}, []int{0}}, {[]int{x}, []int{z}, []int{1}}}, ""},
		{"a path to another piece alone", []work{{nil, []int{x}, nil}, {nil, []int{y}, nil}, {[]int{x}, []int{z}, []int{1}}}, "pieces 0 and 2"},
		{"writers whose order does not matter", []work{{nil, []int{commuting}, nil}, {nil, []int{commuting}, nil}}, ""},
		{"a reader behind one of them", []work{{nil, []int{commuting}, nil}, {nil, []int{commuting}, nil}, {[]int{commuting}, []int{x}, []int{1}}}, "pieces 0 and 2"},
		{"a reader before one of them", []work{{[]int{commuting}, []int{x}, nil}, {nil, []int{commuting}, nil}}, "pieces 0 and 1"},
	} {
		g := &graph{}
		for _, w := range c.list {
			p := piece{waits: w.waits}
			for _, r := range w.reads {
				p.uses = append(p.uses, at(device.Pointer(200*r), 100))
			}
			for _, r := range w.writes {
				s := at(device.Pointer(200*r+50), 100).written()
				s.commutes = r == commuting
				p.uses = append(p.uses, s)
			}
			g.pieces = append(g.pieces, p)
		}
		if err := g.unordered(); c.want == "" {
			assert.NoError(t, err, c.name)
		} else {
			assert.ErrorContains(t, err, c.want, c.name)
		}
	}
}
