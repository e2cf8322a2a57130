package schedule

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// leastOf is the least that any order needs with any of the decisions that can be
// asked for.
func leastOf(t testing.TB, g *ssa.Graph) int64 {
	least := int64(math.MaxInt64)
	eachOrder(g, func() {
		for _, windows := range []bool{true, false} {
			tl, err := liveness.Build(context.Background(), g, liveness.Options{Windows: windows})
			require.NoError(t, err)
			for _, o := range []inplace.Options{{}, {NoConcat: true}} {
				least = min(least, inplace.Fold(context.Background(), tl, o).Peak())
			}
		}
	})
	return least
}

// TestMinPeakOfRandomGraphs compares with all orders. Folding decides on
// concatenations as it goes, so now and then it does better in an order that the
// search has no reason to look at.
func TestMinPeakOfRandomGraphs(t *testing.T) {
	const graphs = 300
	found, proven, improved := 0, 0, 0
	for seed := range uint64(graphs) {
		g := drawn(t, seed, 7)
		least := leastOf(t, g)
		file, err := needOf(g)
		require.NoError(t, err)
		r, err := MinPeak(t.Context(), g)
		require.NoError(t, err)
		require.LessOrEqual(t, r.LowerBound, least, "seed %d: the bound does not hold\n%s", seed, g)
		require.LessOrEqual(t, least, r.Peak, "seed %d\n%s", seed, g)
		require.LessOrEqual(t, r.Peak, file, "seed %d: worse than the file\n%s", seed, g)
		require.Equal(t, r.Proven, r.Peak == r.LowerBound)
		need, err := needOf(g)
		require.NoError(t, err)
		require.Equal(t, need, r.Peak, "seed %d: the order does not need what is said", seed)
		if r.Peak == least {
			found++
		}
		if r.Proven {
			proven++
		}
		if r.Peak < file {
			improved++
		}
	}
	t.Logf("of %d: %d least of all orders, %d proven, %d better than given", graphs, found, proven, improved)
	assert.GreaterOrEqual(t, found, graphs*98/100)
	assert.GreaterOrEqual(t, proven, graphs*90/100)
	assert.GreaterOrEqual(t, improved, graphs/20)
}

// TestOrders: every order is legal, computes the same types, keeps all nodes, and
// is the same every time; "min-peak" is never worse than another.
func TestOrders(t *testing.T) {
	graphs := builtin(t)
	for seed := range uint64(60) {
		g, err := graphgen.New(seed, graphgen.Config{Nodes: 20})
		require.NoError(t, err)
		graphs = append(graphs, named{g.Name, g})
	}
	for _, m := range graphs {
		needs := map[string]int64{}
		for _, name := range Names() {
			one, _ := m.graph.Clone()
			two, _ := m.graph.Clone()
			requireApply(t, one, name)
			requireApply(t, two, name)
			require.NoError(t, ops.Check(one), "%s %s", m.name, name)
			require.Equal(t, one.String(), two.String(), "%s %s", m.name, name)
			require.Equal(t, lines(m.graph), lines(one), "%s %s", m.name, name)
			needs[name], _ = needOf(one)
		}
		for _, name := range Names() {
			if !strings.HasPrefix(m.name, "seed") || !hasControl(m.graph) { // bodies are weighed alone
				assert.LessOrEqual(t, needs["min-peak"], needs[name], "%s: %s", m.name, name)
			}
		}
	}
}

func hasControl(g *ssa.Graph) bool {
	return slices.ContainsFunc(g.Nodes, ops.IsControl)
}

// lines are the nodes of a graph and its bodies in no order.
func lines(g *ssa.Graph) []string {
	var out []string
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			out = append(out, fmt.Sprint(n.Op, n.ID, len(n.In), len(n.Out)))
		}
	})
	slices.Sort(out)
	return out
}

func parse(t testing.TB, text string) *ssa.Graph {
	g, err := ssa.ParseGraph("graph \"g\" {\n" + text + "\n}\n")
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	return g
}

func opsOf(g *ssa.Graph) string {
	var out []string
	for _, n := range g.Nodes {
		out = append(out, n.Out[0].Name)
	}
	return strings.Join(out, " ")
}

func TestNamedOrders(t *testing.T) {
	fork := `in %x: float32[1,64] in %w: float32[64,64] in %v: float32[64,640]
		%a = MatMul(%x, %w) %b = MatMul(%a, %v) %c = MatMul(%a, %w)
		%d = ReduceSum(%b) %e = MatMul(%c, %w) %f = Add(%d, %e) out %f`
	late := `in %x: float32[1,64] in %w: float32[64,64] in %v: float32[64,640]
		%a = MatMul(%x, %v) %b = MatMul(%x, %v) %c = ReduceSum(%a) %d = ReduceSum(%b) %e = Add(%c, %d) out %e`
	plain := `in %x: float32[4] %a = Neg(%x) %b = Exp(%a) %c = Neg(%b) out %c`
	cases := []struct {
		name, graph, order, want string
	}{
		{"the file's order is kept", fork, "file", "a b c d e f"},
		{"breadth first takes what is ready first", fork, "bfs", "a b c d e f"},
		{"depth first finishes a branch", fork, "dfs", "a b d c e f"},
		{"greedy takes what leaves the least", fork, "greedy", "a c e b d f"},
		{"the tall branch runs while nothing waits", fork, "min-peak", "a b d c e f"},
		{"what only takes memory waits for its reader", late, "min-peak", "a c b d e"},
		{"depth first does so too", late, "dfs", "a c b d e"},
		{"where nothing can be gained the order stays", plain, "min-peak", "a b c"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, c.graph)
			requireApply(t, g, c.order)
			assert.Equal(t, c.want, opsOf(g))
		})
	}
}

func TestUnknownOrder(t *testing.T) {
	_, err := Apply(t.Context(), ssa.NewGraph("g"), "sideways")
	assert.EqualError(t, err, `there is no schedule "sideways"; there are min-peak, file, bfs, dfs, greedy`)
}

// TestMinPeakEndsWithItsContext: without time there is no answer, and the graph is
// still a legal one.
func TestMinPeakEndsWithItsContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for seed := range uint64(40) {
		g := drawn(t, seed, 7)
		_, err := MinPeak(ended, g)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, ops.Check(g))
	}
}

// TestAheadIsTheSame: a large graph has the same answer where the given order is laid out while another one is searched.
func TestAheadIsTheSame(t *testing.T) {
	var text strings.Builder
	text.WriteString("in %x0: float32[256]\n")
	blocks := aheadFrom/4 + 1
	for i := range blocks {
		fmt.Fprintf(&text, "%%a%d = Exp(%%x%d) %%b%d = Neg(%%x%d) %%s%d = ReduceMax(%%b%d) %%x%d = Mul(%%a%d, %%s%d)\n", i, i, i, i, i, i, i+1, i, i)
	}
	fmt.Fprintf(&text, "out %%x%d", blocks)
	answer := func(cores int) (*Result, []string) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		g := parse(t, text.String())
		r, err := MinPeak(t.Context(), g)
		require.NoError(t, err)
		require.NotNil(t, r.Timeline, "large")
		return &Result{Peak: r.Peak, LowerBound: r.LowerBound, Proven: r.Proven, Nodes: r.Nodes}, strings.Fields(opsOf(g))
	}
	alone, order := answer(1)
	together, same := answer(2)
	assert.Equal(t, alone, together)
	assert.Equal(t, order, same)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := MinPeak(ended, parse(t, text.String()))
	require.ErrorIs(t, err, context.Canceled)
}

// TestIrregularCells: cells that reach over each other have no cut between them,
// but what one cell leaves is all that the next ones see.
func TestIrregularCells(t *testing.T) {
	for _, cells := range []int{1, 2, 6, 12} {
		g := parse(t, irregular(cells))
		r, err := MinPeak(t.Context(), g)
		require.NoError(t, err)
		assert.True(t, r.Proven, "%d cells: %+v", cells, *r)
	}
	wide := drawn(t, 1, 300) // has nothing to hold on to: it ends all the same
	r, err := MinPeak(t.Context(), wide)
	require.NoError(t, err)
	assert.Positive(t, r.LowerBound)
	t.Logf("wide: %+v", *r)
}

// TestRecordedModels logs what every order of the recorded models needs, and how
// long the search takes. What is known to be proven stays so.
func TestRecordedModels(t *testing.T) {
	proven := map[string]int64{
		"light_bvlc_alexnet": 2239488, "light_densenet121": 7225344, "light_inception_v1": 4646400,
		"light_resnet50": 7225344, "light_shufflenet": 2885120, "light_vgg19": 25690112, "light_zfnet512": 9124608,
		"bert_mini": 111616, "gpt2_mini_kv": 61440, "mobilenetv3_small": 1128960, "nudenet_320n": 3276800, "ppocr_cls": 331776,
		"ppocr_det": 2293760, "ppocr_rec": 1966080, "vit_mini": 768320, "wakeword": 256, "ddddocr_quantized": 1105920, "bilstm_gru_ctc": 76800,
	}
	// Where a pooling over its operand decides, the bound is weaker: it does not see
	// that the result keeps all of the operand's place.
	reached := map[string]int64{"light_squeezenet": 3347776, "light_inception_v2": 4014080}
	for _, m := range recorded(t) {
		row := fmt.Sprintf("%-20s %4d nodes", m.name, len(m.graph.Nodes))
		least := int64(math.MaxInt64)
		for _, name := range []string{"file", "bfs", "dfs", "greedy"} {
			g, _ := m.graph.Clone()
			requireApply(t, g, name)
			need, err := needOf(g)
			require.NoError(t, err)
			row += fmt.Sprintf(" | %s %9d", name, need)
			least = min(least, need)
		}
		start := time.Now()
		r, err := MinPeak(t.Context(), m.graph)
		require.NoError(t, err)
		t.Logf("%s | min-peak %9d, at least %9d, proven %-5v, %d sets, %v", row, r.Peak, r.LowerBound, r.Proven, r.Nodes, time.Since(start).Round(10*time.Microsecond))
		assert.LessOrEqual(t, r.Peak, least, m.name)
		if want, ok := proven[m.name]; ok {
			assert.True(t, r.Proven, m.name)
			assert.Equal(t, want, r.Peak, m.name)
		}
		if want, ok := reached[m.name]; ok {
			assert.Equal(t, want, r.Peak, m.name)
		}
	}
}

func BenchmarkMinPeak(b *testing.B) {
	for _, m := range recorded(b) {
		b.Run(m.name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				g, _ := m.graph.Clone()
				b.StartTimer()
				if _, err := MinPeak(b.Context(), g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func requireApply(t *testing.T, g *ssa.Graph, name string) {
	t.Helper()
	r, err := Apply(t.Context(), g, name)
	require.NoError(t, err)
	require.Equal(t, name == "min-peak", r != nil, "only a search has a result")
}

// needOf is what a graph needs at once in its present order.
func needOf(g *ssa.Graph) (int64, error) {
	x, err := lay(context.Background(), g, nil, nil, 0)
	if err != nil {
		return 0, err
	}
	return x.folding.Peak(), nil
}
