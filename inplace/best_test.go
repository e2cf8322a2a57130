package inplace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
)

func parse(t testing.TB, text string) *ssa.Graph {
	g, err := ssa.ParseGraph("graph \"g\" {\n" + text + "\n}\n")
	require.NoError(t, err, text)
	require.NoError(t, ops.InferGraph(g))
	return g
}

func lay(t testing.TB, g *ssa.Graph) *liveness.Timeline {
	tl, err := liveness.Build(context.Background(), g, liveness.Options{Windows: true})
	require.NoError(t, err)
	return tl
}

// decided folds with every decision prescribed: bit i says whether fold i, in the
// order in which Fold tries them, is made.
func decided(t *liveness.Timeline, list []over, wins []windowUse, bits uint) int64 {
	ctx := context.Background()
	f := foldingOf(ctx, t)
	f.mergeAlternatives(ctx, func(a, b int) bool { return true })
	next := func() bool { b := bits&1 == 1; bits >>= 1; return b }
	for _, o := range list {
		if !o.smaller && next() {
			f.try(o.in, o.out, 0, o.points)
		}
	}
	for _, u := range wins {
		if next() {
			f.place(u)
		}
	}
	for _, o := range list {
		if o.smaller && next() && f.bare(o.in) && f.bare(o.out) {
			f.try(o.in, o.out, 0, o.points)
		}
	}
	return f.Peak()
}

// exhaustive is the least peak over all decisions; ok is false if there are too
// many to go through.
func exhaustive(t *liveness.Timeline) (least int64, ok bool) {
	list := overs(context.Background(), &t.Layout, nil)
	var wins []windowUse
	for _, w := range concatsOf(context.Background(), &t.Layout) {
		wins = append(wins, w.uses...)
	}
	n := len(list) + len(wins)
	if n > 13 {
		return 0, false
	}
	least = 1 << 62
	for bits := range uint(1) << n {
		least = min(least, decided(t, list, wins, bits))
	}
	return least, true
}

// drawn is a random graph of nodes that may write over operands, into
// concatenations, and over larger operands.
func drawn(t testing.TB, seed uint64, nodes int) *ssa.Graph {
	r := rand.New(rand.NewPCG(seed, 11))
	var b strings.Builder
	b.WriteString("in %x: float32[4,16] in %w: float32[16,16] const %one: int64[1] = [1]\n")
	names, rows := []string{"x"}, []int{4}
	used := map[string]bool{}
	pick := func() int { return len(names) - 1 - min(r.IntN(len(names)), r.IntN(4)) }
	for i := range nodes {
		a, c := pick(), pick()
		name, n := fmt.Sprintf("v%d", i), rows[a]
		used[names[a]] = true
		switch k := r.IntN(9); {
		case k < 3 && rows[a] == rows[c]:
			fmt.Fprintf(&b, " %%%s = Add(%%%s, %%%s)\n", name, names[a], names[c])
			used[names[c]] = true
		case k < 5:
			fmt.Fprintf(&b, " %%%s = Concat(%%%s, %%%s) [axis=0]\n", name, names[a], names[c])
			used[names[c]] = true
			n += rows[c]
		case k == 5:
			fmt.Fprintf(&b, " %%%s = Relu(%%%s)\n", name, names[a])
		case k == 6: // smaller, and back
			fmt.Fprintf(&b, " %%%sr = ReduceMax(%%%s, %%one)\n %%%s = MatMul(%%%sr, %%one_row)\n", name, names[a], name, name)
		default:
			fmt.Fprintf(&b, " %%%s = MatMul(%%%s, %%w)\n", name, names[a])
		}
		names, rows = append(names, name), append(rows, n)
	}
	var results []string
	for _, v := range names[1:] {
		if !used[v] || r.IntN(8) == 0 {
			results = append(results, "%"+v)
		}
	}
	text := strings.Replace(b.String(), "\n", "\nin %one_row: float32[1,16]\n", 1)
	return parse(t, text+"out "+strings.Join(results, ", "))
}

// TestFoldAgainstAllChoices compares the folds taken with the best of all.
func TestFoldAgainstAllChoices(t *testing.T) {
	graphs, best, greedy, over := 0, 0, 0, 0.0
	for seed := range uint64(1500) {
		tl := lay(t, drawn(t, seed, 4+int(seed%6)))
		least, ok := exhaustive(tl)
		if !ok {
			continue
		}
		f := Fold(context.Background(), tl, Options{})
		first := foldWith(context.Background(), tl, options{true, overs(context.Background(), &tl.Layout, nil), concatsOf(context.Background(), &tl.Layout), 0}, nil)
		require.GreaterOrEqual(t, f.Peak(), least, "seed %d: better than the best: exhaustive leaves something out", seed)
		require.LessOrEqual(t, f.least, least, "seed %d: the bound does not hold", seed)
		graphs++
		if f.Peak() == least {
			best++
		} else {
			over = max(over, float64(f.Peak())/float64(least)-1)
		}
		if first.Peak() == least {
			greedy++
		}
	}
	t.Logf("%d graphs: %d as good as the best of all choices (%.2f%%), %d without the search; at most %.0f%% above", graphs, best,
		100*float64(best)/float64(graphs), greedy, 100*over)
	assert.Greater(t, graphs, 400)
	assert.Greater(t, float64(best)/float64(graphs), 0.97)
	assert.Greater(t, best, greedy, "the search finds nothing")
}

// TestChoices: small programs in which it matters what is folded.
func TestChoices(t *testing.T) {
	const in = "in %x: float32[4,16] in %w: float32[16,16] in %row: float32[1,16] const %one: int64[1] = [1]\n"
	for _, c := range []struct {
		name, text    string
		plain, greedy int64 // peak with nothing folded, and without the search
		want          int64
	}{
		{"a relu over its operand", "%a = MatMul(%x, %w) %b = Relu(%a) out %b", 512, 256, 256},
		{"a reduction over its larger operand", "%a = MatMul(%x, %w) %b = ReduceMax(%a, %one) out %b", 320, 256, 256},
		{"not where the large place would stay for long: the peak is elsewhere",
			"%a = MatMul(%x, %w) %b = ReduceMax(%a, %one) %c = MatMul(%b, %row) %d = Concat(%c, %c, %c) [axis=0] %e = MatMul(%d, %w) out %e, %b", 1600, 1600, 1600},
		{"an operand made in a concatenation, another not: the first would hold all of it too early",
			"%v0 = Concat(%x, %x) [axis=0] %v1 = MatMul(%x, %w) %r = ReduceMax(%v0, %one) %v2 = MatMul(%r, %row) %v3 = Concat(%v2, %v1) [axis=0] out %v3", 1536, 1088, 1088},
		{"a sum over the relu, so that its first operand lies in the concatenation",
			"%v0 = Concat(%x, %x) [axis=0] %v1 = Concat(%v0, %v0) [axis=0] %v2 = Relu(%v1) %v3 = Add(%v1, %v2) out %v0, %v3", 3584, 2560, 2048},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl := lay(t, parse(t, in+c.text))
			least, ok := exhaustive(tl)
			require.True(t, ok)
			assert.Equal(t, c.plain, Fold(context.Background(), tl, Options{NoInPlace: true}).Peak(), "nothing folded")
			assert.Equal(t, c.greedy, foldWith(context.Background(), tl, options{true, overs(context.Background(), &tl.Layout, nil), concatsOf(context.Background(), &tl.Layout), 0}, nil).Peak(), "without the search")
			assert.Equal(t, c.want, Fold(context.Background(), tl, Options{}).Peak())
			assert.Equal(t, least, c.want, "the best of all choices")
		})
	}
}

// BenchmarkFold folds chains of growing length: the time per node must not grow with it.
func BenchmarkFold(b *testing.B) {
	for name, grow := range map[string]func(g *ssa.Graph, v *ssa.Value) *ssa.Value{
		"chain": func(g *ssa.Graph, v *ssa.Value) *ssa.Value { return g.NewNode("Relu", []*ssa.Value{v}, 1).Out[0] },
		"sums": func(g *ssa.Graph, v *ssa.Value) *ssa.Value {
			a, b := g.NewNode("Exp", []*ssa.Value{v}, 1).Out[0], g.NewNode("Relu", []*ssa.Value{v}, 1).Out[0]
			return g.NewNode("Add", []*ssa.Value{a, b}, 1).Out[0]
		},
		"concatenations": func(g *ssa.Graph, v *ssa.Value) *ssa.Value {
			a, b := g.NewNode("Exp", []*ssa.Value{v}, 1).Out[0], g.NewNode("Relu", []*ssa.Value{v}, 1).Out[0]
			c := g.NewNode("Concat", []*ssa.Value{a, b}, 1, ssa.IntAttr("axis", 0)).Out[0]
			return g.NewNode("ReduceSum", []*ssa.Value{c, g.AddConst("", ssa.Int64s(0))}, 1).Out[0]
		},
	} {
		for _, nodes := range []int{5000, 20000} {
			b.Run(fmt.Sprintf("%s/%d", name, nodes), func(b *testing.B) {
				g := ssa.NewGraph(name)
				v := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 1, 64))
				for len(g.Nodes) < nodes {
					v = grow(g, v)
				}
				g.Results = []*ssa.Value{v}
				require.NoError(b, ops.InferGraph(g))
				tl := lay(b, g)
				for b.Loop() {
					Fold(context.Background(), tl, Options{})
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes), "ns/node")
			})
		}
	}
}
