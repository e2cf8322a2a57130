package fuse_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestShuffles(t *testing.T) {
	const conv = `in %x: float32[N,4,6,6] const %c: float32[6,2,1,1] = [0.5, -1, 2, 0.25, 1, -0.5, 3, 1, -2, 0.5, 0.75, 4]
		const %split: int64[5] = [0, 2, 3, 6, 6] const %flat: int64[4] = [0, 2, 3, 36] const %three: int64[5] = [0, 3, 2, 6, 6] const %whole: int64[4] = [0, 6, 6, 6]
		%y = Conv(%x, %c) [group=2] `
	for _, c := range []struct {
		name, graph string
		made        int
	}{
		{"behind an activation", conv + `%a = Relu(%y) %s = Reshape(%a, %split) %p = Transpose(%s) [perm=[0, 2, 1, 3, 4]] %z = Reshape(%p, %whole) out %z`, 1},
		{"pixels as one dimension", conv + `%s = Reshape(%y, %flat) %p = Transpose(%s) [perm=[0, 2, 1, 3]] %z = Reshape(%p, %whole) %u = Exp(%z) out %u`, 1},
		{"other groups", conv + `%s = Reshape(%y, %three) %p = Transpose(%s) [perm=[0, 2, 1, 3, 4]] %z = Reshape(%p, %whole) out %z`, 0},
		{"another order", conv + `%s = Reshape(%y, %split) %p = Transpose(%s) [perm=[0, 2, 1, 4, 3]] %z = Reshape(%p, %whole) out %z`, 0},
		{"another reader", conv + `%s = Reshape(%y, %split) %p = Transpose(%s) [perm=[0, 2, 1, 3, 4]] %z = Reshape(%p, %whole) out %z, %y`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph("graph \"g\" {\n" + c.graph + "\n}\n")
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			after, _ := withEpilogues(t, g)
			made, err := fuse.Shuffles(t.Context(), after)
			require.NoError(t, err)
			assert.Equal(t, c.made, made)
			require.NoError(t, ops.Check(after), "%s", after)
			require.NoError(t, graphgen.CheckSources(g, after))
			require.NoError(t, graphgen.Agree(t.Context(), g, after, 1, 2))
			runProducts(t, g, after, 1)
		})
	}
}

// TestShufflesEnd: what a context has ended is an error, also where the last body has no nodes.
func TestShufflesEnd(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" {
		in %c: bool[] in %x: float32[4]
		%y = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[4] %a = Relu(%p) out %a }
			else_branch: graph "e" { in %p: float32[4] out %p }
		}
		out %y
	}`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = fuse.Shuffles(ctx, g)
	require.ErrorIs(t, err, context.Canceled)
}
