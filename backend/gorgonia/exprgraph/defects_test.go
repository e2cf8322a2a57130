package exprgraph_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/ssa"
)

// defect is something that Gorgonia v0.9.18 gets wrong, and what does it right.
type defect struct {
	name  string
	shape []int
	stock func(x *G.Node) (*G.Node, error)
	// ours is how the same is written with ONNX operators.
	ours func(x *G.Node) (*G.Node, error)
	// planned says that the planned machine computes the stock graph right.
	planned bool
}

func onnx(op string, attrs ...ssa.Attr) func(x *G.Node) (*G.Node, error) {
	return func(x *G.Node) (*G.Node, error) { return first(exprgraph.Apply(op, 1, []*G.Node{x}, attrs...)) }
}

func first(ns G.Nodes, err error) (*G.Node, error) {
	if err != nil {
		return nil, err
	}
	return ns[0], nil
}

var defects = []defect{
	{name: "Grad of GlobalAveragePool2D panics", shape: []int{1, 2, 3, 4}, stock: G.GlobalAveragePool2D, ours: onnx("GlobalAveragePool")},
	{name: "AveragePool2D divides by the width of the image", shape: []int{1, 2, 6, 6}, planned: true,
		stock: func(x *G.Node) (*G.Node, error) {
			return G.AveragePool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2})
		},
		ours: onnx("AveragePool", ssa.IntsAttr("kernel_shape", 2, 2), ssa.IntsAttr("strides", 2, 2))},
	{name: "GroupNorm without a scale panics", shape: []int{2, 4, 3, 3},
		stock: func(x *G.Node) (*G.Node, error) { return G.GroupNorm(x, nil, nil, 2, 4, 1e-5) },
		ours: func(x *G.Node) (*G.Node, error) {
			one, zero := constant("one", 1, 1, 1, 1), constant("zero", 0, 0, 0, 0)
			return first(exprgraph.Apply("GroupNormalization", 1, []*G.Node{x, one, zero}, ssa.IntAttr("num_groups", 2), ssa.IntAttr("stash_type", 11)))
		}},
	{name: "the gradient of Dropout is 0 where nothing is dropped", shape: []int{3, 4}, planned: true,
		stock: func(x *G.Node) (*G.Node, error) { return G.Dropout(x, 0) }, ours: onnx("Dropout")},
	{name: "the gradient of Log2 multiplies by ln 2", shape: []int{3, 4}, stock: G.Log2,
		ours: func(x *G.Node) (*G.Node, error) {
			y, err := onnx("Log")(x)
			if err != nil {
				return nil, err
			}
			return G.Div(y, G.NewConstant(math.Ln2))
		}},
	{name: "the gradient of InverseSqrt", shape: []int{3, 4}, stock: G.InverseSqrt,
		ours: func(x *G.Node) (*G.Node, error) {
			y, err := onnx("Sqrt")(x)
			if err != nil {
				return nil, err
			}
			return onnx("Reciprocal")(y)
		}},
	{name: "the gradient of OuterProd has wrong shapes", shape: []int{4},
		stock: func(x *G.Node) (*G.Node, error) { return G.OuterProd(x, constant("v", 1, 2, 3)) },
		ours: func(x *G.Node) (*G.Node, error) {
			return first(exprgraph.Apply("Mul", 1, []*G.Node{G.Must(G.Reshape(x, tensor.Shape{4, 1})), constant("v", 1, 2, 3)}))
		}},
}

func constant(name string, v ...float64) *G.Node {
	return G.NewConstant(tensor.New(tensor.WithBacking(v)), G.WithName(name))
}

// TestDefects: Gorgonia's own ops and machine fail, or give a gradient that is not the central
// difference of the operator as ONNX defines it; the ops of this package give it.
func TestDefects(t *testing.T) {
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			want := differences(t, d)
			_, err := gradientOf(d.stock, d.shape, func(g *G.ExprGraph, x *G.Node) (G.VM, error) {
				return G.NewTapeMachine(g, G.BindDualValues(x)), nil
			}, want)
			assert.Error(t, err, "Gorgonia does it right now")
			got, err := gradientOf(d.ours, d.shape, planned, want)
			require.NoError(t, err)
			assert.InDeltaSlice(t, want, got, 1e-6)
			if d.planned {
				_, err = gradientOf(d.stock, d.shape, planned, want)
				assert.NoError(t, err)
			}
		})
	}
}

func planned(g *G.ExprGraph, _ *G.Node) (G.VM, error) { return vm.New(g) }

// summed makes the graph of Σ f(x)²/2, with numbers between 0.3 and 1.6 for x.
func summed(f func(x *G.Node) (*G.Node, error), shape []int) (g *G.ExprGraph, x, cost *G.Node, err error) {
	g = G.NewGraph()
	v := make([]float64, tensor.Shape(shape).TotalSize())
	for i := range v {
		v[i] = 0.3 + math.Mod(0.37*float64(i*i), 1.3)
	}
	x = G.NewTensor(g, tensor.Float64, len(shape), G.WithShape(shape...), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))))
	y, err := f(x)
	if err != nil {
		return nil, nil, nil, err
	}
	sum, err := G.Sum(G.Must(G.Square(y)))
	if err != nil {
		return nil, nil, nil, err
	}
	cost, err = G.HadamardProd(sum, G.NewConstant(0.5))
	return g, x, cost, err
}

// gradientOf differentiates and runs; an error is a failure, a panic, or a gradient that is
// not as wanted.
func gradientOf(f func(x *G.Node) (*G.Node, error), shape []int, machine func(*G.ExprGraph, *G.Node) (G.VM, error), want []float64) (out []float64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	g, x, cost, err := summed(f, shape)
	if err != nil {
		return nil, err
	}
	if _, err = G.Grad(cost, x); err != nil {
		return nil, err
	}
	m, err := machine(g, x)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err = m.RunAll(); err != nil {
		return nil, err
	}
	v, err := x.Grad()
	if err != nil {
		return nil, err
	}
	a, err := values.Array(v)
	if err != nil {
		return nil, err
	}
	for i := range want {
		out = append(out, a.Float(i))
		if math.Abs(a.Float(i)-want[i]) > 1e-6 {
			err = fmt.Errorf("gradient %d is %g, not %g", i, a.Float(i), want[i])
		}
	}
	return out, err
}

// differences are the central differences of the cost as the ops of this package compute it.
func differences(t *testing.T, d defect) (out []float64) {
	g, x, cost, err := summed(d.ours, d.shape)
	require.NoError(t, err)
	m, err := vm.New(g)
	require.NoError(t, err)
	defer m.Close()
	const h = 1e-6
	data := x.Value().Data().([]float64)
	for i, old := range data {
		var at [2]float64
		for k, by := range []float64{h, -h} {
			data[i] = old + by
			require.NoError(t, m.RunAll())
			at[k] = scalarOf(t, cost.Value())
		}
		data[i] = old
		out = append(out, (at[0]-at[1])/(2*h))
	}
	return out
}

// scalarOf is the element of a scalar.
func scalarOf(t *testing.T, v G.Value) float64 {
	a, err := values.Array(v)
	require.NoError(t, err)
	return a.Float(0)
}
