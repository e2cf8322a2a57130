package onnxexport

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// TestStepsLook: the steps of an export that pass over all nodes, constants or results look at their context within one graph and one
// node.
func TestStepsLook(t *testing.T) {
	const many = 3 * lookEvery
	g := ssa.NewGraph("g")
	split := g.NewNode("Split", nil, many)
	for i := range many {
		k := g.AddConst(fmt.Sprintf("k%d", i), ssa.ScalarConst(float32(i)))
		g.Results = append(g.Results, k, g.NewNode("Neg", []*ssa.Value{k}, 1).Out[0])
	}
	for name, c := range map[string]struct {
		least int
		step  func(x *exporter)
	}{
		"bytes of constants":  {many / lookEvery, func(x *exporter) { storedBytes(x.opts.Context, g) }},
		"constants":           {2 * many / lookEvery, func(x *exporter) { constantsOf(x.opts.Context, g) }},
		"places of constants": {3 * many / lookEvery, func(x *exporter) { x.place() }},
		"literals":            {3 * many / lookEvery, func(x *exporter) { literals(x.opts.Context, g) }},
		"names of outputs":    {2 * many / lookEvery, func(x *exporter) { x.outputNames() }},
		"names of results": {2 * many, func(x *exporter) {
			x.nameResults(&ssa.Graph{Results: g.Results}, make([]string, 2*many))
		}},
		"results of a node": {many / lookEvery, func(x *exporter) {
			_ = x.define(&ssa.Graph{Nodes: []*ssa.Node{split}}, &onnxwire.Graph{}, newNames(nil))
		}},
		"versions": {many / lookEvery, func(x *exporter) { x.irVersion() }},
	} {
		t.Run(name, func(t *testing.T) {
			x := &exporter{mod: &ssa.Module{Graph: g}, opsets: newOpsetChoice(&ssa.Module{}), names: map[*ssa.Value]string{}, consts: map[*ssa.Constant]*placement{}}
			x.opts.Splat = 1 << 20
			for _, v := range g.Results {
				if v.Const != nil {
					x.consts[v.Const] = &placement{}
				}
			}
			all := &looktest.Context{Context: context.Background(), Left: 1 << 30}
			x.opts.Context = all
			c.step(x)
			require.GreaterOrEqual(t, 1<<30-all.Left, c.least)
		})
	}
}

// TestManyConstantResults: naming results that are constants passes over the constants of the graph once.
func TestManyConstantResults(t *testing.T) {
	const many = 3 * lookEvery
	g := ssa.NewGraph("g")
	ctx := &looktest.Context{Context: t.Context(), Left: 1 << 30}
	x := &exporter{mod: &ssa.Module{Graph: g}, names: map[*ssa.Value]string{}, consts: map[*ssa.Constant]*placement{}, opts: Options{Context: ctx}}
	twice := ssa.ScalarConst(float32(0))
	for i := range many {
		k := ssa.ScalarConst(float32(i))
		if i < 2 {
			k = twice
		}
		g.Results = append(g.Results, g.AddConst(fmt.Sprintf("k%d", i), k))
		x.consts[k] = &placement{graph: g}
	}
	x.nameResults(g, slices.Repeat([]string{"out"}, many))
	require.Len(t, x.names, many-2, "all but those of one constant")
	require.Less(t, 1<<30-ctx.Left, 2*many)
}
