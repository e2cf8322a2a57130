package roofline

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/ndarray"
)

// TestBound: work is held against the slower of arithmetic and memory, by the working set that is not larger.
func TestBound(t *testing.T) {
	l := &Limits{Floats: 100e9, Bytes: 400e9, Memory: []Speed{{1000, 200e9}, {10_000, 100e9}, {100_000, 10e9}}}
	for _, c := range []struct {
		name  string
		work  Work
		nanos float64
		limit string
	}{
		{"nothing", Work{}, 0, ""},
		{"arithmetic", Work{Operations: 1_000_000, Bytes: 1000}, 10_000, Arithmetic},
		{"bytes multiply faster", Work{Operations: 1_000_000, Bytes: 1000, OfBytes: true}, 2500, Arithmetic},
		{"below the smallest set", Work{Operations: 1, Bytes: 100}, 0.5, Memory},
		{"between two sets", Work{Bytes: 50_000}, 500, Memory},
		{"results over operands", Work{Bytes: 19_000}, 95, Memory},
		{"of a set", Work{Bytes: 20_000}, 200, Memory},
		{"beyond the largest", Work{Bytes: 1_000_000}, 100_000, Memory},
	} {
		nanos, limit := l.Bound(c.work)
		assert.InDelta(t, c.nanos, nanos, 1e-6*c.nanos, c.name)
		assert.Equal(t, c.limit, limit, c.name)
	}
	none := &Limits{Floats: 100e9, Memory: l.Memory}
	issue := &Limits{Floats: 100e9, Memory: l.Memory, Instructions: 1e9}
	nanos, limit := issue.Bound(Work{Operations: 1000, Bytes: 100, Instructions: 3000})
	assert.InDelta(t, 3000, nanos, 1e-3)
	assert.Equal(t, Issue, limit)
	_, limit = none.Bound(Work{Operations: 1 << 40, Bytes: 1000, OfBytes: true})
	assert.Equal(t, Memory, limit, "a machine without products of bytes")
}

func TestMeasure(t *testing.T) {
	for _, level := range machine.Levels() {
		old := machine.Active()
		require.NoError(t, machine.Use(level))
		l, err := Measure(t.Context(), 0, 2)
		require.NoError(t, machine.Use(old))
		require.NoError(t, err)
		assert.Equal(t, level.String(), l.Level)
		assert.Positive(t, l.Floats)
		assert.Equal(t, level != machine.LevelGeneric, l.Bytes > 0)
		assert.Len(t, l.Memory, len(sets))
		for _, s := range l.Memory {
			assert.Positive(t, s.PerSecond, "%d bytes", s.Set)
		}
	}
}

func TestMeasureEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Measure(ctx, 0, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = Measure(t.Context(), ndarray.Budget(1<<20), 1)
	require.ErrorContains(t, err, "memory")
}
