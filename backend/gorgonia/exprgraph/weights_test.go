package exprgraph_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// TestWeights: which constants are weights: floats of rank 1 and more, also of one element or one element repeated, but no
// statistics.
func TestWeights(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a bias of one element": {`graph "g" { in %x: float32[2,2] const %w: float32[2,1] = [1, 2] const %b: float32[1] = [3]
			%m = MatMul(%x, %w) %y = Add(%m, %b) out %y }`, []string{"w[2 1]", "b[1]"}},
		"an element repeated": {`graph "g" { in %x: float32[2,2] const %b: float32[2] = splat 0 %y = Add(%x, %b) out %y }`, []string{"b[2]"}},
		"a scalar":            {`graph "g" { in %x: float32[2,2] const %b: float32[] = 3 %y = Mul(%x, %b) out %y }`, nil},
		"statistics": {`graph "g" { in %x: float32[2,1,2,2] const %s: float32[1] = [2] const %b: float32[1] = [3] const %m: float32[1] = [0.5] const %v: float32[1] = [4]
			%y = BatchNormalization(%x, %s, %b, %m, %v) out %y }`, []string{"s[1]", "b[1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := exprgraph.Import(t.Context(), model(t, c.text))
			require.NoError(t, err)
			var got []string
			for _, w := range g.Weights {
				require.NotNil(t, w.Value(), w.Name())
				got = append(got, w.Name()+fmt.Sprint([]int(w.Value().Shape())))
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestTrainingOfOneElement: a bias and a scale of one element, where Gorgonia may take a vector for a scalar, are learned as this
// module's training learns them: by all of Gorgonia's machines.
func TestTrainingOfOneElement(t *testing.T) {
	m := model(t, `graph "g" { in %x: float64[4,3] in %t: float64[4,1] const %w: float64[3,1] = [0.1, -0.2, 0.3] const %s: float64[1] = [0.7] const %b: float64[1] = [0.5]
		%m = MatMul(%x, %w) %n = Mul(%m, %s) %y = Add(%n, %b) %d = Sub(%y, %t) %q = Mul(%d, %d) %l = ReduceMean(%q) [keepdims=0] out %l }`)
	x := ndarray.Of([]float64{1, 2, 3, -1, 0.5, 2, 0.25, -2, 1, 0, 1, -1}, 4, 3)
	want := ndarray.Of([]float64{1, -1, 2, 0.5}, 4, 1)
	const steps, rate = 25, 0.05

	own, err := train.New(t.Context(), m, train.Options{Optimizer: train.SGD(0), Rate: train.Constant(rate)})
	require.NoError(t, err)
	for range steps {
		_, err := own.Step(t.Context(), x, want)
		require.NoError(t, err)
	}
	learned := map[string]*ndarray.Array{}
	for _, name := range own.Learned() {
		learned[name], err = own.Weight(name)
		require.NoError(t, err)
	}
	require.Len(t, learned, 3)
	for name, machine := range map[string]func(g *exprgraph.Graph) (G.VM, error){
		"planned": func(g *exprgraph.Graph) (G.VM, error) { return vm.New(g.ExprGraph) },
		"tape": func(g *exprgraph.Graph) (G.VM, error) {
			return G.NewTapeMachine(g.ExprGraph, G.BindDualValues(g.Weights...)), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := exprgraph.Import(t.Context(), m)
			require.NoError(t, err)
			require.Len(t, g.Weights, 3)
			_, err = G.Grad(g.Outputs[0], g.Weights...)
			require.NoError(t, err)
			require.NoError(t, g.Bind(x, want))
			machine, err := machine(g)
			require.NoError(t, err)
			defer machine.Close()
			solver := G.NewVanillaSolver(G.WithLearnRate(rate))
			for range steps {
				require.NoError(t, machine.RunAll())
				require.NoError(t, solver.Step(G.NodesToValueGrads(g.Weights)))
				machine.Reset()
			}
			for _, n := range g.Weights {
				a, err := values.Array(n.Value())
				require.NoError(t, err)
				assert.Nil(t, conformance.Compare(a, learned[n.Name()], conformance.Tolerance{Rtol: 1e-9, Atol: 1e-12}), n.Name())
			}
		})
	}
}

type pair struct{ value, grad *tensor.Dense }

func (p pair) Value() G.Value         { return p.value }
func (p pair) Grad() (G.Value, error) { return p.grad, nil }

// TestSolversOfOneElement: Gorgonia's solvers change a vector of one element as they change each element of a longer one.
func TestSolversOfOneElement(t *testing.T) {
	for name, make := range map[string]func() G.Solver{
		"vanilla": func() G.Solver { return G.NewVanillaSolver() }, "momentum": func() G.Solver { return G.NewMomentum() }, "Adam": func() G.Solver { return G.NewAdamSolver() },
		"RMSProp": func() G.Solver { return G.NewRMSPropSolver() }, "AdaGrad": func() G.Solver { return G.NewAdaGradSolver() },
		"clipped": func() G.Solver { return G.NewVanillaSolver(G.WithClip(0.5), G.WithL2Reg(0.1)) },
	} {
		t.Run(name, func(t *testing.T) {
			var got [2][]float64
			for i, size := range []int{1, 2} {
				s := make()
				v := tensor.New(tensor.WithShape(size), tensor.WithBacking([]float64{0.7, 0.7}[:size]))
				for k := range 5 {
					g := float64(k) - 1.5
					require.NoError(t, s.Step([]G.ValueGrad{pair{v, tensor.New(tensor.WithShape(size), tensor.WithBacking([]float64{g, g}[:size]))}}))
				}
				got[i] = v.Data().([]float64)
			}
			assert.InDelta(t, got[1][0], got[0][0], 1e-12)
			assert.NotEqual(t, 0.7, got[0][0])
		})
	}
}
