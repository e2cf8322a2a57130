package ssa_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// endsAfter is a context that has ended when it was asked a number of times.
type endsAfter struct {
	context.Context
	looks *int
}

func (c endsAfter) Err() error {
	if *c.looks--; *c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestSplatEnded: a context ends the filling out of a splat, and another call does it.
func TestSplatEnded(t *testing.T) {
	const n = 8 << 20
	for _, one := range []*ndarray.Array{ndarray.Scalar(float32(0.5)), ndarray.Scalar(int8(3)), ndarray.Strings([]string{"a"})} {
		c, looks := ssa.NewSplat(one, n), 3
		_, err := c.ArrayContext(endsAfter{context.Background(), &looks}, 0)
		require.ErrorIs(t, err, context.Canceled)
		a, err := c.ArrayContext(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, n, a.Len())
		if one.DType == ndarray.String {
			assert.Equal(t, one.Str[0], a.Str[n-1])
		} else {
			assert.Equal(t, one.Float(0), a.Float(n-1))
		}
	}
}
