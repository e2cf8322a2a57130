package exprgraph_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// operand is an operand of a case: floats that are differentiated, or a constant.
type operand struct {
	shape    []int
	low      float64 // numbers are drawn between low and high
	high     float64
	constant any // []int64, []bool, []float64
}

func around(shape ...int) operand   { return operand{shape: shape, low: -1.5, high: 1.5} }
func positive(shape ...int) operand { return operand{shape: shape, low: 0.3, high: 2} }
func within(low, high float64, shape ...int) operand {
	return operand{shape: shape, low: low, high: high}
}
func ints(v ...int64) operand { return operand{shape: []int{len(v)}, constant: v} }
func fixed(v any, shape ...int) operand {
	return operand{shape: shape, constant: v}
}

// absent is an operand that is left out.
var absent = operand{}

type gradientCase struct {
	op    string
	in    []operand
	attrs []ssa.Attr
}

// build makes the graph of a case, a cost, and the inputs to differentiate by. The cost is a
// sum with different weights, so that all adjoints differ.
func (c gradientCase) build(t *testing.T) (g *G.ExprGraph, cost *G.Node, wrt G.Nodes) {
	rng := rand.New(rand.NewPCG(3, uint64(len(c.op))))
	draw := func(o operand) *tensor.Dense {
		v := make([]float64, tensor.Shape(o.shape).TotalSize())
		for i := range v {
			v[i] = o.low + (o.high-o.low)*rng.Float64()
		}
		return tensor.New(tensor.WithShape(o.shape...), tensor.WithBacking(v))
	}
	g = G.NewGraph()
	in := make([]*G.Node, len(c.in))
	for i, o := range c.in {
		switch {
		case o.constant != nil:
			in[i] = G.NewConstant(tensor.New(tensor.WithShape(o.shape...), tensor.WithBacking(o.constant)), G.WithName(string(rune('a'+i))))
		case o.shape != nil:
			in[i] = G.NewTensor(g, tensor.Float64, len(o.shape), G.WithShape(o.shape...), G.WithName(string(rune('a'+i))), G.WithValue(draw(o)))
			wrt = append(wrt, in[i])
		}
	}
	outs, err := exprgraph.Apply(c.op, resultsOf[c.op], in, c.attrs...)
	require.NoError(t, err)
	for k, y := range outs {
		if y.Dtype() != tensor.Float64 {
			continue
		}
		term := y
		if !y.IsScalar() {
			w := G.NewConstant(draw(operand{shape: y.Shape(), low: 0.5, high: 1.5}), G.WithName("weights"+string(rune('0'+k))))
			term = G.Must(G.Sum(G.Must(G.HadamardProd(y, w))))
		}
		if cost == nil {
			cost = term
		} else {
			cost = G.Must(G.Add(cost, term))
		}
	}
	return g, cost, wrt
}

// resultsOf are the numbers of results where there are several.
var resultsOf = map[string]int{"Split": 2, "TopK": 2, "LSTM": 3, "GRU": 2}

// TestGradients: the gradients that gorgonia.Grad finds through the ops are central
// differences. At h = 1e-6 the error of the formula is below 1e-9 for these functions, and
// that of rounding about 1e-16/h times the cost.
func TestGradients(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range gradientCases {
		seen[c.op] = true
		t.Run(c.op, func(t *testing.T) { c.check(t) })
	}
	assert.GreaterOrEqual(t, len(seen), 60)
	for _, o := range ops.All() {
		if o.Domain == "" && gradient.HasAdjoints(&ssa.Node{Op: o.Name}) {
			assert.NotEqual(t, seen[o.Name], withoutCase[o.Name] != "", "%s has a derivative, and no case here", o.Name)
		}
	}
	t.Logf("%d operators", len(seen))
}

// withoutCase are operators of the default domain with a rule in package gradient that have no gradient in an expression graph.
var withoutCase = map[string]string{
	"If": control, "Loop": control, "Scan": control, "Compress": "its size is known when it runs", "Hardmax": constantSteps, "EyeLike": constantSteps, "Bernoulli": constantSteps,
	"RandomNormalLike": constantSteps, "RandomUniformLike": constantSteps,
}

const (
	control       = "control flow"
	constantSteps = "its derivative is zero"
)

func (c gradientCase) check(t *testing.T) {
	const h = 1e-6
	g, cost, wrt := c.build(t)
	_, err := G.Grad(cost, wrt...)
	require.NoError(t, err)
	m, err := vm.New(g)
	require.NoError(t, err)
	defer m.Close()
	value := func() float64 {
		require.NoError(t, m.RunAll())
		a, err := values.Array(cost.Value())
		require.NoError(t, err)
		return a.Float(0)
	}
	for _, n := range wrt {
		data := n.Value().Data().([]float64)
		value()
		v, err := n.Grad()
		require.NoError(t, err)
		a, err := values.Array(v)
		require.NoError(t, err)
		a = a.Clone()
		require.Len(t, data, a.Len())
		for i := range data {
			old := data[i]
			data[i] = old + h
			up := value()
			data[i] = old - h
			down := value()
			data[i] = old
			want := (up - down) / (2 * h)
			assert.InDelta(t, want, a.Float(i), 1e-6*max(1, math.Abs(want)), "%s[%d]", n.Name(), i)
		}
	}
}

// TestLoopsInMachines: the loop in the derivative of a recurrent layer gives the same in Gorgonia's machine, where it is
// interpreted, as in the planned one.
func TestLoopsInMachines(t *testing.T) {
	for _, c := range gradientCases {
		if !slices.Contains([]string{"RNN", "GRU", "LSTM"}, c.op) {
			continue
		}
		t.Run(c.op, func(t *testing.T) {
			run := func(build func(g *G.ExprGraph, wrt G.Nodes) G.VM) (out [][]float64) {
				g, cost, wrt := c.build(t)
				_, err := G.Grad(cost, wrt...)
				require.NoError(t, err)
				m := build(g, wrt)
				defer m.Close()
				require.NoError(t, m.RunAll())
				for _, n := range wrt {
					v, err := n.Grad()
					require.NoError(t, err)
					a, err := values.Array(v)
					require.NoError(t, err)
					out = append(out, slices.Clone(ndarray.Slice[float64](a)))
				}
				return out
			}
			tape := run(func(g *G.ExprGraph, wrt G.Nodes) G.VM { return G.NewTapeMachine(g, G.BindDualValues(wrt...)) })
			planned := run(func(g *G.ExprGraph, _ G.Nodes) G.VM {
				m, err := vm.New(g)
				require.NoError(t, err)
				return m
			})
			for i := range tape {
				assert.InDeltaSlice(t, tape[i], planned[i], 1e-12)
			}
		})
	}
}
