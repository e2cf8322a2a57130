package fuse_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// withEpilogues is a graph after the pass.
func withEpilogues(t *testing.T, g *ssa.Graph) (*ssa.Graph, int) {
	c, _ := g.Clone()
	n, err := fuse.Epilogues(t.Context(), c, cpu.New().Layouts())
	require.NoError(t, err)
	require.NoError(t, ops.Check(c), "%s", c)
	require.NoError(t, graphgen.CheckSources(g, c))
	return c, n
}

// weightsOf are constants of products, with values of both signs.
const weightsOf = `const %w: float32[3,4] = [0.5, -1, 2, 0.25, 1, -0.5, 0.75, -2, 0.1, 0.2, -0.3, 0.4]
	const %c: float32[2,3,1,1] = [0.5, -1, 2, 0.25, 1, -0.5] const %half: float32[] = 0.5 const %row: float32[4] = [1, -1, 2, 0.5] `

func TestEpilogues(t *testing.T) {
	for _, c := range []struct{ name, graph, want string }{
		{"residual and activation", `in %x: float32[1,3,40,40] in %r: float32[1,2,40,40] %y = Conv(%x, %c) %s = Add(%r, %y) %z = Relu(%s) out %z`, "Conv{Add Relu}"},
		{"the later of two products adds", `in %x: float32[1,3,40,40] %y = Conv(%x, %c) %y2 = Conv(%x, %c) %s = Add(%y, %y2) out %s`, "Conv{} Conv{Add}"},
		{"chains in a chain", `in %x: float32[1,3,40,40] %y = Conv(%x, %c) %a = Relu(%y) %y2 = Conv(%x, %c) %s = Add(%y2, %a) %z = Tanh(%s) out %z`, "Conv{Relu} Conv{Add Tanh}"},
		{"another reader", `in %x: float32[1,3,40,40] %y = Conv(%x, %c) %z = Relu(%y) out %z, %y`, "Conv{} Relu{}"},
		{"a result", `in %x: float32[1,3,40,40] %y = Conv(%x, %c) %z = Relu(%y) %u = Exp(%z) out %z, %u`, "Conv{Relu} Exp{}"},
		{"no kernel for more", `in %x: float32[1,3,40,40] %y = Conv(%x, %c) %z = Relu(%y) %u = Exp(%z) %v = Relu(%u) out %v`, "Conv{Relu} Exp{} Relu{}"},
		{"few positions", `in %x: float32[1,3,2,2] in %r: float32[1,2,2,2] %y = Conv(%x, %c) %s = Add(%r, %y) out %s`, "Conv{} Add{}"},
		{"open dimensions", `in %x: float32[N,3,M,M] in %r: float32[N,2,M,M] %y = Conv(%x, %c) %z = Swish(%y) %s = Add(%r, %z) out %s`, "Conv{Swish} Add{}"},
		{"a limit that is computed", `in %x: float32[1,3,40,40] in %l: float32[] %y = Conv(%x, %c) %z = Clip(%y, %l) out %z`, "Conv{} Clip{}"},
		{"limits", `in %x: float32[1,3,40,40] %y = Conv(%x, %c) %z = Clip(%y, %half) out %z`, "Conv{Clip}"},
		{"infinities", `in %x: float32[7,1] const %i: float32[1,4] = [inf, -inf, inf, 1] %y = MatMul(%x, %i) %z = Clip(%y, %half) out %z`, "MatMul{Clip}"},
		{"a row, a residual, an activation", `in %x: float32[N,7,3] in %r: float32[N,7,4] %y = MatMul(%x, %w) %b = Add(%row, %y) %s = Add(%b, %r) %z = Gelu(%s) out %z`, "MatMul{Add Add Gelu}"},
		{"a broadcast residual", `in %x: float32[5,7,3] in %r: float32[7,4] %y = MatMul(%x, %w) %s = Add(%y, %r) out %s`, "MatMul{} Add{}"},
		{"a result that is larger", `in %x: float32[1,3] in %r: float32[7,4] %y = MatMul(%x, %w) %s = Add(%y, %r) out %s`, "MatMul{} Add{}"},
		{"weights that are computed", `in %x: float32[7,3] in %v: float32[3,4] %y = MatMul(%x, %v) %z = Relu(%y) out %z`, "MatMul{} Relu{}"},
		{"Gemm with a row", `in %x: float32[7,3] in %r: float32[7,4] %y = Gemm(%x, %w, %row) %s = Add(%y, %r) %z = Tanh(%s) out %z`, "Gemm{Add Tanh}"},
		{"Gemm with a matrix", `in %x: float32[7,3] in %q: float32[7,4] in %r: float32[7,4] %y = Gemm(%x, %w, %q) %z = Tanh(%y) %s = Add(%z, %r) out %s`, "Gemm{Tanh} Add{}"},
		{"Gemm with a scaled row", `in %x: float32[7,3] in %r: float32[7,4] %y = Gemm(%x, %w, %row) [beta=0.5] %s = Add(%y, %r) out %s`, "Gemm{} Add{}"},
		{"a carried value", `in %x: float32[2,4] const %n: int64[] = 5 const %t: bool[] = true
			%y = Loop(%n, %t, %x) { body: graph "b" { in %i: int64[] in %k: bool[] in %h: float32[2,4]
				const %v: float32[4,4] = [0.5, -1, 2, 0.25, 1, -0.5, 0.75, -2, 0.1, 0.2, -0.3, 0.4, 1, 2, 3, 4]
				%a = MatMul(%h, %v) %b = Relu(%a) %m = MatMul(%b, %v) %z = Tanh(%m) out %k, %z } } out %y`, "Loop{} MatMul{Relu} MatMul{} Tanh{}"},
		{"a normalization", `in %x: float32[1,2,9,9] const %n: float32[2] = [1.5, 0.5] %y = BatchNormalization(%x, %n, %n, %n, %n) %z = Relu(%y) out %z`, "BatchNormalization{Relu}"},
		{"a normalization adds nothing", `in %x: float32[1,2,9,9] const %n: float32[2] = [1.5, 0.5] %y = BatchNormalization(%x, %n, %n, %n, %n) %z = Add(%y, %x) out %z`, "BatchNormalization{} Add{}"},
		{"a transposed convolution", `in %x: float32[1,2,9,9] %y = ConvTranspose(%x, %c) [strides=[2,2]] %z = LeakyRelu(%y) out %z`, "ConvTranspose{LeakyRelu}"},
		{"a transposed convolution of few positions", `in %x: float32[1,2,1,2] %y = ConvTranspose(%x, %c) %z = Sigmoid(%y) out %z`, "ConvTranspose{Sigmoid}"},
		{"a transposed convolution adds nothing", `in %x: float32[1,2,9,9] in %r: float32[1,3,9,9] %y = ConvTranspose(%x, %c) %z = Add(%y, %r) out %z`, "ConvTranspose{} Add{}"},
		{"float64", `in %x: float64[7,3] const %v: float64[3,2] = [1, 2, 3, 4, 5, 6] %y = MatMul(%x, %v) %z = Relu(%y) out %z`, "MatMul{} Relu{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph("graph \"g\" {\n" + weightsOf + c.graph + "\n}\n")
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			made, _ := withEpilogues(t, g)
			assert.Equal(t, c.want, chainsOf(made), "%s", made)
			require.NoError(t, graphgen.Agree(t.Context(), g, made, 1, 2))
			runProducts(t, g, made, 1)
		})
	}
}

// chainsOf lists the nodes of a graph and its bodies with the operators of their programs.
func chainsOf(g *ssa.Graph) string {
	var out []string
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			var steps []string
			if a := n.Attr("program"); a != nil {
				for line := range strings.Lines(string(a.S)) {
					if f := strings.Fields(line); len(f) > 3 && f[1] == "=" && f[3] != "Constant" {
						steps = append(steps, f[3])
					}
				}
			}
			out = append(out, n.Op+"{"+strings.Join(steps, " ")+"}")
		}
	})
	return strings.Join(out, " ")
}

// runProducts compares the kernels, in poisoned arenas and on several threads, with the interpreter
// of the graph as it was.
func runProducts(t *testing.T, before, after *ssa.Graph, seed uint64) {
	t.Helper()
	in, err := graphgen.Inputs(rand.New(rand.NewPCG(seed, 9)), before, map[string]int64{"N": 3, "M": 40})
	require.NoError(t, err)
	want, err := ops.Interpret(t.Context(), before, in, nil)
	require.NoError(t, err)
	var first []ndarray.Value
	for _, threads := range []int{1, 3} {
		pl, err := planner.Get("auto")
		require.NoError(t, err)
		p, err := program.Compile(t.Context(), after, program.Options{Planner: pl, Backend: cpu.New(), Threads: threads})
		require.NoError(t, err)
		require.NoError(t, program.Check(t.Context(), p))
		s, err := p.NewSession()
		require.NoError(t, err)
		s.Poison = true
		got, err := s.Run(t.Context(), in)
		require.NoError(t, err, "%s", after)
		require.Empty(t, graphgen.Noise.Diff(got, want), "%s", after)
		if first == nil {
			for _, v := range got {
				first = append(first, ndarray.CloneValue(v))
			}
		}
		require.Equal(t, first, append([]ndarray.Value{}, got...), "%d threads", threads)
	}
}

// TestEpiloguesOfProducts draws products of every form with sums and activations behind them: each gets
// all of them, and has a kernel.
func TestEpiloguesOfProducts(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for seed := range uint64(150) {
			g := drawnProduct(t, rand.New(rand.NewPCG(seed, 77)))
			made, n := withEpilogues(t, g)
			require.Equal(t, 1, n, "%s", g)
			require.Len(t, made.Nodes, 1, "%s", g)
			p, err := cpu.New().Prepare(t.Context(), made.Nodes[0], 1)
			require.NoError(t, err)
			require.NotNil(t, p.Kernel, "%s", made)
			if seed%5 == 0 {
				require.NoError(t, graphgen.Agree(t.Context(), g, made, seed, 1), "%s", made)
			}
			runProducts(t, g, made, seed)
		}
	})
}

func drawnProduct(t *testing.T, r *rand.Rand) *ssa.Graph {
	g := ssa.NewGraph("product")
	batch := [][]int{nil, {3}, {2, 3}}[r.IntN(3)]
	m, k, n := 1+r.IntN(40), 1+r.IntN(300), 2+r.IntN(90)
	constant := func(shape ...int) *ssa.Value {
		a := ndarray.Must(ndarray.Float32, shape...)
		for i := range a.Len() {
			a.SetFloat(i, (r.Float64()*2-1)/4)
		}
		return g.AddConst("c"+fmt.Sprint(len(shape), a.Len()), ssa.NewConstant(a))
	}
	param := func(name string, shape ...int) *ssa.Value {
		return g.AddParam(name, ssa.StaticTensor(ndarray.Float32, shape...))
	}
	op := func(name string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
		x := g.NewNode(name, in, 1, attrs...)
		require.NoError(t, ops.Infer(x))
		return x.Out[0]
	}
	var y *ssa.Value
	hasRow := r.IntN(2) == 0
	switch gemm := r.IntN(2) == 0; {
	case gemm:
		batch = nil
		in := []*ssa.Value{param("x", m, k), constant(k, n)}
		if hasRow {
			in = append(in, constant(n))
		}
		y = op("Gemm", in, ssa.FloatAttr("alpha", 0.5))
	default:
		w := []int{k, n}
		if r.IntN(3) == 0 {
			w = append(append([]int{}, batch...), w...)
		}
		y = op("MatMul", []*ssa.Value{param("x", append(append([]int{}, batch...), m, k)...), constant(w...)})
		if hasRow {
			y = op("Add", []*ssa.Value{y, param("b", n)})
		}
	}
	isSum := r.IntN(2) == 0
	if isSum {
		y = op("Add", []*ssa.Value{param("r", append(append([]int{}, batch...), m, n)...), y})
	}
	if acts := []string{"Relu", "LeakyRelu", "Elu", "HardSigmoid", "HardSwish", "Sigmoid", "Swish", "Tanh", "Gelu", "Mish", "Softplus", "Softsign"}; !isSum || r.IntN(3) > 0 {
		y = op(acts[r.IntN(len(acts))], []*ssa.Value{y})
	}
	g.Results = append(g.Results, y)
	return g
}
