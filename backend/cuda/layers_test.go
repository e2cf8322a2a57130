package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// TestComparison: the plans of a comparison for the device are those of the programs that run there.
func TestComparison(t *testing.T) {
	workspaces := 0
	for _, name := range []string{"unet", "loop-conv", "capture-if", "lstm", "encoder"} {
		mod, err := testmodels.Build(name)
		require.NoError(t, err)
		m := berth.FromModule(mod)
		sizes := []berth.Option{berth.WithBackend(SimName)}
		for _, dim := range map[string][]string{"encoder": {"N", "S"}, "lstm": {"S"}}[name] {
			sizes = append(sizes, berth.WithDim(dim, 7))
		}
		for _, safe := range []bool{false, true} {
			opts := sizes
			if safe {
				opts = append(opts[:len(opts):len(opts)], berth.WithParallelSafe())
			}
			rows, err := m.Compare(t.Context(), berth.CompareOptions{Planners: []string{"pool", "dsatur", "auto"}, InPlace: []bool{true, false}, Others: !safe}, opts...)
			require.NoError(t, err, name)
			compared := 0
			for _, r := range rows {
				require.NoError(t, r.Err, "%s, %s", name, r.Planner)
				how, runs := r.Options()
				if !runs {
					continue
				}
				assert.Equal(t, SimName, r.Backend)
				p, err := m.Compile(t.Context(), append(how, sizes...)...)
				require.NoError(t, err)
				plan := p.Plan()
				assert.Equal(t, []any{plan.ArenaBytes, plan.ScratchBytes, plan.Blocks, plan.Proven}, []any{r.ArenaBytes, r.Scratch, r.Buffers, r.Proven}, "%s, %s", name, r.Planner)
				assert.LessOrEqual(t, plan.LowerBound, r.LowerBound)
				s, err := p.NewSession()
				require.NoError(t, err)
				assert.Equal(t, r.ArenaBytes, s.DeviceMemory().(*memory).bytes, "%s, %s", name, r.Planner)
				compared++
				workspaces += min(1, int(r.Scratch))
			}
			assert.GreaterOrEqual(t, compared, 6)
		}
		require.NoError(t, m.Close())
	}
	assert.Positive(t, workspaces)
}

// oneNode is a model of one node, "Operator" or "domain/Operator", whose first operand is its input; others are constants, absent where nil.
func oneNode(op string, results int, operands []*ndarray.Array, attrs ...ssa.Attr) *berth.Model {
	return modelOfGraph(oneNodeGraph(op, results, operands, attrs...))
}

func modelOfGraph(g *ssa.Graph) *berth.Model {
	return berth.FromModule(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}})
}

func oneNodeGraph(op string, results int, operands []*ndarray.Array, attrs ...ssa.Attr) *ssa.Graph {
	g := ssa.NewGraph("one")
	var in []*ssa.Value
	for i, a := range operands {
		switch {
		case i == 0:
			in = append(in, g.AddParam("x", ssa.StaticTensor(a.DType, a.Shape...)))
		case a == nil:
			in = append(in, nil)
		default:
			in = append(in, g.AddConst(fmt.Sprintf("c%d", i), ssa.NewConstant(a)))
		}
	}
	domain, name, hasDomain := strings.Cut(op, "/")
	if !hasDomain {
		domain, name = "", op
	}
	n := g.NewNode(name, in, results, attrs...)
	n.Domain = domain
	for i, o := range n.Out {
		o.Name = fmt.Sprintf("y%d", i)
	}
	g.Results = n.Out
	return g
}

// comparison runs a model on the interpreter and by the reference kernels, and counts launches.
func comparison(t *testing.T, m *berth.Model, x *ndarray.Array, launches int64, tolerance float64) {
	t.Helper()
	defer m.Close()
	in := map[string]ndarray.Value{"x": x}
	before := simulated.launches.Load()
	got, err := m.RunValues(t.Context(), in, berth.WithBackend(SimName))
	require.NoError(t, err)
	assert.Equal(t, launches, simulated.launches.Load()-before, "launches")
	want, err := m.RunValues(t.Context(), in, berth.WithBackend("reference"))
	require.NoError(t, err)
	for name, v := range want {
		w, g := v.(*ndarray.Array), got[name].(*ndarray.Array)
		require.Equal(t, w.Shape, g.Shape, name)
		require.Equal(t, w.DType, g.DType, name)
		for i := range w.Len() {
			a, b := w.Float(i), g.Float(i)
			require.True(t, a == b || math.Abs(a-b) <= tolerance*math.Max(1, math.Abs(a)) || math.IsNaN(a) && math.IsNaN(b), "%s[%d]: %v on the device, %v on the host", name, i, b, a)
		}
	}
}

func normal(rng *rand.Rand, shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, rng.NormFloat64())
	}
	return a
}

// TestRecurrent compares layers of all cells, directions and options with the reference kernels.
func TestRecurrent(t *testing.T) {
	const steps, batch, input = 4, 3, 5
	lengths := ndarray.Of([]int32{2, 0, 4}, 3)
	three := ssa.StringsAttr("activations", "HardSigmoid", "ScaledTanh", "Softsign")
	six := ssa.StringsAttr("activations", "Sigmoid", "Elu", "Affine", "Relu", "LeakyRelu", "ThresholdedRelu")
	cases := []struct {
		name, op      string
		hidden        int
		lengths       *ndarray.Array
		states, peeps bool
		hasBias       bool
		attrs         []ssa.Attr
	}{
		{"rnn", "RNN", 7, nil, false, false, true, nil},
		{"rnn in both directions", "RNN", 33, lengths, true, false, true, []ssa.Attr{ssa.StringAttr("direction", "bidirectional")}},
		{"gru", "GRU", 33, nil, true, false, true, nil},
		{"gru, linear, clipped", "GRU", 5, lengths, false, false, true, []ssa.Attr{ssa.IntAttr("linear_before_reset", 1), ssa.FloatAttr("clip", 0.3)}},
		{"gru without bias, reversed, batch first", "GRU", 9, nil, true, false, false,
			[]ssa.Attr{ssa.StringAttr("direction", "reverse"), ssa.IntAttr("layout", 1)}},
		{"lstm", "LSTM", 40, nil, false, false, true, nil},
		{"lstm with peepholes", "LSTM", 6, lengths, true, true, true, []ssa.Attr{ssa.StringAttr("direction", "bidirectional")}},
		{"lstm, coupled, other functions", "LSTM", 6, nil, true, true, true, []ssa.Attr{ssa.IntAttr("input_forget", 1), three}},
		{"lstm, clipped", "LSTM", 6, nil, true, true, true, []ssa.Attr{ssa.FloatAttr("clip", 0.3)}},
		{"lstm, functions by direction", "LSTM", 6, nil, false, false, true, []ssa.Attr{ssa.StringAttr("direction", "bidirectional"), six,
			ssa.FloatsAttr("activation_alpha", 0.5, 2, 0.1, 0.2), ssa.FloatsAttr("activation_beta", 0.25)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			dirs, states, gates := 1, 2, map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[c.op]
			var isBatchFirst bool
			for _, a := range c.attrs {
				if a.S == "bidirectional" {
					dirs = 2
				}
				isBatchFirst = isBatchFirst || a.Name == "layout"
			}
			if c.op == "LSTM" {
				states = 3
			}
			x, state := []int{steps, batch, input}, []int{dirs, batch, c.hidden}
			if isBatchFirst {
				x, state = []int{batch, steps, input}, []int{batch, dirs, c.hidden}
			}
			operands := []*ndarray.Array{normal(rng, x...), normal(rng, dirs, gates*c.hidden, input), normal(rng, dirs, gates*c.hidden, c.hidden), nil, c.lengths}
			if c.hasBias {
				operands[3] = normal(rng, dirs, 2*gates*c.hidden)
			}
			for range states - 1 {
				var a *ndarray.Array
				if c.states {
					a = normal(rng, state...)
				}
				operands = append(operands, a)
			}
			if c.peeps {
				operands = append(operands, normal(rng, dirs, 3*c.hidden))
			}
			comparison(t, oneNode(c.op, states, operands, append(c.attrs, ssa.IntAttr("hidden_size", int64(c.hidden)))...), operands[0], 2, 2e-5)
		})
	}
}

// TestQuantize: ties go to even, what is too large saturates, NaN is the least integer.
func TestQuantize(t *testing.T) {
	x := ndarray.Of([]float32{0.5, 1.5, -0.5, 2.5, 1e9, -1e9, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 126.5, -128.5, 0}, 3, 4)
	scales := ndarray.Of([]float32{1, 0.5, 2, 4}, 4)
	for _, zero := range []*ndarray.Array{ndarray.Of([]int8{0, -3, 5, 127}, 4), ndarray.Of([]uint8{0, 128, 5, 255}, 4), ndarray.Of([]int16{0, -300, 5, 12}, 4),
		ndarray.Of([]uint16{0, 300, 5, 65535}, 4)} {
		comparison(t, oneNode("QuantizeLinear", 1, []*ndarray.Array{x, scales, zero}, ssa.IntAttr("axis", 1)), x, 1, 0)
		comparison(t, oneNode("DequantizeLinear", 1, []*ndarray.Array{zero, ndarray.Of([]float32{0.25}), nil}), zero, 1, 0)
	}
}

// TestResize: all ways of weighting, one axis and two, larger and smaller; not-a-number reaches its neighbours alone.
func TestResize(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	x := normal(rng, 2, 3, 7, 5)
	x.SetFloat(0, math.NaN())
	scales := func(list ...float32) *ndarray.Array { return ndarray.Of(list, len(list)) }
	modes := []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}
	for i, factors := range []*ndarray.Array{scales(1, 1, 2, 2), scales(1, 1, 0.6, 1), scales(1, 1, 3, 0.5), scales(1, 2, 1.5, 2.5)} {
		for _, mode := range []string{"linear", "cubic"} {
			attrs := []ssa.Attr{ssa.StringAttr("mode", mode), ssa.StringAttr("coordinate_transformation_mode", modes[i%len(modes)]),
				ssa.IntAttr("antialias", int64(i/2)), ssa.IntAttr("exclude_outside", int64(i%2))}
			changed := int64(0)
			for k := range factors.Len() {
				if factors.Float(k) != 1 {
					changed++
				}
			}
			comparison(t, oneNode("Resize", 1, []*ndarray.Array{x, nil, factors}, attrs...), x, changed, 1e-5)
		}
	}
	sizes := []*ndarray.Array{x, nil, nil, ndarray.Of([]int64{9, 2}, 2)}
	comparison(t, oneNode("Resize", 1, sizes, ssa.StringAttr("mode", "linear"), ssa.IntsAttr("axes", 3, 2)), x, 2, 1e-5)
}

// TestLpNormalization: rows of zeros stay zeros.
func TestLpNormalization(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	x := normal(rng, 3, 5, 4)
	for i := range 5 {
		x.SetFloat(4*i, 0)
	}
	for p := range 2 {
		for axis := range 3 {
			comparison(t, oneNode("LpNormalization", 1, []*ndarray.Array{x}, ssa.IntAttr("p", int64(p+1)), ssa.IntAttr("axis", int64(axis))), x, 2, 1e-6)
		}
	}
}
