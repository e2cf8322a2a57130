package rewrite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// TestDamagedModels turns every single bit of small models with control flow. What
// the importer still takes, as it is or only to be looked at, goes through both
// lists: a pass may find nothing to do, but must not fail.
func TestDamagedModels(t *testing.T) {
	for _, name := range []string{"if-nested", "capture-if"} {
		m, err := testmodels.Build(name)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), name+".onnx")
		require.NoError(t, onnxexport.Save(m, path, onnxexport.Options{}))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for at := range data {
			for bit := range 8 {
				data[at] ^= 1 << bit
				for _, lenient := range []bool{false, true} {
					if m, err := onnximport.FromBytes(data, path, onnximport.Options{Lenient: lenient}); err == nil {
						rewriteDamaged(t, m, name, at, bit)
					}
				}
				data[at] ^= 1 << bit
			}
		}
	}
}

func rewriteDamaged(t *testing.T, m *ssa.Module, name string, at, bit int) {
	for _, list := range []*List{&Portable, &Runtime} {
		g, _ := m.Graph.Clone()
		copied := *m
		copied.Graph = g
		_, err := Run(t.Context(), &copied, Options{List: list})
		var bug *ops.PanicError
		var failed *Error
		if errors.As(err, &bug) || errors.As(err, &failed) {
			require.NoError(t, err, "%s, byte %d, bit %d, list %s", name, at, bit, list.Name)
		}
	}
}

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
	require.NoError(t, ops.CheckBranches(t.Context(), g), "as it is, the branch is fit for some shape")
	m := &ssa.Module{Graph: g}
	_, err = Run(t.Context(), m, Options{Check: true, MaxOpset: -1})
	require.NoError(t, err)
	require.NoError(t, ops.CheckBranches(t.Context(), m.Graph))
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
