package rewrite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ssa"
)

// randomCase draws a graph, rewrites a copy and compares what both compute.
func randomCase(seed uint64, cfg graphgen.Config, opts Options) (*Report, error) {
	before, err := graphgen.New(seed, cfg)
	if err != nil {
		return nil, err
	}
	after, _ := before.Clone()
	report, err := Run(context.Background(), &ssa.Module{Graph: after}, opts)
	if err == nil {
		err = graphgen.Agree(context.Background(), before, after, seed, 3)
	}
	if err != nil {
		err = fmt.Errorf("seed %d: %w\nbefore:\n%s\nafter:\n%s\npatches: %v", seed, err, before, after, report.Patches)
	}
	return report, err
}

// TestRandomGraphs runs whole lists on random graphs, checked and shuffled.
func TestRandomGraphs(t *testing.T) {
	for _, list := range []*List{&Portable, &Runtime} {
		t.Run(list.Name, func(t *testing.T) {
			for seed := range uint64(150) {
				_, err := randomCase(seed, graphgen.Config{}, Options{List: list, Check: true, Unroll: seed%2 == 0, Shuffle: true, Seed: seed})
				require.NoError(t, err)
			}
		})
	}
}

// TestRandomExtremes runs whole lists on random graphs with numbers at the ends of their types and empty operands.
func TestRandomExtremes(t *testing.T) {
	cfg := graphgen.Config{Features: graphgen.Extremes | graphgen.Elementwise | graphgen.Products | graphgen.Motifs | graphgen.Reductions | graphgen.Moves | graphgen.Symbols, Nodes: 5}
	for _, list := range []*List{&Portable, &Runtime} {
		t.Run(list.Name, func(t *testing.T) {
			counted := 0
			for seed := range uint64(800) {
				before, err := graphgen.New(seed, cfg)
				require.NoError(t, err)
				after, _ := before.Clone()
				report, err := Run(t.Context(), &ssa.Module{Graph: after}, Options{List: list, Check: true, MaxOpset: -1})
				require.NoError(t, err, "seed %d:\n%s", seed, before)
				n, err := graphgen.AgreeAtExtremes(t.Context(), before, after, seed, 4)
				require.NoError(t, err, "seed %d\nbefore:\n%s\nafter:\n%s\npatches: %v", seed, before, after, report.Patches)
				counted += n
			}
			require.Greater(t, counted, 1600, "runs that compared something")
		})
	}
}

// TestEveryPassAloneOnRandomGraphs finds the pass to blame, and that each pass
// finds work at all.
func TestEveryPassAloneOnRandomGraphs(t *testing.T) {
	for _, p := range Portable.Passes() {
		t.Run(p.Name, func(t *testing.T) {
			list := &List{Name: "alone", AnyOpset: true, Stages: []Stage{
				{Name: "prepare", Passes: []*Pass{SinkConstants}},
				{Name: "alone", Repeat: p != SinkConstants && p != HoistConstants, Passes: []*Pass{p}},
			}}
			if p == SinkConstants {
				list.Stages = list.Stages[:1]
			}
			patches := 0
			for seed := range uint64(60) {
				r, err := randomCase(1000+seed, graphgen.Config{}, Options{List: list, Check: true, Unroll: true})
				require.NoError(t, err)
				for _, patch := range r.Patches {
					if patch.Pass == p.Name {
						patches++
					}
				}
			}
			// The drawn constants are too small, the drawn operators have old forms, and the drawn loops slice nothing by their iterations.
			if p != HoistConstants && p != Older && p != Iteration {
				require.Positive(t, patches)
			}
		})
	}
}

// FuzzRewrite looks for graphs that a list breaks.
func FuzzRewrite(f *testing.F) {
	f.Add(uint64(1), uint(graphgen.All), uint8(12), false)
	f.Add(uint64(2), uint(graphgen.Elementwise|graphgen.Loops|graphgen.Scans), uint8(8), true)
	f.Fuzz(func(t *testing.T, seed uint64, features uint, nodes uint8, runtime bool) {
		list := &Portable
		if runtime {
			list = &Runtime
		}
		cfg := graphgen.Config{Features: graphgen.Feature(features) & graphgen.All, Nodes: 1 + int(nodes)%40}
		_, err := randomCase(seed, cfg, Options{List: list, Check: true, Shuffle: true, Seed: seed})
		require.NoError(t, err)
	})
}
