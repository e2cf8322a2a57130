package gradient_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestModels differentiates every recorded model by all its weights, with the shapes of its recorded inputs. Those that have no
// derivative say which node is in the way.
func TestModels(t *testing.T) {
	refused := map[string]string{"ddddocr_quantized": "DynamicQuantizeLinear", "silero_vad": "in If"}
	for _, name := range []string{"basic_pitch", "bert_mini", "bilstm_gru_ctc", "conv_loop", "ddddocr_quantized", "delay_line_loop", "gpt2_mini_kv", "gru_greedy_decoder",
		"mamba_scan_loop", "mobilenetv3_small", "nudenet_320n", "ppocr_cls", "ppocr_det", "ppocr_rec", "silero_vad", "silero_vad_ifless", "torchscript_loop_if", "unet_groupnorm", "vit_mini", "wakeword"} {
		t.Run(name, func(t *testing.T) {
			cases, err := conformance.Open(shareddata.Path(t, "models", name))
			require.NoError(t, err)
			m, err := berth.Open(cases[0].ModelPath())
			require.NoError(t, err)
			defer m.Close()
			sig, err := cases[0].Signature(t.Context())
			require.NoError(t, err)
			set, err := cases[0].LoadSet(t.Context(), sig, "test_data_set_0")
			require.NoError(t, err)
			var opts []berth.Option
			for i, x := range set.Inputs {
				if a, ok := x.Value.(*ndarray.Array); ok {
					opts = append(opts, berth.WithShape(m.Inputs()[i].Name, a.Shape...))
				}
			}
			g := m.Graph()
			chosen, err := gradient.Weights(t.Context(), g)
			require.NoError(t, err)
			chosen = slices.DeleteFunc(chosen, func(w *gradient.Weight) bool {
				v := w.Values[0]
				return !w.Const.DType().IsFloat() || w.Const.Len() < 2 || len(v.Uses()) == 0 || v.Uses()[0].Node.Op == "Resize"
			})
			weights, err := gradient.Promote(t.Context(), g, chosen...)
			require.NoError(t, err)
			bound, err := berth.FromModule(&ssa.Module{Graph: g}).Folded(t.Context(), opts...)
			require.NoError(t, err)
			if slices.Contains(withLoops, name) {
				in := map[string]ndarray.Value{}
				for i, x := range set.Inputs {
					in[bound.Params[i].Name] = x.Value
				}
				checkAlong(t, bound, bound.Params[len(bound.Params)-len(weights):], chosen, in)
			}
			count, total := 0, 0
			for _, y := range bound.Results {
				if !y.Type.DType.IsFloat() || y.Def == nil {
					continue
				}
				r := gradient.Reversal{Graph: bound, Y: y, By: bound.Params[len(bound.Params)-len(weights):]}
				d, err := r.Append(t.Context())
				if err != nil {
					assert.ErrorContains(t, err, refused[name])
					require.NotEmpty(t, refused[name], "%v", err)
					return
				}
				for _, v := range d {
					total++
					if v != nil {
						count++
					}
				}
			}
			require.NoError(t, ops.InferGraph(bound))
			t.Logf("%d of %d derivatives, %d nodes", count, total, len(bound.Nodes))
			assert.Empty(t, refused[name])
		})
	}
}

// withLoops are models with control flow or recurrent operators.
var withLoops = []string{"bilstm_gru_ctc", "conv_loop", "delay_line_loop", "mamba_scan_loop", "silero_vad_ifless", "torchscript_loop_if"}

// checkAlong compares the length of the derivative of the first output's square sum by all weights with how fast that rises along it,
// in a compiled program. A step changes the sum by a thousandth; what float32 rounds of that, and what curves and kinks do within
// the step, is below 5% of the slope.
func checkAlong(t *testing.T, bound *ssa.Graph, weights []*ssa.Value, from []*gradient.Weight, in map[string]ndarray.Value) {
	g, m := bound.Clone()
	y := g.Results[slices.IndexFunc(g.Results, func(v *ssa.Value) bool { return v.Type.DType.IsFloat() && v.Def != nil })]
	loss := call(t, g, "ReduceSumSquare", []*ssa.Value{y}, ssa.IntAttr("keepdims", 0))
	r := gradient.Reversal{Graph: g, Y: loss}
	for _, w := range weights {
		r.By = append(r.By, m[w.ID])
	}
	d, err := r.Append(t.Context())
	require.NoError(t, err)
	g.Results = []*ssa.Value{loss}
	outputs := []string{"loss"}
	for i, v := range d {
		a, err := from[i].Const.Array()
		require.NoError(t, err)
		in[weights[i].Name] = a.Clone()
		if v != nil {
			g.Results, outputs = append(g.Results, call(t, g, "Identity", []*ssa.Value{v})), append(outputs, weights[i].Name)
		}
	}
	unique(g)
	for i, p := range g.Params {
		p.Name = bound.Params[i].Name
	}
	p, err := berth.FromModule(&ssa.Module{Graph: g, OutputNames: outputs}).Compile(t.Context())
	require.NoError(t, err)
	start, err := p.RunValues(t.Context(), in)
	require.NoError(t, err)
	var square float64
	for _, name := range outputs[1:] {
		a := start[name].(*ndarray.Array)
		for i := range a.Len() {
			square += a.Float(i) * a.Float(i)
		}
	}
	slope, at := math.Sqrt(square), start["loss"].(*ndarray.Array).Float(0)
	require.Positive(t, slope)
	step := 1e-3 * at / slope
	moved := func(by float64) float64 {
		there := maps.Clone(in)
		for _, name := range outputs[1:] {
			a, d := in[name].(*ndarray.Array).Clone(), start[name].(*ndarray.Array)
			for i := range a.Len() {
				a.SetFloat(i, a.Float(i)+by/slope*d.Float(i))
			}
			there[name] = a
		}
		out, err := p.RunValues(t.Context(), there)
		require.NoError(t, err)
		return out["loss"].(*ndarray.Array).Float(0)
	}
	measured := (moved(step) - moved(-step)) / (2 * step)
	t.Logf("slope %g by %d weights, measured %g of it", slope, len(outputs)-1, measured/slope)
	assert.InEpsilon(t, slope, measured, 0.05)
}
