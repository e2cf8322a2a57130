package vm_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/graphs"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

// vector is an input with a value.
func vector(g *G.ExprGraph, name string, v ...float64) *G.Node {
	return G.NewVector(g, tensor.Float64, G.WithShape(len(v)), G.WithName(name), G.WithValue(tensor.New(tensor.WithBacking(v))))
}

func compiled(t *testing.T, g *G.ExprGraph, opts ...vm.Option) *vm.VM {
	t.Helper()
	m, err := vm.New(g, append(opts, vm.Poisoned())...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// TestSolvers: Gorgonia's solvers take the same steps with this machine as with its own.
func TestSolvers(t *testing.T) {
	c := graphs.Cases[0]
	for name, solver := range map[string]func() G.Solver{
		"vanilla":  func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(0.05)) },
		"momentum": func() G.Solver { return G.NewMomentum(G.WithLearnRate(0.05)) },
		"rmsprop":  func() G.Solver { return G.NewRMSPropSolver(G.WithLearnRate(0.05)) },
		"adam":     func() G.Solver { return G.NewAdamSolver(G.WithLearnRate(0.05)) },
		"adagrad":  func() G.Solver { return G.NewAdaGradSolver(G.WithLearnRate(0.05)) },
		"barzilai": func() G.Solver { return G.NewBarzilaiBorweinSolver(G.WithLearnRate(0.05)) },
	} {
		t.Run(name, func(t *testing.T) {
			train := func(build func(b *graphs.Built) G.VM) (costs []float64, weights [][]float64) {
				b, err := c.Make(tensor.Float64, 1)
				require.NoError(t, err)
				m, s := build(b), solver()
				defer m.Close()
				for range 5 {
					require.NoError(t, m.RunAll())
					costs = append(costs, floats(t, b.Cost.Value())[0])
					require.NoError(t, s.Step(G.NodesToValueGrads(b.Learn)))
					m.Reset()
				}
				for _, n := range b.Learn {
					weights = append(weights, floats(t, n.Value()))
				}
				return costs, weights
			}
			costs, weights := train(newPlanned(t))
			wantCosts, wantWeights := train(newTape)
			assert.Less(t, costs[4], costs[0])
			assert.InDeltaSlice(t, wantCosts, costs, 1e-9)
			for i := range weights {
				assert.InDeltaSlice(t, wantWeights[i], weights[i], 1e-9)
			}
		})
	}
}

// TestRead: reads and kept nodes show the values of every pass.
func TestRead(t *testing.T) {
	g := G.NewGraph()
	x := vector(g, "x", 1, 2, 3)
	double := G.Must(G.Add(x, x))
	squares := G.Must(G.Square(double))
	sum := G.Must(G.Sum(squares))
	var read, total G.Value
	G.Read(squares, &read)
	G.Read(sum, &total)
	m := compiled(t, g, vm.Keep(double))
	for _, by := range []float64{1, 2} {
		require.NoError(t, G.Let(x, tensor.New(tensor.WithBacking([]float64{by, 2 * by, 3 * by}))))
		require.NoError(t, m.RunAll())
		assert.Equal(t, []float64{2 * by, 4 * by, 6 * by}, floats(t, double.Value()))
		assert.Equal(t, []float64{4 * by * by, 16 * by * by, 36 * by * by}, floats(t, read))
		assert.Equal(t, []float64{56 * by * by}, floats(t, total))
	}
	assert.Nil(t, G.Must(G.Neg(x)).Value(), "a node that the machine does not know")
}

// TestValues: inputs may be views, transposed or column-major, and scalars.
func TestValues(t *testing.T) {
	whole := func() *tensor.Dense {
		return tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(tensor.Range(tensor.Float64, 0, 12)))
	}
	sliced := func(s ...tensor.Slice) *tensor.Dense {
		v, err := whole().Slice(s...)
		require.NoError(t, err)
		return v.(*tensor.Dense)
	}
	turned := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float64{1, 2, 3, 4, 5, 6}))
	require.NoError(t, turned.T())
	for name, c := range map[string]struct {
		in   *tensor.Dense
		want []float64
	}{
		"columns":      {sliced(nil, G.S(1, 3)), []float64{1, 2, 5, 6, 9, 10}},
		"rows":         {sliced(G.S(1, 3)), []float64{4, 5, 6, 7, 8, 9, 10, 11}},
		"transposed":   {turned, []float64{1, 4, 2, 5, 3, 6}},
		"column-major": {tensor.New(tensor.WithShape(2, 2), tensor.AsFortran([]float64{1, 2, 3, 4})), []float64{1, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			g := G.NewGraph()
			x := G.NewMatrix(g, tensor.Float64, G.WithShape(c.in.Shape()...), G.WithName("x"), G.WithValue(c.in))
			two := G.NewScalar(g, tensor.Float64, G.WithName("two"), G.WithValue(2.0))
			y := G.Must(G.HadamardProd(x, two))
			m := compiled(t, g)
			require.NoError(t, m.RunAll())
			for i := range c.want {
				c.want[i] *= 2
			}
			assert.Equal(t, c.want, floats(t, y.Value()))
		})
	}
}

// TestOptions: nil is no option, and a limit of memory holds for arenas.
func TestOptions(t *testing.T) {
	g := G.NewGraph()
	x := vector(g, "x", make([]float64, 1<<10)...)
	G.Must(G.Sum(G.Must(G.OuterProd(x, x))))
	require.NoError(t, compiled(t, g, nil).RunAll())
	_, err := vm.New(g, vm.WithMaxMemory(1<<20))
	require.ErrorContains(t, err, "beyond the limit of 1048576; if the size is right, raise the limit (WithMaxMemory, --max-memory of the command)")
	_, err = vm.New(nil)
	require.EqualError(t, err, "the expression graph is nil")
}

// TestStockCount: the gradient of max pooling is an op of this module.
func TestStockCount(t *testing.T) {
	for _, c := range graphs.Cases {
		if c.Name == "max pooling" {
			b, err := c.Make(tensor.Float32, 1)
			require.NoError(t, err)
			assert.Zero(t, compiled(t, b.Graph).Memory().Stock)
		}
	}
}

// TestFeedback: the value of an output can be the next pass's input, as the state of a
// recurrent network is.
func TestFeedback(t *testing.T) {
	g := G.NewGraph()
	h := vector(g, "h", 1, 2)
	next := G.Must(G.Add(G.Must(G.Add(h, h)), G.Must(G.Square(h))))
	m := compiled(t, g)
	for _, want := range [][]float64{{3, 8}, {15, 80}, {255, 6560}} {
		require.NoError(t, m.RunAll())
		assert.Equal(t, want, floats(t, next.Value()))
		require.NoError(t, G.Let(h, next.Value()))
	}
}

// TestGradientThatIsAnInput: the gradient of Σ w·x by w is x itself, and by b is a constant. A
// solver that writes to gradients does not write to x.
func TestGradientThatIsAnInput(t *testing.T) {
	g := G.NewGraph()
	x, w := vector(g, "x", 1, 2, 3), vector(g, "w", 4, 5, 6)
	b := G.NewScalar(g, tensor.Float64, G.WithName("b"), G.WithValue(1.0))
	cost := G.Must(G.Add(G.Must(G.Mul(w, x)), b))
	_, err := G.Grad(cost, w, b)
	require.NoError(t, err)
	m := compiled(t, g)
	for range 2 {
		require.NoError(t, m.RunAll())
		for n, want := range map[*G.Node][]float64{w: {1, 2, 3}, b: {1}} {
			v, err := n.Grad()
			require.NoError(t, err)
			assert.Equal(t, want, floats(t, v))
		}
		require.NoError(t, G.NewVanillaSolver().Step(G.NodesToValueGrads(G.Nodes{w, b})))
		assert.Equal(t, []float64{1, 2, 3}, floats(t, x.Value()))
	}
}

// TestDropout: about half of the elements are dropped, others doubled; the gradient has the
// same mask, and after training nothing is dropped.
func TestDropout(t *testing.T) {
	g := G.NewGraph()
	const n = 4000
	ones := make([]float64, n)
	for i := range ones {
		ones[i] = 1
	}
	x := vector(g, "x", ones...)
	y := G.Must(G.Dropout(x, 0.5))
	_, err := G.Grad(G.Must(G.Sum(y)), x)
	require.NoError(t, err)
	m := compiled(t, g, vm.Keep(y))
	var before []float64
	for range 2 {
		require.NoError(t, m.RunAll())
		got := floats(t, y.Value())
		kept := 0
		for _, v := range got {
			assert.Contains(t, []float64{0, 2}, v)
			kept += int(v) / 2
		}
		assert.InDelta(t, n/2, kept, n/20)
		d, err := x.Grad()
		require.NoError(t, err)
		assert.Equal(t, got, floats(t, d))
		assert.NotEqual(t, before, got)
		before = got
	}
	require.NoError(t, compiled(t, g, vm.Keep(y), vm.EvalMode()).RunAll())
	assert.Equal(t, ones, floats(t, y.Value()))
}

// TestErrors: what can not run is refused by a typed error that names the node.
func TestErrors(t *testing.T) {
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float64, G.WithShape(3), G.WithName("x"))
	G.Must(G.Square(x))
	m := compiled(t, g)
	var input *vm.InputError
	require.ErrorAs(t, m.RunAll(), &input)
	assert.Equal(t, vm.InputError{Name: "x", Want: "float64[3]", Got: "no value; bind one with gorgonia.Let"}, *input)

	set := G.NewGraph()
	G.Set(vector(set, "a", 1, 2), vector(set, "b", 3, 4))
	other := vector(G.NewGraph(), "other", 1, 2)
	for name, build := range map[string]func() (*vm.VM, error){
		"no graph":      func() (*vm.VM, error) { return vm.New(nil) },
		"strange node":  func() (*vm.VM, error) { return vm.New(g, vm.Keep(other)) },
		"assignment":    func() (*vm.VM, error) { return vm.New(set) },
		"nil node":      func() (*vm.VM, error) { return vm.New(g, vm.Keep(nil)) },
		"frozen, empty": func() (*vm.VM, error) { return vm.New(g, vm.Freeze(x)) },
	} {
		_, err := build()
		var e *vm.GraphError
		assert.ErrorAs(t, err, &e, name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, G.Let(x, tensor.New(tensor.WithBacking([]float64{1, 2, 3}))))
	ended := compiled(t, g, vm.WithContext(ctx))
	cancel()
	assert.ErrorIs(t, ended.RunAll(), context.Canceled)
	require.NoError(t, ended.Close())
	assert.ErrorIs(t, ended.RunAll(), vm.ErrClosed)
}

// TestConcurrent: passes of one machine wait for each other; machines of different graphs do not.
func TestConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for k := range 3 {
		b, err := graphs.Cases[2+k].Make(tensor.Float32, 1)
		require.NoError(t, err)
		m := compiled(t, b.Graph)
		for range 3 {
			wg.Go(func() { assert.NoError(t, m.RunAll()) })
		}
	}
	wg.Wait()
}

// watching notes the shapes that a matrix has while the default engine multiplies it.
type watching struct {
	tensor.StdEng
	shapes *[]string
}

func (e watching) MatMul(a, b, to tensor.Tensor) error {
	*e.shapes = append(*e.shapes, fmt.Sprint(a.Shape()))
	return e.StdEng.MatMul(a, b, to)
}

// TestSharedMatrix: the gradient of a·w by w is aᵀ times another matrix, for which Gorgonia's machine turns a itself, so that nothing
// else may read it meanwhile. Machines of this package leave it as it is: any number of them share it.
func TestSharedMatrix(t *testing.T) {
	build := func(a *tensor.Dense) (g *G.ExprGraph, w *G.Node) {
		g = G.NewGraph()
		x := G.NewMatrix(g, tensor.Float64, G.WithShape(4, 3), G.WithName("x"), G.WithValue(a))
		w = filled(g, "w", 3, 2)
		_, err := G.Grad(G.Must(G.Sum(G.Must(G.Square(G.Must(G.Mul(x, w)))))), w)
		assert.NoError(t, err)
		return g, w
	}
	matrix := func(e tensor.Engine) *tensor.Dense {
		return tensor.New(tensor.WithShape(4, 3), tensor.WithBacking(tensor.Range(tensor.Float64, 0, 12)), tensor.WithEngine(e))
	}
	g, w := build(matrix(tensor.StdEng{}))
	tape := G.NewTapeMachine(g, G.BindDualValues(w))
	defer tape.Close()
	require.NoError(t, tape.RunAll())
	want, err := w.Grad()
	require.NoError(t, err)
	var shapes []string
	for _, n := range g.AllNodes() {
		if n.Op() != nil && strings.HasPrefix(fmt.Sprint(n.Op()), "Aᵀ") {
			_, err := n.Op().Do(matrix(watching{shapes: &shapes}), tensor.Ones(tensor.Float64, 4, 2))
			require.NoError(t, err)
		}
	}
	assert.Equal(t, []string{"(3, 4)"}, shapes, "the matrix itself had another shape meanwhile")

	shared := matrix(tensor.StdEng{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			g, w := build(shared)
			m, err := vm.New(g)
			if !assert.NoError(t, err) {
				return
			}
			defer m.Close()
			for range 20 {
				assert.NoError(t, m.RunAll())
			}
			got, err := w.Grad()
			assert.NoError(t, err)
			assert.Equal(t, floats(t, want), floats(t, got))
		})
	}
	wg.Wait()
}
