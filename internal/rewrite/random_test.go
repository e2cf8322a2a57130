package rewrite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
