package ndarray_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

// shared is a sequence of two members of two members and so on.
func shared(levels int) ndarray.Value {
	var v ndarray.Value = ndarray.Scalar[float32](1)
	for range levels {
		v = &ndarray.Sequence{Items: []ndarray.Value{v, v}}
	}
	return v
}

// TestCheckValue checks values that callers can make. Those that are endless can not be copied either, others can.
func TestCheckValue(t *testing.T) {
	list, maybe, table := &ndarray.Sequence{}, &ndarray.Optional{}, &ndarray.Map{Keys: ndarray.Of([]int64{1}, 1)}
	list.Items, maybe.Value, table.Values = []ndarray.Value{list}, maybe, table
	one, two := ndarray.Of([]int64{1}, 1), ndarray.Of([]int64{1, 2}, 2)
	for _, c := range []struct {
		name    string
		v       ndarray.Value
		want    string // "" for a sound value
		endless bool
	}{
		{"array", one, "", false},
		{"sequence", shared(3), "", false},
		{"empty optional", &ndarray.Optional{}, "", false},
		{"map", &ndarray.Map{Keys: two, Values: two}, "", false},
		{"map of members", &ndarray.Map{Keys: one, Values: &ndarray.Sequence{Items: []ndarray.Value{two}}}, "", false},
		{"sparse", &ndarray.Sparse{Shape: []int{9}, Values: two, Indices: two}, "", false},
		{"sequence of itself", list, "nested deeper", true},
		{"optional of itself", maybe, "nested deeper", true},
		{"map of itself", table, "no list of as many", true},
		{"2^40 members", shared(40), "more than 16777216 members", true},
		{"no element type", &ndarray.Array{DType: 99}, "element type 99 does not exist", false},
		{"nothing in it", &ndarray.Sequence{Items: []ndarray.Value{one, nil}}, "a sequence whose member 1 is nothing", false},
		{"nil in it", &ndarray.Optional{Value: (*ndarray.Sequence)(nil)}, "a nil *ndarray.Sequence", false},
		{"nil", (*ndarray.Map)(nil), "a nil *ndarray.Map", false},
		{"map without keys", &ndarray.Map{Values: one}, "whose keys are no list", false},
		{"map of fewer values", &ndarray.Map{Keys: two, Values: one}, "a map of 2 keys", false},
		{"sparse without values", &ndarray.Sparse{Shape: []int{9}, Indices: one}, "a sparse tensor of shape [9] without", false},
	} {
		err := ndarray.CheckValue(t.Context(), c.v)
		if c.want == "" {
			require.NoError(t, err, c.name)
		} else {
			require.IsType(t, &ndarray.ValueError{}, err, c.name)
			assert.ErrorContains(t, err, c.want, c.name)
		}
		copied, err := ndarray.CloneIn(t.Context(), 0, c.v)
		if c.endless {
			require.IsType(t, &ndarray.ValueError{}, err, c.name)
			assert.Panics(t, func() { ndarray.CloneValue(c.v) }, c.name)
		} else {
			require.NoError(t, err, c.name)
			assert.Equal(t, c.v, copied, c.name)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, ndarray.CheckValue(ended, shared(40)), context.Canceled)
	_, err := ndarray.CloneIn(ended, 0, ndarray.Must(ndarray.Uint8, 4<<20))
	assert.ErrorIs(t, err, context.Canceled)
}

// TestUnknownElementType: elements of a type that does not exist are 0 and can not be set.
func TestUnknownElementType(t *testing.T) {
	a := &ndarray.Array{DType: 99, Data: []byte{7}}
	a.SetInt(0, 1)
	a.SetFloat(0, 1)
	assert.Zero(t, a.Int(0))
	assert.Zero(t, a.Float(0))
	assert.Equal(t, []byte{7}, a.Data)
}
