package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// named is a graph with known shapes.
type named struct {
	name  string
	graph *ssa.Graph
}

// recorded opens the models of the shared test data, shapes bound as in their
// first data set and folded.
func recorded(t testing.TB) []named {
	t.Helper()
	var out []named
	for _, dir := range []string{"onnx-conformance/light.tar.gz", "models"} {
		cases, err := conformance.Open(shareddata.Path(t, dir))
		require.NoError(t, err)
		for _, c := range cases {
			out = append(out, named{c.Name, open1(t, c)})
		}
	}
	return out
}

func open1(t testing.TB, c *conformance.Case) *ssa.Graph {
	data, err := c.ModelBytes()
	require.NoError(t, err)
	m, err := onnximport.FromBytes(data, c.ModelPath(), onnximport.Options{})
	require.NoError(t, err)
	sig, err := c.Signature(t.Context())
	require.NoError(t, err)
	names, err := c.SetNames()
	require.NoError(t, err)
	set, err := c.LoadSet(t.Context(), sig, names[0])
	require.NoError(t, err)
	shapes := map[string][]int{}
	for _, in := range set.Inputs {
		if a, ok := in.Value.(*ndarray.Array); ok {
			shapes[in.Name] = a.Shape
		}
	}
	bound := *m
	bound.Graph, err = ops.Bind(context.Background(), m.Graph, ops.Binding{Shapes: shapes})
	require.NoError(t, err, c.Name)
	folding := rewrite.Options{List: &rewrite.Runtime, Only: []string{"shape-fold", "fold", "dead"}, MaxOpset: -1}
	_, err = rewrite.Run(t.Context(), &bound, folding)
	require.NoError(t, err, c.Name)
	return bound.Graph
}

// builtin returns the built-in models.
func builtin(t testing.TB) []named {
	var out []named
	for _, b := range testmodels.List() {
		m, err := testmodels.Build(b.Name)
		require.NoError(t, err)
		out = append(out, named{b.Name, m.Graph})
	}
	return out
}

// drawn is a random graph of so many nodes: results over operands, slices,
// concatenations of the same and of different tensors, several results. Sizes are
// multiples of 64 bytes.
func drawn(t testing.TB, seed uint64, nodes int) *ssa.Graph {
	r := rand.New(rand.NewPCG(seed, 7))
	var b strings.Builder
	b.WriteString("graph \"g\" {\n in %x: float32[4,16]\n in %y: float32[8,16]\n in %w: float32[16,16]\n" +
		" const %st: int64[1] = [0]\n const %en: int64[1] = [2]\n")
	names, rows := []string{"x", "y"}, []int{4, 8}
	used := map[string]bool{}
	pick := func() int { return len(names) - 1 - min(r.IntN(len(names)), r.IntN(5)) }
	for i := range nodes {
		a, c := pick(), pick()
		name, n := fmt.Sprintf("v%d", i), rows[a]
		used[names[a]] = true
		switch k := r.IntN(7); {
		case k < 2:
			fmt.Fprintf(&b, " %%%s = Relu(%%%s)\n", name, names[a])
		case k < 4:
			fmt.Fprintf(&b, " %%%s = Concat(%%%s, %%%s) [axis=0]\n", name, names[a], names[c])
			used[names[c]] = true
			n += rows[c]
		case k == 4 && rows[a] == rows[c]:
			fmt.Fprintf(&b, " %%%s = Add(%%%s, %%%s)\n", name, names[a], names[c])
			used[names[c]] = true
		case k == 5 && n > 2:
			fmt.Fprintf(&b, " %%%s = Slice(%%%s, %%st, %%en)\n", name, names[a])
			n = 2
		default:
			fmt.Fprintf(&b, " %%%s = MatMul(%%%s, %%w)\n", name, names[a])
		}
		names, rows = append(names, name), append(rows, n)
	}
	var results []string
	for _, v := range names[2:] {
		if !used[v] || r.IntN(8) == 0 {
			results = append(results, "%"+v)
		}
	}
	fmt.Fprintf(&b, " out %s\n}\n", strings.Join(results, ", "))
	g, err := ssa.ParseGraph(b.String())
	require.NoError(t, err, b.String())
	require.NoError(t, ops.InferGraph(g))
	return g
}

// irregular is the text of a network of cells as architecture search finds them:
// each reads the two cells before it, and its branches are summed and concatenated
// in no regular way.
func irregular(cells int) string {
	var b strings.Builder
	b.WriteString("in %x: float32[16,16] in %w: float32[16,16] in %u: float32[96,16]\n")
	k := 0
	node := func(format string, in ...any) string {
		k++
		fmt.Fprintf(&b, "%%v%d = %s\n", k, fmt.Sprintf(format, in...))
		return fmt.Sprintf("%%v%d", k)
	}
	conv := func(x string) string { return node("MatMul(%s, %%w)", node("Relu(%s)", x)) }
	sep := func(x string) string { return conv(conv(x)) }
	pool := func(x string) string { return node("Softmax(%s)", x) }
	add := func(x, y string) string { return node("Add(%s, %s)", x, y) }
	last, now := conv("%x"), pool("%x")
	for range cells {
		h, p := conv(now), conv(last)
		out := node("Concat(%s, %s, %s, %s, %s, %s) [axis=0]", p, add(sep(h), h), add(sep(p), sep(h)), add(pool(h), p),
			add(pool(p), pool(p)), add(sep(p), sep(p)))
		last, now = now, node("MatMul(%s, %%u)", node("Transpose(%s) [perm=[1,0]]", out))
	}
	b.WriteString("out " + now)
	return b.String()
}

// eachOrder calls f with the graph in every legal order.
func eachOrder(g *ssa.Graph, f func()) {
	given := g.Nodes
	done := make([]bool, g.NumNodeIDs())
	order := make([]*ssa.Node, 0, len(given))
	var place func()
	place = func() {
		if len(order) == len(given) {
			g.Nodes = append([]*ssa.Node(nil), order...)
			f()
			return
		}
		for _, n := range given {
			if done[n.ID] || !canRun(n, done) {
				continue
			}
			done[n.ID] = true
			order = append(order, n)
			place()
			order = order[:len(order)-1]
			done[n.ID] = false
		}
	}
	place()
	g.Nodes = given
}

func canRun(n *ssa.Node, done []bool) bool {
	for _, v := range n.In {
		if v != nil && v.Def != nil && !done[v.Def.ID] {
			return false
		}
	}
	return true
}

// shuffle brings a graph and its bodies into a random legal order.
func shuffle(g *ssa.Graph, r *rand.Rand) {
	g.Walk(func(b *ssa.Graph) {
		done := make([]bool, b.NumNodeIDs())
		left := append([]*ssa.Node(nil), b.Nodes...)
		b.Nodes = b.Nodes[:0:0]
		for len(left) > 0 {
			k := r.IntN(len(left))
			for !canRun(left[k], done) {
				k = (k + 1) % len(left)
			}
			done[left[k].ID] = true
			b.Nodes = append(b.Nodes, left[k])
			left = append(left[:k], left[k+1:]...)
		}
	})
}
