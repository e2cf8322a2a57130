package rewrite

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// rewriteCase is a graph before and after: the inside of graph "g" { … }, types
// of results left out. An empty after means that nothing changes.
type rewriteCase struct {
	name   string
	before string
	after  string
	opts   Options
	exact  bool // results must not differ by rounding either
}

// testRewrite runs passes on every case until nothing changes, under check and
// with shuffled nodes, compares the graph with the text, and compares what both
// graphs compute.
func testRewrite(t *testing.T, passes []*Pass, cases []rewriteCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := parseCase(t, c.before)
			m := &ssa.Module{Graph: parseCase(t, c.before)}
			opts := c.opts
			opts.List = &List{Name: "test", AnyOpset: true, Stages: []Stage{{Name: "test", Repeat: true, Passes: passes}}}
			opts.Check = true
			report, err := Run(t.Context(), m, opts)
			require.NoError(t, err)
			want := c.after
			if want == "" {
				want = c.before
			}
			after := parseCase(t, want)
			after.Compact()
			if d := canonicalDiff(m.Graph, after); d != "" {
				assert.Fail(t, "another graph", "%s\ngot:\n%s\nwant:\n%s\npatches: %v", d, m.Graph, after, report.Patches)
			}
			for i, r := range before.Results {
				assert.Equal(t, r.Name, m.Graph.Results[i].Name, "names of results stay")
			}
			sameResults(t, before, m.Graph, c.exact)
			shuffled := &ssa.Module{Graph: parseCase(t, c.before)}
			opts.Shuffle, opts.Seed = true, 7
			_, err = Run(t.Context(), shuffled, opts)
			require.NoError(t, err)
			sameResults(t, before, shuffled.Graph, c.exact)
		})
	}
}

// canonicalDiff compares two graphs after bringing both into one order: operands
// first, from the first result on.
func canonicalDiff(a, b *ssa.Graph) string {
	for _, g := range []*ssa.Graph{a, b} {
		g.Walk(canonicalOrder)
	}
	return ssa.Compare{}.Diff(a, b)
}

func canonicalOrder(g *ssa.Graph) {
	var order []*ssa.Node
	seen := map[*ssa.Node]bool{}
	var visit func(v *ssa.Value)
	visit = func(v *ssa.Value) {
		if v == nil || v.Def == nil || seen[v.Def] {
			return
		}
		seen[v.Def] = true
		for _, w := range v.Def.In {
			visit(w)
		}
		order = append(order, v.Def)
	}
	for _, r := range g.Results {
		visit(r)
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			visit(v)
		}
	}
	if len(order) == len(g.Nodes) {
		g.Nodes = order
	}
}

func parseCase(t *testing.T, inside string) *ssa.Graph {
	t.Helper()
	g, err := ssa.ParseGraph(`graph "g" {` + inside + `}`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	require.NoError(t, ssa.Check(g))
	return g
}

// sameResults runs both graphs on random operands.
func sameResults(t *testing.T, before, after *ssa.Graph, exact bool) {
	t.Helper()
	tol := graphgen.Noise
	if exact {
		tol = graphgen.Tolerance{}
	}
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 1))
		in, err := graphgen.Inputs(rng, before, map[string]int64{"N": int64(2 + seed)})
		require.NoError(t, err)
		want, err := ops.Interpret(context.Background(), before, in, nil)
		require.NoError(t, err)
		got, err := ops.Interpret(context.Background(), after, in, nil)
		require.NoError(t, err)
		assert.Empty(t, tol.Diff(got, want), "seed %d", seed)
	}
}

// base64Floats is the text of n different floats.
func base64Floats(n int) string {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(i)))
	}
	return base64.StdEncoding.EncodeToString(b)
}

func replaceOnce(s, old, new string) string { return strings.Replace(s, old, new, 1) }

// sunkThenHoisted runs both passes once, in that order.
func sunkThenHoisted(t *testing.T, before, after string) {
	t.Helper()
	m := &ssa.Module{Graph: parseCase(t, before)}
	_, err := Run(t.Context(), m, Options{Check: true, List: &List{Stages: []Stage{{Name: "a", Passes: []*Pass{SinkConstants}}, {Name: "b", Passes: []*Pass{HoistConstants}}}}})
	require.NoError(t, err)
	want := parseCase(t, after)
	assert.Empty(t, canonicalDiff(m.Graph, want), "got:\n%s", m.Graph)
	sameResults(t, parseCase(t, before), m.Graph, true)
}
