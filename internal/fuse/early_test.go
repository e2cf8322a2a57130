package fuse_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestEarly: formulas of one result become one node each, of any size and without regard to time; what is not taken, what has several
// results and bodies stay.
func TestEarly(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[2,4] in %z: float32[2,4] in %w: float32[4,4]
		%m = Mul(%x, %x) %n = Exp(%m) %b = MatMul(%z, %w) %d = Mul(%n, %b) %e = Neg(%d) %k = Tanh(%e) %s = Sin(%z) %c = Cos(%s) out %k, %s, %c }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	require.NoError(t, fuse.Early(t.Context(), g, func(n *ssa.Node) bool { return n.Out[0].Name != "k" }))
	require.NoError(t, ops.InferGraph(g))
	require.NoError(t, ops.Check(g))
	var order []string
	for _, n := range g.Nodes {
		order = append(order, n.Op+" "+n.Out[0].Name)
	}
	assert.Equal(t, []string{"MatMul b", fused.Name + " e", "Tanh k", "Sin s", "Cos c"}, order)
}
