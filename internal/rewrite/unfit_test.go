package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestUnfitBranch: a branch for other shapes stays as it is where folding would show other tools that it never runs; the
// other branch is rewritten.
func TestUnfitBranch(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" {
		in %x: float32[2,3] in %c: bool[]
		%y = If(%c | %x) {
			then_branch: graph "t" { in %p: float32[2,3] %a = Identity(%p) %b = Neg(%a) out %b }
			else_branch: graph "e" { in %p: float32[2,3]
				%s = Shape(%p) const %i: int64[] = 1 %d = Gather(%s, %i) const %three: int64[] = 3 %e = Equal(%d, %three)
				%q = If(%e | %p) {
					then_branch: graph "et" { in %r: float32[2,3] const %k: int64[3] = [1, 2, 3] %u = Reshape(%r, %k) out %u }
					else_branch: graph "ee" { in %r: float32[2,3] out %r } }
				const %w: float32[5,4] = splat 1 %m = MatMul(%q, %w) %n = Identity(%m) out %n } }
		out %y }`)
	require.NoError(t, err)
	require.NoError(t, ops.CheckBranches(g), "as it is, the branch is fit for some shape")
	m := &ssa.Module{Graph: g}
	_, err = rewrite.Run(t.Context(), m, rewrite.Options{Check: true, MaxOpset: -1})
	require.NoError(t, err)
	require.NoError(t, ops.CheckBranches(m.Graph))
	var nodes = map[string][]string{}
	m.Graph.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			nodes[g.Name] = append(nodes[g.Name], n.Op)
		}
	})
	assert.Equal(t, []string{"Neg"}, nodes["t"])
	assert.Contains(t, nodes["e"], "Identity")
	assert.Contains(t, nodes["e"], "If")
}
