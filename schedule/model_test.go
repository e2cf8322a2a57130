package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/rewrite"
	"github.com/berth-onnx/berth/ssa"
)

// controlOf measures the control flow of one graph.
func controlOf(t testing.TB, g *ssa.Graph) map[*ssa.Node]*inner {
	control := map[*ssa.Node]*inner{}
	for _, n := range g.Nodes {
		if ops.IsControl(n) {
			in, err := measure(n, g)
			require.NoError(t, err)
			control[n] = in
		}
	}
	return control
}

// folded is what the graph needs at once as laid out in its order, with the
// decisions of a counting; results over larger operands, which come on top, are not
// counted.
func folded(t testing.TB, g *ssa.Graph, how counting) int64 {
	tl, err := liveness.Build(g, liveness.Options{Windows: how.windows == yes})
	require.NoError(t, err)
	return peakOf(inplace.Fold(tl, inplace.Options{NoConcat: how.concats == no, NoSmaller: true}))
}

// live removes nodes that nothing needs, whose results package liveness counts one
// step longer, and reports whether all results left are read.
func live(t testing.TB, g *ssa.Graph) bool {
	_, err := rewrite.Run(t.Context(), &ssa.Module{Graph: g}, rewrite.Options{Only: []string{"dead"}, MaxOpset: -1})
	require.NoError(t, err)
	all := true
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			for _, v := range n.Out {
				all = all && (v == nil || len(v.Uses()) > 0 || b.IsResult(v))
			}
		}
	})
	return all
}

// TestModelCountsWhatFoldingNeeds compares the model's peak of an order with that
// of the folded timeline: the same for graphs without control flow, and no less
// for those with it.
func TestModelCountsWhatFoldingNeeds(t *testing.T) {
	check := func(t *testing.T, name string, g *ssa.Graph) {
		if !live(t, g) {
			return
		}
		if control := controlOf(t, g); len(control) > 0 {
			m := newModel(g, nil, control, counting{windows: yes, concats: no})
			need, err := laid(g, nil, nil)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, newSim(m).peakOf(identity(len(m.nodes))), need, name)
			return
		}
		for _, how := range []counting{{windows: yes, concats: no}, {windows: no, concats: no}} {
			m := newModel(g, nil, nil, how)
			assert.Equal(t, folded(t, g, how), newSim(m).peakOf(identity(len(m.nodes))), "%s, windows %v", name, how.windows == yes)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	both := func(t *testing.T, models []named) {
		for _, m := range models {
			check(t, m.name, m.graph)
			shuffle(m.graph, r)
			check(t, m.name+" shuffled", m.graph)
		}
	}
	t.Run("built-in", func(t *testing.T) { both(t, builtin(t)) })
	t.Run("recorded", func(t *testing.T) { both(t, recorded(t)) })
	t.Run("drawn", func(t *testing.T) {
		for seed := range uint64(200) {
			g := drawn(t, seed, 20)
			check(t, g.String(), g)
			g, err := graphgen.New(seed, graphgen.Config{Nodes: 20})
			require.NoError(t, err)
			check(t, g.String(), g)
		}
	})
}
