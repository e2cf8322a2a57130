package schedule

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// controlOf measures the control flow of one graph.
func controlOf(t testing.TB, g *ssa.Graph) map[*ssa.Node]*inner {
	control := map[*ssa.Node]*inner{}
	for _, n := range g.Nodes {
		if ops.IsControl(n) {
			in, err := measure(context.Background(), n, g)
			require.NoError(t, err)
			control[n] = in
		}
	}
	return control
}

// folded is the least that the graph needs at once as laid out in its order, with and
// without operands made inside concatenations.
func folded(t testing.TB, g *ssa.Graph, how counting) int64 {
	tl, err := liveness.Build(context.Background(), g, liveness.Options{Windows: !how.copies})
	require.NoError(t, err)
	return min(inplace.Fold(context.Background(), tl, inplace.Options{}).Peak(), inplace.Fold(context.Background(), tl, inplace.Options{NoConcat: true}).Peak())
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

// TestModelIsABound compares the model's peak of an order with that of the folded
// timeline, which it must not exceed, and of which it must not fall far short: where
// there is no control flow, the two are mostly the same.
func TestModelIsABound(t *testing.T) {
	same, graphs := 0, 0
	worst := 1.0 // of graphs without control flow
	check := func(t *testing.T, name string, g *ssa.Graph) {
		if !live(t, g) {
			return
		}
		control := controlOf(t, g)
		for _, how := range []counting{{}, {copies: true}} {
			m := newModel(t.Context(), g, nil, control, how)
			counted, need := newSim(t.Context(), m).peakOf(t.Context(), identity(len(m.nodes))), folded(t, g, how)
			require.LessOrEqual(t, counted, need, "%s, copies %v", name, how.copies)
			if len(control) > 0 {
				continue
			}
			graphs++
			if counted == need {
				same++
			} else {
				worst = min(worst, float64(counted)/float64(need))
			}
		}
	}
	report := func(t *testing.T, least float64, part int) {
		t.Logf("of %d, %d the same, the lowest %.3f of what folding needs", graphs, same, worst)
		assert.GreaterOrEqual(t, worst, least)
		assert.GreaterOrEqual(t, same, graphs*part/100)
		same, graphs, worst = 0, 0, 1
	}
	r := rand.New(rand.NewPCG(1, 2))
	both := func(t *testing.T, models []named) {
		for _, m := range models {
			check(t, m.name, m.graph)
			shuffle(m.graph, r)
			check(t, m.name+" shuffled", m.graph)
		}
	}
	t.Run("built-in", func(t *testing.T) { both(t, builtin(t)); report(t, 0.5, 50) })
	t.Run("recorded", func(t *testing.T) { both(t, recorded(t)); report(t, 0.5, 50) })
	t.Run("drawn", func(t *testing.T) {
		for seed := range uint64(200) {
			g := drawn(t, seed, 20)
			check(t, g.String(), g)
			g, err := graphgen.New(seed, graphgen.Config{Nodes: 20})
			require.NoError(t, err)
			check(t, g.String(), g)
		}
		report(t, 0.1, 10)
	})
}
