package testmodels

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// testSize builds a model at the size its tests use.
func testSize(t testing.TB, b Builtin) *ssa.Module {
	build := b.Build
	if b.small != nil {
		build = b.small
	}
	m, err := inferred(b.Name, build())
	require.NoError(t, err)
	return m
}

// each runs f for every built-in model at its test size.
func each(t *testing.T, f func(t *testing.T, m *ssa.Module)) {
	for _, b := range List() {
		t.Run(b.Name, func(t *testing.T) { f(t, testSize(t, b)) })
	}
}

func interpret(t testing.TB, m *ssa.Module, c testCase) []ndarray.Value {
	out, err := ops.Interpret(context.Background(), m.Graph, c.args(m.Graph), nil)
	require.NoError(t, err, c.label)
	return out
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range List() {
		assert.NotEmpty(t, b.Doc, b.Name)
		assert.False(t, seen[b.Name], "two models are called %s", b.Name)
		seen[b.Name] = true
	}
	_, err := Build("no-such")
	require.Error(t, err)
	assert.Contains(t, err.Error(), "if-capture, ")
}

// TestBuild builds every model at its full size, twice: the graphs are sound and
// equal, weights included.
func TestBuild(t *testing.T) {
	for _, b := range List() {
		t.Run(b.Name, func(t *testing.T) {
			m, err := Build(b.Name)
			require.NoError(t, err)
			require.NoError(t, ops.Check(m.Graph))
			again, err := Build(b.Name)
			require.NoError(t, err)
			assert.Equal(t, m.Graph.String(), again.Graph.String())
			for i, v := range m.Graph.Values() {
				if v.Const != nil {
					assert.Equal(t, v.Const.Packed(), again.Graph.Value(i).Const.Packed(), v.Name)
				}
			}
		})
	}
}

// TestInterpret looks at the numbers: finite, and not all alike, unless the case has
// nothing to compute with.
func TestInterpret(t *testing.T) {
	each(t, func(t *testing.T, m *ssa.Module) {
		for _, c := range casesOf(m) {
			for i, v := range interpret(t, m, c) {
				a := v.(*ndarray.Array)
				mean, deviation, finite := liveliness(a)
				require.True(t, finite, "%s: %s is not finite", c.label, m.Graph.Results[i].Name)
				assert.Less(t, max(mean, -mean), 1e4, "%s: %s", c.label, m.Graph.Results[i].Name)
				if a.Len() > 1 && deviation < 1e-3 {
					assert.Contains(t, allowedFlat, m.Graph.Name, "%s: all elements of %s are %g", c.label, m.Graph.Results[i].Name, mean)
				}
			}
		}
	})
}

// allowedFlat are models with a result that may well be the same everywhere.
var allowedFlat = []string{"loop-inplace"}

// TestPlanners compares every program with the interpreter: every planner, with and
// without passes, every case, one session after the other in a poisoned arena.
func TestPlanners(t *testing.T) {
	each(t, func(t *testing.T, m *ssa.Module) {
		cases := casesOf(m)
		var want [][]ndarray.Value
		for _, c := range cases {
			want = append(want, interpret(t, m, c))
		}
		for _, planner := range berth.Planners() {
			for _, opts := range [][]berth.Option{{berth.WithCheck()}, {berth.WithoutPasses()}} {
				runAll(t, m, cases, want, append(opts, berth.WithPlanner(planner)))
			}
		}
	})
}

// TestTripsCoverRings makes sure that the iteration counts tried go twice around
// every loop's ring of places, and one further.
func TestTripsCoverRings(t *testing.T) {
	each(t, func(t *testing.T, m *ssa.Module) {
		p, err := program.Compile(context.Background(), m.Graph, program.Options{})
		require.NoError(t, err)
		p.Graph.Walk(func(g *ssa.Graph) {
			for _, n := range g.Nodes {
				if r := p.Timeline.Rotation(n); r != nil && n.Op == "Loop" {
					assert.LessOrEqual(t, int64(2*r.Ring+1), trips[len(trips)-1], "%s: ring %d", n, r.Ring)
				}
			}
		})
	})
}

// runAll compiles the model once for each of the cases' sets of shapes.
func runAll(t *testing.T, m *ssa.Module, cases []testCase, want [][]ndarray.Value, opts []berth.Option) {
	model := berth.FromModule(m)
	var session *berth.Session
	var shapes map[string][]int
	for i, c := range cases {
		if session == nil || !sameShapes(shapes, c.shapes) {
			session, shapes = newSession(t, model, c.shapes, opts), c.shapes
		}
		got, err := session.Run(context.Background(), c.args(m.Graph))
		require.NoError(t, err, c.label)
		require.Empty(t, graphgen.Noise.Diff(got, want[i]), "%s, %s", c.label, m.Graph.Name)
	}
}

func sameShapes(a, b map[string][]int) bool {
	for k, s := range a {
		if !slices.Equal(s, b[k]) {
			return false
		}
	}
	return len(a) == len(b)
}

func newSession(t *testing.T, m *berth.Model, shapes map[string][]int, opts []berth.Option) *berth.Session {
	for k, s := range shapes {
		opts = append(opts, berth.WithShape(k, s...))
	}
	p, err := m.Compile(context.Background(), opts...)
	require.NoError(t, err)
	s, err := p.NewSession()
	require.NoError(t, err)
	s.Poison(true)
	return s
}

// TestOpenShapes compiles models with their symbols left open: sizes are found
// while running, one program serves every size.
func TestOpenShapes(t *testing.T) {
	each(t, func(t *testing.T, m *ssa.Module) {
		if !slices.ContainsFunc(m.Graph.Params, func(p *ssa.Value) bool { return !p.Type.IsStatic() }) {
			return
		}
		session := newSession(t, berth.FromModule(m), nil, nil)
		for _, c := range casesOf(m) {
			got, err := session.Run(context.Background(), c.args(m.Graph))
			require.NoError(t, err, c.label)
			require.Empty(t, graphgen.Noise.Diff(got, interpret(t, m, c)), c.label)
		}
	})
}

// TestExport writes every model and reads it back: the same interface, the same
// numbers.
func TestExport(t *testing.T) {
	each(t, func(t *testing.T, m *ssa.Module) {
		path := filepath.Join(t.TempDir(), strings.ReplaceAll(m.Graph.Name, "/", "_")+".onnx")
		require.NoError(t, onnxexport.Save(m, path, onnxexport.Options{}))
		back, err := onnximport.Load(path, onnximport.Options{})
		require.NoError(t, err)
		defer back.Close()
		require.NoError(t, ops.Check(back.Graph))
		assert.Empty(t, back.Warnings)
		require.Equal(t, ports(m.Graph.Params), ports(back.Graph.Params))
		require.Equal(t, ports(m.Graph.Results), ports(back.Graph.Results))
		for _, c := range casesOf(m) {
			require.Empty(t, graphgen.Tolerance{}.Diff(interpret(t, back, c), interpret(t, m, c)), c.label)
		}
	})
}

func ports(vs []*ssa.Value) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Name+" "+v.Type.String())
	}
	return out
}

func BenchmarkBuild(b *testing.B) {
	for _, name := range []string{"mobilenetv2", "encoder", "resnet50"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := Build(name)
				require.NoError(b, err)
			}
		})
	}
}
