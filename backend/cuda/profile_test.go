package cuda

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/ndarray"
)

// TestMeasureRuns: the interpreter's counts are divided among the kernels of one run, however many runs there are; later runs are graphs
// as they were before.
func TestMeasureRuns(t *testing.T) {
	d, _ := prompt()
	loop := `in %x: float32[4,4] const %n: int64[] = 8 const %t: bool[] = true %y = Loop(%n, %t, %x) {
		body: graph "b" { in %i: int64[] in %c: bool[] in %p: float32[4,4] %r = Softmax(%p) out %c, %r } } out %y`
	for _, c := range []struct {
		name, graph string
		want        map[string]ProfileRow // launches, operations and bytes
	}{
		{"all on the device", onDeviceAlone, map[string]ProfileRow{"few": {Launches: 2, Operations: 256, Bytes: 384}, "softmax": {Launches: 1, Operations: 80, Bytes: 128},
			"fused": {Launches: 1, Operations: 16, Bytes: 128}, "copy to the device": {Launches: 1, Bytes: 64}, "copy from the device": {Launches: 2, Bytes: 128}}},
		{"a node on the host", withAnIsland, map[string]ProfileRow{"few": {Launches: 2, Operations: 2 * (4*4*4 + 4*4*3), Bytes: 4 * (3*16 + 16 + 2*12)},
			"copy to the device": {Launches: 2, Bytes: 64 + 48}, "copy from the device": {Launches: 2, Bytes: 64 + 48}}},
		{"a loop", loop, map[string]ProfileRow{"softmax": {Launches: 8, Operations: 8 * 80, Bytes: 8 * 128}, "copy to the device": {Launches: 1, Bytes: 64},
			"copy from the device": {Launches: 1, Bytes: 64}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessionOn(t, modelOf(t, c.graph), promptName)
			in := []ndarray.Value{wave(1, 4, 4)}
			run := func() {
				_, err := s.Run(t.Context(), in)
				require.NoError(t, err)
			}
			run()
			before := d.Work()
			run()
			after := d.Work()
			once := device.Work{Operations: after.Operations - before.Operations, Instructions: after.Instructions - before.Instructions, Traffic: after.Traffic - before.Traffic}
			for _, runs := range []int{1, 3} {
				p, err := MeasureRuns(t.Context(), s, in, runs)
				require.NoError(t, err)
				assert.Equal(t, "PTX interpreter", p.Device)
				assert.Equal(t, simulatedLimits, p.Limits)
				var sum device.Work
				require.Len(t, p.Rows, len(c.want))
				for _, r := range p.Rows {
					w := c.want[r.Kernel]
					assert.Equal(t, []int64{int64(w.Launches), w.Operations, w.Bytes}, []int64{int64(r.Launches), r.Operations, r.Bytes}, r.Kernel)
					assert.Equal(t, r.IsCopy, r.Instructions == 0, r.Kernel)
					assert.Zero(t, r.Time)
					sum = device.Work{Operations: sum.Operations + r.Executed, Instructions: sum.Instructions + r.Instructions, Traffic: sum.Traffic + r.Traffic}
				}
				assert.Equal(t, once, sum, "%d runs", runs)
			}
			d.since()
			run()
			did := d.since()
			assert.Equal(t, did.Waits, did.Graphs)
			assert.Zero(t, did.Launches)
		})
	}
}

// TestMeasureRunsTogether: measurements of one device wait for each other, and runs that are not measured count for nothing.
func TestMeasureRunsTogether(t *testing.T) {
	prompt()
	m := modelOf(t, onDeviceAlone)
	s, other := sessionOn(t, m, promptName), sessionOn(t, m, promptName)
	in := []ndarray.Value{wave(1, 4, 4)}
	want, err := MeasureRuns(t.Context(), s, in, 2)
	require.NoError(t, err)
	var group sync.WaitGroup
	for _, of := range []*berth.Session{s, s, other} {
		group.Go(func() {
			got, err := MeasureRuns(t.Context(), of, in, 2)
			if assert.NoError(t, err) {
				assert.Equal(t, want, got)
			}
		})
	}
	group.Wait()
	mem := s.DeviceMemory().(*memory)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.NoError(t, mem.machine.measuring.enter(t.Context()))
	_, err = MeasureRuns(ctx, s, in, 1)
	mem.machine.measuring.Unlock()
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestMeasureRunsErrors: sessions without a device, and runs that end.
func TestMeasureRunsErrors(t *testing.T) {
	counting()
	m := modelOf(t, onDeviceAlone)
	in := []ndarray.Value{wave(1, 4, 4)}
	var none *TensorError
	_, err := MeasureRuns(t.Context(), sessionOn(t, m, "cpu"), in, 1)
	require.ErrorAs(t, err, &none)
	s := sessionOn(t, m, countingName)
	for _, runs := range []int{0, -1} {
		var option *berth.OptionError
		_, err = MeasureRuns(t.Context(), s, in, runs)
		require.ErrorAs(t, err, &option)
		assert.ErrorContains(t, err, fmt.Sprintf("MeasureRuns(%d): want one run or more", runs))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = MeasureRuns(ctx, s, in, 1)
	require.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, s.DeviceMemory().(*memory).profiler)
}

// TestLimits: clocks and units give what data sheets say, within 1 %.
func TestLimits(t *testing.T) {
	for i, info := range []device.Info{
		{Major: 8, Minor: 0, Processors: 108, ClockKHz: 1_410_000, MemoryClockKHz: 1_593_000, MemoryBusBits: 5120},
		{Major: 9, Minor: 0, Processors: 132, ClockKHz: 1_980_000, MemoryClockKHz: 2_619_000, MemoryBusBits: 5120},
	} {
		got, want := limitsOf(info), simulatedLimits[i]
		assert.InEpsilon(t, want.Operations, got.Operations, 0.01, want.Device)
		assert.InEpsilon(t, want.Bytes, got.Bytes, 0.01, want.Device)
		assert.InEpsilon(t, want.Instructions, got.Instructions, 0.01, want.Device)
	}
	t4 := limitsOf(device.Info{Major: 7, Minor: 5, Processors: 40, ClockKHz: 1_590_000})
	assert.InEpsilon(t, 8.1e12, t4.Operations, 0.01)
}
