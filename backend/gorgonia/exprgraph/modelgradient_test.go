package exprgraph_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// dataSet opens a recorded model with the inputs of its first data set.
func dataSet(t *testing.T, name string) (*berth.Model, []ndarray.Value) {
	cases, err := conformance.Open(shareddata.Path(t, "models", name))
	require.NoError(t, err)
	m, err := berth.Open(cases[0].ModelPath())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	sig, err := cases[0].Signature(t.Context())
	require.NoError(t, err)
	set, err := cases[0].LoadSet(t.Context(), sig, "test_data_set_0")
	require.NoError(t, err)
	var in []ndarray.Value
	for _, x := range set.Inputs {
		in = append(in, x.Value)
	}
	return m, in
}

// shapesOf bind the shapes of a model's inputs.
func shapesOf(m *berth.Model, in []ndarray.Value) (opts []berth.Option) {
	for i, p := range m.Inputs() {
		opts = append(opts, berth.WithShape(p.Name, in[i].(*ndarray.Array).Shape...))
	}
	return opts
}

// loaded imports a recorded model with the inputs of its first data set.
func loaded(t *testing.T, name string) *exprgraph.Graph {
	m, in := dataSet(t, name)
	g, err := exprgraph.Import(t.Context(), m, shapesOf(m, in)...)
	require.NoError(t, err)
	require.NoError(t, g.Bind(in...))
	return g
}

// widened is an array with its float32 elements as float64; others are as they are.
func widened(a *ndarray.Array) *ndarray.Array {
	if a.DType != ndarray.Float32 {
		return a
	}
	w := ndarray.Must(ndarray.Float64, a.Shape...)
	for i := range a.Len() {
		w.SetFloat(i, a.Float(i))
	}
	return w
}

// inDouble is a model that computes in float64 what another computes in float32.
func inDouble(t *testing.T, m *berth.Model, opts ...berth.Option) *berth.Model {
	g, err := m.Folded(t.Context(), opts...)
	require.NoError(t, err)
	for _, v := range g.Values() {
		if v.Type.DType != ndarray.Float32 {
			continue
		}
		v.Type.DType = ndarray.Float64
		if v.Const != nil {
			a, err := v.Const.Array()
			require.NoError(t, err)
			v.Const = ssa.NewConstant(widened(a))
		}
	}
	for _, n := range g.Nodes {
		if n.Op == "LayerNormalization" || n.Op == "GroupNormalization" {
			n.SetAttr(ssa.IntAttr("stash_type", int64(ndarray.Float64)))
		}
		for i := range n.Attrs {
			if a := &n.Attrs[i]; (a.Name == "to" || a.Name == "stash_type") && a.I == int64(ndarray.Float32) {
				a.I = int64(ndarray.Float64)
			}
		}
	}
	require.NoError(t, ops.InferGraph(g))
	return berth.FromModule(&ssa.Module{Graph: g})
}

// small are smaller inputs than the recorded ones, drawn at random, where float64 would take long.
var small = map[string][]int{"ppocr_cls": {1, 3, 48, 64}, "ppocr_det": {1, 3, 32, 32}, "ppocr_rec": {1, 3, 48, 16},
	"nudenet_320n": {1, 3, 32, 32}, "unet_groupnorm": {1, 3, 16, 16}}

// inputsInDouble are a model's inputs in float64.
func inputsInDouble(t *testing.T, name string) (*berth.Model, []ndarray.Value) {
	m, in := dataSet(t, name)
	if shape, ok := small[name]; ok {
		a, rng := ndarray.Must(ndarray.Float32, shape...), rand.New(rand.NewPCG(1, 2))
		for i := range a.Len() {
			a.SetFloat(i, 2*rng.Float64()-1)
		}
		in[0] = a
	}
	m = inDouble(t, m, shapesOf(m, in)...)
	for i := range in {
		in[i] = widened(in[i].(*ndarray.Array))
	}
	return m, in
}

// TestModelGradients: the gradients of the mean square of a model's outputs by all its weights, for every recorded model
// without control flow and without quantized weights. Along the gradient by all weights, and along that by one of them, the
// cost rises as fast as the gradient is long.
//
// In float64, the central difference takes a step of 1e-7 of the weights' length, or one that changes the cost by 1e-6 of it
// if that is less. Its own error, of third order, is far below the bound, and so is that of rounding, about 1e-15 of the cost;
// a kink of a Relu that lies between the two points adds the share of what it turns. Models that would take long in float64
// are differentiated in float32. Then the step changes the cost by 1 in 2000, and with a curved cost the two agree to some
// percent.
func TestModelGradients(t *testing.T) {
	if testing.Short() {
		t.Skip("differentiates every recorded model")
	}
	for _, name := range quick("bert_mini", "bilstm_gru_ctc", "gpt2_mini_kv", "nudenet_320n", "ppocr_cls", "ppocr_det", "ppocr_rec", "unet_groupnorm", "wakeword") {
		t.Run(name, func(t *testing.T) {
			m, in := inputsInDouble(t, name)
			g, err := exprgraph.Import(t.Context(), m)
			require.NoError(t, err)
			require.NoError(t, g.Bind(in...))
			d := differentiated(t, g)
			check := func(name string, weights []weight) {
				slope, size := lengths(weights)
				d.check(name, weights, min(1e-7*size, 1e-6*d.start/slope), 1e-5)
			}
			check("all weights", d.weights)
			k := len(d.weights) / 2
			check(g.Weights[k].Name(), d.weights[k:k+1])
		})
	}
	for _, name := range quick("basic_pitch", "mobilenetv3_small", "vit_mini") {
		t.Run(name, func(t *testing.T) {
			d := differentiated(t, loaded(t, name))
			slope, _ := lengths(d.weights)
			d.check("all weights", d.weights, 0.0005*d.start/slope, 0.05)
		})
	}
}

// quick leaves out models that take minutes under the race detector, which learns nothing more from them: what runs at once is
// the pool of workers, the same for all.
func quick(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return raceDetector && !slices.Contains([]string{"bert_mini", "bilstm_gru_ctc", "gpt2_mini_kv", "ppocr_cls", "wakeword", "vit_mini"}, name)
	})
}

// meanSquares is a cost of all outputs that are floats.
func meanSquares(outputs []*G.Node) (cost *G.Node) {
	for _, y := range outputs {
		if !slices.Contains([]string{"float32", "float64"}, y.Dtype().Name()) {
			continue
		}
		square := G.Must(G.Square(y))
		if !y.IsScalar() {
			square = G.Must(G.Mean(square))
		}
		if cost == nil {
			cost = square
		} else {
			cost = G.Must(G.Add(cost, square))
		}
	}
	return cost
}

// weight is the memory of a weight, and a copy of the gradient by it.
type weight struct{ value, gradient *ndarray.Array }

// lengths are those of the gradient by some weights and of the weights.
func lengths(weights []weight) (gradient, value float64) {
	for _, w := range weights {
		for i := range w.value.Len() {
			x, y := w.gradient.Float(i), w.value.Float(i)
			gradient += x * x
			value += y * y
		}
	}
	return math.Sqrt(gradient), math.Sqrt(value)
}

// differential is a model's cost and its gradients.
type differential struct {
	t       *testing.T
	machine *vm.VM
	cost    *G.Node
	start   float64
	weights []weight
}

// differentiated runs the forward and the backward pass.
func differentiated(t *testing.T, g *exprgraph.Graph) *differential {
	d := &differential{t: t, cost: meanSquares(g.Outputs)}
	_, err := G.Grad(d.cost, g.Weights...)
	require.NoError(t, err)
	d.machine, err = vm.New(g.ExprGraph)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.machine.Close()) })
	d.start = d.at()
	for _, n := range g.Weights {
		v, err := n.Grad()
		require.NoError(t, err)
		gradient, err := values.Array(v)
		require.NoError(t, err)
		value, err := values.Array(n.Value())
		require.NoError(t, err)
		d.weights = append(d.weights, weight{value, gradient.Clone()})
	}
	return d
}

// at is the cost with the weights as they are now.
func (d *differential) at() float64 {
	require.NoError(d.t, d.machine.RunAll())
	return scalarOf(d.t, d.cost.Value())
}

// moved is the cost with some weights moved along the gradient by them, which has a length.
func (d *differential) moved(weights []weight, by, length float64) float64 {
	before := make([]*ndarray.Array, len(weights))
	for k, w := range weights {
		before[k] = w.value.Clone()
		for i := range w.value.Len() {
			w.value.SetFloat(i, w.value.Float(i)+by/length*w.gradient.Float(i))
		}
	}
	cost := d.at()
	for k, w := range weights {
		copy(w.value.Data, before[k].Data)
	}
	return cost
}

// check compares the length of the gradient by some weights with how fast the cost rises along it.
func (d *differential) check(name string, weights []weight, step, tolerance float64) {
	slope, _ := lengths(weights)
	require.Positive(d.t, slope, name)
	measured := (d.moved(weights, step, slope) - d.moved(weights, -step, slope)) / (2 * step)
	d.t.Logf("%s: %.10g, difference %.2g of that, cost %g", name, slope, measured/slope-1, d.start)
	assert.InEpsilon(d.t, slope, measured, tolerance, name)
}

// TestQuantizedGradients: rounding has no gradient, so that in a quantized model the cost has one by those weights alone that
// are behind the last quantization. Grad refuses the others by name.
func TestQuantizedGradients(t *testing.T) {
	const name = "ddddocr_quantized"
	refused := 0
	for i := range loaded(t, name).Weights {
		g := loaded(t, name)
		w := g.Weights[i]
		g.Weights = G.Nodes{w}
		if _, err := G.Grad(meanSquares(g.Outputs), w); err != nil {
			assert.ErrorContains(t, err, "Non Differentiable WRTs: map["+w.Name()+" ")
			refused++
			continue
		}
		g = loaded(t, name)
		g.Weights = G.Nodes{g.Weights[i]}
		d := differentiated(t, g)
		slope, _ := lengths(d.weights)
		d.check(w.Name(), d.weights, 0.0005*d.start/slope, 0.05)
	}
	assert.Equal(t, 21, refused)
}
