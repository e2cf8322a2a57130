package fuse_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/schedule"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// programs lists the groups of a graph and its bodies.
func programs(g *ssa.Graph) (out []string) {
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			if fused.Is(n) {
				out = append(out, n.Attr("program").S)
			}
		}
	})
	return out
}

func apply(t testing.TB, text string, o fuse.Options) (*ssa.Graph, fuse.Report) {
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	given, _ := g.Clone()
	out, r, err := fuse.Apply(context.Background(), g, o)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(out))
	require.NoError(t, ops.Check(out))
	require.NoError(t, graphgen.CheckSources(given, out))
	return out, r
}

func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		want        []string
	}{
		{"a chain with broadcasts and a number", `graph "g" {
  in %x: float32[8,64]
  in %b: float32[64]
  const %k: float32[] = 2
  %m = Mul(%x, %k)
  %a = Add(%m, %b)
  %y = Relu(%a)
  out %y
}`, []string{"(float32, float32)\n%2 = float32 Constant 2\n%3 = float32 Mul %0 %2\n%4 = float32 Add %3 %1\n%5 = float32 Relu %4\nreturn %5\n"}},
		{"a softmax written out", `graph "g" {
  in %x: float32[8,64]
  const %axes: int64[1] = [-1]
  %top = ReduceMax(%x, %axes)
  %d = Sub(%x, %top)
  %e = Exp(%d)
  %s = ReduceSum(%e, %axes)
  %y = Div(%e, %s)
  out %y
}`, []string{"(float32) inner 1\n%1 = row float32 ReduceMax %0\n%2 = float32 Sub %0 %1\n%3 = float32 Exp %2\n%4 = row float32 ReduceSum %3\n%5 = float32 Div %3 %4\nreturn %5\n"}},
		{"a value that others read is a result", `graph "g" {
  in %x: float32[64]
  in %w: float32[64,64]
  %a = Neg(%x)
  %b = Exp(%a)
  %y = Tanh(%b)
  %z = MatMul(%b, %w)
  out %y, %z
}`, []string{"(float32)\n%1 = float32 Neg %0\n%2 = float32 Exp %1\n%3 = float32 Tanh %2\nreturn %2 %3\n"}},
		{"a reader in between keeps nodes apart", `graph "g" {
  in %x: float32[64]
  in %w: float32[64,64]
  %a = Neg(%x)
  %m = MatMul(%a, %w)
  %y = Add(%m, %a)
  out %y
}`, nil},
		{"integers, comparisons, choice", `graph "g" {
  in %x: int32[4,32]
  in %s: float32[4,1]
  const %zero: float32[] = 0
  %f = Cast(%x) [to=1]
  %m = Mul(%f, %s)
  %c = Less(%m, %zero)
  %y = Where(%c, %zero, %m)
  out %y
}`, []string{"(int32, float32)\n%2 = float32 Cast %0\n%3 = float32 Mul %2 %1\n%4 = float32 Constant 0\n%5 = bool Less %3 %4\n%6 = float32 Where %5 %4 %3\nreturn %6\n"}},
		{"no division by unknown integers", `graph "g" {
  in %x: int32[64]
  in %d: int32[64]
  %a = Neg(%x)
  %q = Div(%a, %d)
  %y = Neg(%q)
  out %y
}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _ := apply(t, c.graph, fuse.Options{Always: true})
			assert.Equal(t, c.want, programs(g), "%s", g)
		})
	}
}

// TestCosts has groups that are not worth it, and one that is.
func TestCosts(t *testing.T) {
	const chain, single, row, compared = `%a = Neg(%x) %b = Abs(%a) %y = Sqrt(%b) out %y`, `%y = Neg(%x) out %y`, `%y = Softmax(%x) [axis=-1] out %y`, `%y = Less(%x, %z) out %y`
	for _, c := range []struct {
		name, operand, nodes string
		groups               int
	}{
		{"tensors of the second cache", "float32[64,512]", chain, 0},
		{"single numbers", "float32[1]", chain, 0},
		{"unknown lengths", "float32[N,8]", chain, 0},
		{"tensors larger than any cache", "float32[4096,4096]", chain, 1},
		{"a node alone", "float32[4096,4096]", single, 0},
		{"a chain of a half type in the first cache", "float16[16,64]", chain, 0},
		{"a chain of a half type in the second cache", "float16[256,784]", chain, 1},
		{"a node of a half type alone", "bfloat16[256,784]", single, 1},
		{"a row of a half type alone", "float16[256,784]", row, 1},
		{"a comparison of half types", "float16[256,784] in %z: float16[256,784]", compared, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, r := apply(t, `graph "g" { in %x: `+c.operand+" "+c.nodes+" }", fuse.Options{})
			assert.Equal(t, c.groups, r.Groups)
		})
	}
}

// compiled runs a graph and returns its results and the bytes of its arena.
func compiled(t *testing.T, g *ssa.Graph, in []ndarray.Value, threads int) ([]ndarray.Value, error) {
	p, err := program.Compile(context.Background(), g, program.Options{Backend: cpu.New(), Threads: threads})
	require.NoError(t, err, "%s", g)
	s, err := p.NewSession()
	require.NoError(t, err)
	s.Poison = true
	return s.Run(context.Background(), in)
}

// TestRandomGraphs forms every group that is legal and compares graphs with and without: the
// interpreter's results, compiled results bit by bit, and what they need at once.
func TestRandomGraphs(t *testing.T) {
	groups, taken := 0, 0
	for seed := range uint64(160) {
		cfg := graphgen.Config{}
		if seed%2 == 0 {
			cfg = graphgen.Config{Features: graphgen.Elementwise | graphgen.Products | graphgen.Motifs | graphgen.Reductions | graphgen.Moves, Nodes: 14}
		}
		g, err := graphgen.New(seed, cfg)
		require.NoError(t, err)
		_, err = schedule.MinPeak(t.Context(), g)
		require.NoError(t, err)
		given, _ := g.Clone()
		out, r, err := fuse.Apply(t.Context(), given, fuse.Options{Threads: 2, Always: true})
		require.NoError(t, err)
		if groups, taken = groups+r.Groups, taken+r.TakenBack; r.Groups == 0 {
			continue
		}
		require.NoError(t, ops.InferGraph(out), "seed %d", seed)
		require.NoError(t, ops.Check(out), "seed %d", seed)
		assert.LessOrEqual(t, peak(t, out), peak(t, g), "seed %d", seed)
		require.NoError(t, graphgen.Agree(t.Context(), g, out, seed, 1), "seed %d\n%s\n%s", seed, g, out)
		in, err := graphgen.Inputs(rand.New(rand.NewPCG(seed, 1)), g, map[string]int64{})
		if err != nil {
			continue
		}
		want, err := compiled(t, g, in, 1)
		got, err2 := compiled(t, out, in, 2)
		require.Equal(t, err == nil, err2 == nil, "seed %d: %v, %v", seed, err, err2)
		for i := range want {
			requireSameBits(t, want[i], got[i], seed)
		}
	}
	t.Log(groups, "groups;", taken, "taken back")
	assert.Greater(t, groups, 60)
}

func peak(t *testing.T, g *ssa.Graph) int64 {
	_, f, err := inplace.Lay(context.Background(), g, liveness.Options{}, inplace.Options{})
	require.NoError(t, err)
	return f.Peak()
}

func requireSameBits(t *testing.T, want, got ndarray.Value, seed uint64) {
	a, ok := want.(*ndarray.Array)
	if !ok || a.DType == ndarray.String {
		return
	}
	b := got.(*ndarray.Array)
	require.Equal(t, a.Shape, b.Shape)
	require.True(t, bytes.Equal(a.Data, b.Data), "seed %d: %s, %s", seed, strings.TrimSpace(a.String()), b)
}
