package kit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// TestLargeMemoryEnds: a context ends the clearing of large memory for results and workspaces of reference kernels.
func TestLargeMemoryEnds(t *testing.T) {
	const n = 10 << 20
	for name, f := range map[string]func(c *ops.Call){
		"Make": func(c *ops.Call) { Make[float32](c, n) },
		"New":  func(c *ops.Call) { New(c, ndarray.Float32, n) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, Attempt(func() { f(&ops.Call{Ctx: t.Context()}) }))
			require.NoError(t, Attempt(func() { f(nil) }))
			require.ErrorIs(t, Attempt(func() { f(&ops.Call{Ctx: &looktest.Context{Context: t.Context(), Left: 10}}) }), context.Canceled)
		})
	}
}
