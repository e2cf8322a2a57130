package schedule

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/largegraphs"
	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/ssa"
)

// TestStepsLook: the steps of a search that pass over all nodes of a graph look at their context on the way.
func TestStepsLook(t *testing.T) {
	g := readers(t, 3*lookEvery)
	least := len(g.Nodes) / lookEvery
	m := newModel(t.Context(), g, nil, nil, counting{})
	m.postpone(t.Context())
	d := m.divide(t.Context())
	all := identity(len(m.nodes))
	for name, step := range map[string]func(ctx context.Context){
		"depth first":   func(ctx context.Context) { depthFirst(ctx, g) },
		"breadth first": func(ctx context.Context) { breadthFirst(ctx, g) },
		"postpone":      func(ctx context.Context) { newModel(t.Context(), g, nil, nil, counting{}).postpone(ctx) },
		"normal order":  func(ctx context.Context) { m.normal(ctx) },
		"simulation":    func(ctx context.Context) { newSim(ctx, m) },
		"peak":          func(ctx context.Context) { newSim(t.Context(), m).peakOf(ctx, all) },
		"steps":         func(ctx context.Context) { newSim(t.Context(), m).stepsOver(ctx, all, 0) },
		"cell": func(ctx context.Context) {
			for i := range d.cells {
				d.part(ctx, &d.cells[i])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := &looktest.Context{Context: t.Context(), Left: 1 << 30}
			step(ctx)
			require.GreaterOrEqual(t, 1<<30-ctx.Left, least)
		})
	}
}

// readers is a graph of so many nodes that read one value.
func readers(t *testing.T, n int) *ssa.Graph {
	for _, f := range largegraphs.Families {
		if f.Name == "readers" {
			g, err := f.Of(n)
			require.NoError(t, err)
			return g
		}
	}
	t.Fatal("there are no readers")
	return nil
}
