package gorgonia_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

var asOps = berth.WithBackend(gorgonia.Name)

// executed prepares a case whose nodes run as gorgonia.Ops in a poisoned arena of the size that other backends plan.
func executed(t *testing.T, ran map[string]int) conformance.Prepare {
	return func(ctx context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
		data, err := c.ModelBytes()
		if err != nil {
			return nil, nil, err
		}
		m, err := berth.Parse(data)
		if err != nil {
			return nil, nil, err
		}
		run := func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
			return execute(ctx, t, m, in, ran)
		}
		return run, m.Close, nil
	}
}

// plainNodes compile a program for the usual backend from the nodes that an executor runs, too: channel-blocked tensors,
// groups of operators, attentions, products with what is behind them and products of tables are for that backend alone.
var plainNodes = []berth.Option{berth.WithoutPass("attention"), berth.WithoutPass("epilogues"), berth.WithoutPass("layout"), berth.WithoutPass("groups"), berth.WithoutPass("tables")}

func execute(ctx context.Context, t *testing.T, m *berth.Model, in []conformance.Named, ran map[string]int) ([]conformance.Named, error) {
	given := map[string]ndarray.Value{}
	var opts []berth.Option
	for _, x := range in {
		given[x.Name] = x.Value
		if a, ok := x.Value.(*ndarray.Array); ok {
			opts = append(opts, berth.WithShape(x.Name, a.Shape...))
		}
	}
	usual, err := m.Compile(ctx, append(slices.Clone(opts), plainNodes...)...)
	if err != nil {
		return nil, err
	}
	p, err := m.Compile(ctx, append(opts, asOps)...)
	if err != nil {
		return nil, err
	}
	assert.Equal(t, usual.Plan().ArenaBytes, p.Plan().ArenaBytes, "bytes of the arena")
	s, err := p.NewSession()
	if err != nil {
		return nil, err
	}
	s.Poison(true)
	s.Observe(func(step berth.Step, _ []ndarray.Value) {
		by := step.Choice().Algorithm
		ran[by]++
	})
	got, err := s.RunValues(ctx, given)
	if err != nil {
		return nil, err
	}
	assert.LessOrEqual(t, s.Written(), p.Plan().ArenaBytes)
	var out []conformance.Named
	for _, o := range m.Outputs() {
		out = append(out, conformance.Named{Name: o.Name, Value: got[o.Name]})
	}
	return out, nil
}

// TestExecutor runs recorded models, and the cases of the ONNX project for single operators.
func TestExecutor(t *testing.T) {
	for name, tolerance := range map[string]conformance.Tolerance{
		"models":                                    {Rtol: 1e-3, Atol: 1e-4},
		"onnx-conformance/light.tar.gz":             {Rtol: 1e-3, Atol: 1e-5},
		"onnx-conformance/node.tar.gz":              conformance.BackendTolerance,
		"onnx-conformance/simple.tar.gz":            conformance.BackendTolerance,
		"onnx-conformance/pytorch-converted.tar.gz": conformance.BackendTolerance,
		"onnx-conformance/pytorch-operator.tar.gz":  conformance.BackendTolerance,
	} {
		t.Run(name, func(t *testing.T) {
			cases, err := conformance.Open(shareddata.Path(t, name))
			require.NoError(t, err)
			ran := map[string]int{}
			for _, c := range cases {
				assert.NoError(t, conformance.Verify(t.Context(), c, executed(t, ran), tolerance))
			}
			t.Logf("%d cases, steps by kernel: %v", len(cases), ran)
			assert.Positive(t, ran["berth"])
		})
	}
}

// TestExecutorBuiltins runs the built-in models, with their loops and branches, with what the other backend computes.
func TestExecutorBuiltins(t *testing.T) {
	for _, b := range testmodels.List() {
		t.Run(b.Name, func(t *testing.T) {
			module, err := testmodels.Build(b.Name)
			require.NoError(t, err)
			dims := map[string]int64{"N": 2, "S": 3, "M": 3, "T": 3, "P": 3}
			in := map[string]ndarray.Value{}
			rng := rand.New(rand.NewPCG(1, 2))
			for _, prm := range module.Graph.Params {
				in[prm.Name], err = graphgen.Value(rng, prm.Type, dims)
				require.NoError(t, err)
			}
			m := berth.FromModule(module)
			want, wantErr := m.RunValues(t.Context(), in, plainNodes...)
			got, err := m.RunValues(t.Context(), in, asOps)
			require.Equal(t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
			for name := range want {
				assert.Nil(t, conformance.Compare(got[name], want[name], conformance.Tolerance{Rtol: 1e-5, Atol: 1e-6}), name)
			}
		})
	}
}

// TestConcurrentExecutor runs one program in many goroutines: they share kernels, and nothing else.
func TestConcurrentExecutor(t *testing.T) {
	module, err := testmodels.Build("encoder")
	require.NoError(t, err)
	p, err := berth.FromModule(module).Compile(t.Context(), asOps, berth.WithDim("N", 2), berth.WithDim("S", 5))
	require.NoError(t, err)
	var wg sync.WaitGroup
	results, name := make([]string, 8), berth.FromModule(module).Outputs()[0].Name
	for i := range results {
		wg.Go(func() {
			in := map[string]ndarray.Value{}
			rng := rand.New(rand.NewPCG(7, uint64(i%2)))
			for _, prm := range module.Graph.Params {
				in[prm.Name], _ = graphgen.Value(rng, prm.Type, map[string]int64{"N": 2, "S": 5})
			}
			for range 5 {
				out, err := p.RunValues(t.Context(), in)
				if assert.NoError(t, err) {
					results[i] = fmt.Sprint(out[name].(*ndarray.Array).Floats32())
				}
			}
		})
	}
	wg.Wait()
	for i := range results {
		assert.Equal(t, results[i%2], results[i])
	}
}

// TestExecutorAllocations: a run allocates nothing but what the stock kernels do, two small objects each, also where
// nodes share a kernel and a loop moves its values.
func TestExecutorAllocations(t *testing.T) {
	for name, dims := range map[string][]berth.Option{"encoder": {berth.WithDim("N", 2), berth.WithDim("S", 5)}, "unet": nil, "lstm-loop": nil} {
		module, err := testmodels.Build(name)
		require.NoError(t, err)
		p, err := berth.FromModule(module).Compile(t.Context(), append(dims, asOps)...)
		require.NoError(t, err)
		in, rng := map[string]ndarray.Value{}, rand.New(rand.NewPCG(7, 1))
		for _, prm := range module.Graph.Params {
			in[prm.Name], err = graphgen.Value(rng, prm.Type, map[string]int64{"N": 2, "S": 5})
			require.NoError(t, err)
		}
		args, err := p.Arguments(in)
		require.NoError(t, err)
		s, err := p.NewSession()
		require.NoError(t, err)
		stock := 0
		s.Observe(func(step berth.Step, _ []ndarray.Value) {
			if strings.HasPrefix(step.Choice().Algorithm, "tensor.") {
				stock++
			}
		})
		_, err = s.Run(t.Context(), args)
		require.NoError(t, err)
		s.Observe(nil)
		n := testing.AllocsPerRun(20, func() { _, err = s.Run(t.Context(), args) })
		require.NoError(t, err)
		t.Logf("%s: %g allocations, %d stock kernels", name, n, stock)
		if !raceDetector { // under which a sync.Pool forgets on purpose
			assert.LessOrEqual(t, n, float64(2*stock), name)
		}
	}
}

// TestExecutorKeepsNoMemory: between runs, kernels hold neither a caller's inputs nor the results and arenas of sessions.
func TestExecutorKeepsNoMemory(t *testing.T) {
	p, err := builtin(t, "mlp").Compile(t.Context(), asOps)
	require.NoError(t, err)
	type bytes = weak.Pointer[float32]
	first := func(d *tensor.Dense) bytes { return weak.Make(&d.Data().([]float32)[0]) }
	inSession := func(x *tensor.Dense) bytes {
		s, err := p.NewSession()
		require.NoError(t, err)
		out, err := s.Run(t.Context(), gorgonia.Tensors{"x": x})
		require.NoError(t, err)
		for _, y := range out {
			return first(y)
		}
		return bytes{}
	}
	var given, arenas []bytes
	for range 3 {
		x := counted(4, 64)
		given, arenas = append(given, first(x)), append(arenas, inSession(x))
	}
	for range 3 { // a collection empties a sync.Pool of what no run has used since the last one
		runtime.GC()
		inSession(counted(4, 64))
	}
	runtime.GC()
	for i := range given {
		assert.Nil(t, given[i].Value(), "input %d", i)
		assert.Nil(t, arenas[i].Value(), "arena %d", i)
	}
}

// node is one node of known types.
func node(t *testing.T, text string) *ssa.Node {
	t.Helper()
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err)
	return g.Nodes[0]
}

// TestOp applies nodes in an ExprGraph, run by Gorgonia's own machine.
func TestOp(t *testing.T) {
	op, err := gorgonia.NewOp(t.Context(), node(t, `graph "g" { in %a: float32[2,3] in %b: float32[3,2] %y: float32[2,2] = MatMul(%a, %b) out %y }`), backend.Reference{})
	require.NoError(t, err)
	g := G.NewGraph()
	a := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 3), G.WithName("a"), G.WithValue(counted(2, 3)))
	b := G.NewMatrix(g, tensor.Float32, G.WithShape(3, 2), G.WithName("b"), G.WithValue(counted(3, 2)))
	y, err := G.ApplyOp(op, a, b)
	require.NoError(t, err)
	vm := G.NewTapeMachine(g)
	defer vm.Close()
	require.NoError(t, vm.RunAll())
	assert.Equal(t, []float32{10, 13, 28, 40}, y.Value().Data())
}

// TestOpErrors gives ops what they can not take.
func TestOpErrors(t *testing.T) {
	op, err := gorgonia.NewOp(t.Context(), node(t, `graph "g" { in %a: float32[2,3] in %b: float32[2,3] %y: float32[2,3] = Add(%a, %b) out %y }`), cpu.New())
	require.NoError(t, err)
	x := counted(2, 3)
	for name, call := range map[string]func() (G.Value, error){
		"too few":       func() (G.Value, error) { return op.Do(x) },
		"too many":      func() (G.Value, error) { return op.Do(x, x, x) },
		"no tensor":     func() (G.Value, error) { return op.Do(x, G.NewF32(1)) },
		"turned":        func() (G.Value, error) { return op.Do(x, transposed(t, counted(3, 2))) },
		"no operand":    func() (G.Value, error) { return op.Do(x, nil) },
		"another type":  func() (G.Value, error) { return op.Do(x, tensor.New(tensor.WithShape(2, 3), tensor.Of(tensor.Int64))) },
		"larger":        func() (G.Value, error) { return op.Do(x, counted(3, 3)) },
		"smaller":       func() (G.Value, error) { return op.Do(x, counted(1, 3)) },
		"another shape": func() (G.Value, error) { return op.(G.UsePreallocDoer).UsePreallocDo(counted(5), x, x) },
	} {
		_, err := call()
		assert.Error(t, err, name)
	}
	_, err = gorgonia.NewOp(t.Context(), nil, nil)
	require.Error(t, err)
	_, err = gorgonia.New(nil).Prepare(t.Context(), nil, 1)
	require.ErrorIs(t, err, ops.ErrUnsupported)
	_, err = gorgonia.NewOp(t.Context(), node(t, `graph "g" { in %a: float32[N] %y: float32[N] = Neg(%a) out %y }`), nil)
	require.Error(t, err)
}

// TestOpHash: ops that differ in attributes or types have other hashes; equal ones the same.
func TestOpHash(t *testing.T) {
	hashes := map[uint32]string{}
	for _, text := range []string{
		`in %x: float32[2,3] %y: float32[2,3] = Softmax(%x) [axis=0]`,
		`in %x: float32[2,3] %y: float32[2,3] = Softmax(%x) [axis=1]`,
		`in %x: float32[3,2] %y: float32[3,2] = Softmax(%x) [axis=1]`,
		`in %x: float32[3,2] %y: float32[3,2] = LogSoftmax(%x) [axis=1]`,
	} {
		var same [2]uint32
		for i := range same {
			op, err := gorgonia.NewOp(t.Context(), node(t, `graph "g" { `+text+` out %y }`), nil)
			require.NoError(t, err)
			same[i] = op.Hashcode()
		}
		assert.Equal(t, same[0], same[1], text)
		assert.Empty(t, hashes[same[0]], text)
		hashes[same[0]] = text
	}
}
