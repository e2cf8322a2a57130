package ssa

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

// TestIdentityOfStrings: equal strings have one identity, others another, also where only the places differ at which they end. Long
// strings are not copied for it.
func TestIdentityOfStrings(t *testing.T) {
	of := func(list ...string) Identity {
		id, err := NewConstant(&ndarray.Array{DType: ndarray.String, Shape: []int{len(list)}, Str: list}).Identity(0)
		require.NoError(t, err)
		return id
	}
	seen := map[Identity][]string{}
	for _, list := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"", "abc"}, {"abc"}, {"", ""}, {""}} {
		id := of(list...)
		assert.Equal(t, id, of(list...))
		assert.NotContains(t, seen, id, "%q and %q", list, seen[id])
		seen[id] = list
	}
	const long = 8 << 20
	text := strings.Repeat("0.5", long/3)
	c := NewConstant(&ndarray.Array{DType: ndarray.String, Shape: []int{1}, Str: []string{text}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.Identity(0)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(long/8))
}

// TestChecksOfTypesAllocateNothing: every value of a graph is checked several times.
func TestChecksOfTypesAllocateNothing(t *testing.T) {
	row := StaticTensor(ndarray.Float32, 1, 16)
	nested := SequenceOf(row)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = row.Check(), nested.Check() }))
}
