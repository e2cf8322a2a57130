package exprgraph_test

import (
	"context"
	"math"
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
)

// loaded imports a recorded model with the inputs of its first data set.
func loaded(t *testing.T, name string) *exprgraph.Graph {
	cases, err := conformance.Open(shareddata.Path(t, "models", name))
	require.NoError(t, err)
	data, err := cases[0].ModelBytes()
	require.NoError(t, err)
	m, err := berth.Parse(data)
	require.NoError(t, err)
	defer m.Close()
	sig, err := cases[0].Signature()
	require.NoError(t, err)
	set, err := cases[0].LoadSet(sig, "test_data_set_0")
	require.NoError(t, err)
	var opts []berth.Option
	for _, x := range set.Inputs {
		opts = append(opts, berth.WithShape(x.Name, x.Value.(*ndarray.Array).Shape...))
	}
	g, err := exprgraph.Import(context.Background(), m, opts...)
	require.NoError(t, err)
	for i, n := range g.Inputs {
		v, err := values.Of(set.Inputs[i].Value.(*ndarray.Array), n.Dtype(), n.Shape())
		require.NoError(t, err)
		require.NoError(t, G.Let(n, v))
	}
	return g
}

// TestModelGradients: along the gradient by all weights, the mean square of a model's first output
// rises as fast as the gradient is long. The difference is taken over a step that changes
// the cost by about 1 in 1000, in float32, and with a curved cost agrees to some percent.
func TestModelGradients(t *testing.T) {
	for _, name := range []string{"wakeword", "gpt2_mini_kv", "vit_mini", "mobilenetv3_small", "unet_groupnorm"} {
		t.Run(name, func(t *testing.T) {
			g := loaded(t, name)
			cost := G.Must(G.Mean(G.Must(G.Square(g.Outputs[0]))))
			_, err := G.Grad(cost, g.Weights...)
			require.NoError(t, err)
			m, err := vm.New(g.ExprGraph)
			require.NoError(t, err)
			defer m.Close()
			at := func() float64 {
				require.NoError(t, m.RunAll())
				return scalarOf(t, cost.Value())
			}
			start, length, gradient := at(), 0.0, [][]float32{}
			for _, w := range g.Weights {
				v, err := w.Grad()
				require.NoError(t, err)
				a, err := values.Array(v)
				require.NoError(t, err)
				d := a.Clone().Floats32()
				gradient = append(gradient, d)
				for _, x := range d {
					length += float64(x) * float64(x)
				}
			}
			length = math.Sqrt(length)
			step := 0.0005 * math.Abs(start) / length
			move := func(by float64) {
				for i, w := range g.Weights {
					for k, x := range w.Value().Data().([]float32) {
						w.Value().Data().([]float32)[k] = x + float32(by/length)*gradient[i][k]
					}
				}
			}
			move(step)
			up := at()
			move(-2 * step)
			down := at()
			assert.InEpsilon(t, length, (up-down)/(2*step), 0.05)
			t.Logf("%s: %g, %g, %+v", name, length, (up-down)/(2*step), m.Memory())
		})
	}
}

func scalarOf(t *testing.T, v G.Value) float64 {
	a, err := values.Array(v)
	require.NoError(t, err)
	return a.Float(0)
}
