package dense_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// TestArrayOfAsksItsContext: a tensor in row-major order is viewed whatever the context says; one that must be copied takes memory of
// the context's budget, and the copy ends with the context.
func TestArrayOfAsksItsContext(t *testing.T) {
	rows := tensor.New(tensor.WithShape(1024, 1024), tensor.Of(tensor.Float32))
	turned, err := rows.SafeT()
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	full := func(t *testing.T, err error) { assert.ErrorAs(t, err, new(*ops.MemoryError)) }
	for _, c := range []struct {
		name string
		ctx  context.Context
		d    *tensor.Dense
		is   func(*testing.T, error) // nil: there is none
	}{
		{"rows", t.Context(), rows, nil},
		{"transposed", t.Context(), turned, nil},
		{"rows beyond the budget", ndarray.Budget(1).In(t.Context()), rows, nil},
		{"transposed beyond the budget", ndarray.Budget(1).In(t.Context()), turned, full},
		{"rows at the end", ended, rows, nil},
		{"transposed at the end", ended, turned, func(t *testing.T, err error) { assert.ErrorIs(t, err, context.Canceled) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := dense.ArrayOf(c.ctx, c.d)
			if c.is != nil {
				c.is(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []int(c.d.Shape()), a.Shape)
		})
	}
}
