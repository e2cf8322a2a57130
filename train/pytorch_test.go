package train_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// pytorchModel is a model of testdata/pytorch.json, which internal/tools/traingolden/golden.py writes.
type pytorchModel struct {
	text    string
	weights map[string]*ndarray.Array
	loss    train.Loss
	in      []ndarray.Value
}

// around1 are waves around 1.
func around1(scale, seed float64, shape ...int) *ndarray.Array {
	a := waves(scale, seed, shape...)
	for i := range a.Len() {
		a.SetFloat(i, 1+math.Sin(float64(i)*1.7+seed)*scale)
	}
	return a
}

func filled(v float64, shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, v)
	}
	return a
}

var pytorchModels = map[string]pytorchModel{
	"mlp": {perceptron, perceptronWeights(), train.CrossEntropy, []ndarray.Value{waves(1, 5, 4, 3), ndarray.Of([]int64{0, 1, 1, 0}, 4)}},
	"cnn": {`in %x: float32[4,2,8,8] in %k1: float32[4,2,3,3] in %c1: float32[4] in %s: float32[4] in %o: float32[4] in %mean: float32[4] in %var: float32[4]
		in %k2: float32[6,4,3,3] in %w: float32[6,3] in %b: float32[3]
		%y1 = Conv(%x, %k1, %c1) [pads=[1,1,1,1]] %y2 = BatchNormalization(%y1, %s, %o, %mean, %var) %y3 = Relu(%y2) %y4 = MaxPool(%y3) [kernel_shape=[2,2], strides=[2,2]]
		%y5 = Conv(%y4, %k2) [strides=[2,2]] %y6 = Relu(%y5) %y7 = GlobalAveragePool(%y6) %y8 = Flatten(%y7) %y9 = Gemm(%y8, %w, %b) out %y9`,
		map[string]*ndarray.Array{"k1": waves(.4, 1, 4, 2, 3, 3), "c1": waves(.1, 2, 4), "s": around1(.2, 3, 4), "o": waves(.1, 4, 4), "mean": filled(0, 4), "var": filled(1, 4),
			"k2": waves(.3, 5, 6, 4, 3, 3), "w": waves(.5, 6, 6, 3), "b": waves(.1, 7, 3)},
		train.CrossEntropy, []ndarray.Value{waves(1, 8, 4, 2, 8, 8), ndarray.Of([]int64{0, 1, 2, 1}, 4)}},
	"transformer": {`in %ids: int64[2,6] in %table: float32[11,8] in %place: float32[6,8] in %g1: float32[8] in %h1: float32[8] in %qkv: float32[8,24] in %proj: float32[8,8]
		in %g2: float32[8] in %h2: float32[8] in %up: float32[8,16] in %down: float32[16,8] in %head: float32[8,11]
		%e = Gather(%table, %ids) %x = Add(%e, %place) %n1 = LayerNormalization(%x, %g1, %h1) %p = MatMul(%n1, %qkv) %q, %k, %v = Split(%p) [axis=2, num_outputs=3]
		%a = Attention(%q, %k, %v) [is_causal=1, q_num_heads=2, kv_num_heads=2] %b = MatMul(%a, %proj) %r = Add(%x, %b)
		%n2 = LayerNormalization(%r, %g2, %h2) %m1 = MatMul(%n2, %up) %m2 = Gelu(%m1) %m3 = MatMul(%m2, %down) %z = Add(%r, %m3)
		%l = MatMul(%z, %head) %y = Transpose(%l) [perm=[0,2,1]] out %y`,
		map[string]*ndarray.Array{"table": waves(.5, 1, 11, 8), "place": waves(.3, 2, 6, 8), "g1": around1(.1, 3, 8), "h1": waves(.1, 4, 8), "qkv": waves(.4, 5, 8, 24),
			"proj": waves(.3, 6, 8, 8), "g2": around1(.1, 7, 8), "h2": waves(.1, 8, 8), "up": waves(.4, 9, 8, 16), "down": waves(.3, 10, 16, 8), "head": waves(.4, 11, 8, 11)},
		train.CrossEntropy, []ndarray.Value{ndarray.Of([]int64{1, 4, 2, 4, 10, 0, 3, 3, 5, 9, 8, 7}, 2, 6), ndarray.Of([]int64{4, 2, 4, 10, 0, 1, 3, 5, 9, 8, 7, 6}, 2, 6)}},
	"lstm": {`in %x: float32[5,3,2] in %wx: float32[2,16] in %wh: float32[4,16] in %b: float32[16] in %out: float32[4,2] const %n: int64[] = 5 const %zero: float32[] = 0 const %s: int64[2] = [3,4]
		%h0 = Expand(%zero, %s) %h, %c = Loop(%n, _, %h0, %h0 | %x, %wx, %wh, %b) { body: graph "step" { in %t: int64[] in %go: bool[] in %h: float32[3,4] in %c: float32[3,4]
			in %x: float32[5,3,2] in %wx: float32[2,16] in %wh: float32[4,16] in %b: float32[16]
			%xt = Gather(%x, %t) %p = MatMul(%xt, %wx) %q = MatMul(%h, %wh) %pq = Add(%p, %q) %all = Add(%pq, %b) %i, %f, %g, %o = Split(%all) [axis=1, num_outputs=4]
			%is = Sigmoid(%i) %fs = Sigmoid(%f) %gt = Tanh(%g) %os = Sigmoid(%o) %fc = Mul(%fs, %c) %ig = Mul(%is, %gt) %cn = Add(%fc, %ig) %ct = Tanh(%cn) %hn = Mul(%os, %ct) out %go, %hn, %cn } }
		%y = MatMul(%h, %out) out %y`,
		map[string]*ndarray.Array{"wx": waves(.5, 1, 2, 16), "wh": waves(.4, 2, 4, 16), "b": waves(.2, 3, 16), "out": waves(.5, 4, 4, 2)},
		train.MeanSquaredError, []ndarray.Value{waves(1, 5, 5, 3, 2), waves(.5, 6, 3, 2)}},
}

// pytorchRates are the rates of the optimizers in golden.py.
var pytorchRates = map[string]float64{"sgd": .1, "momentum": .02, "nesterov": .02, "adam": .01, "adamw": .01, "adagrad": .05, "clipped": .1}

// golden is what PyTorch computed in float64.
type golden struct {
	Rate   float64 // what the rates of the optimizers are multiplied with
	Losses map[string][]float64
	Full   map[string][]float64 // losses at the optimizers' own rates, where Rate is not 1
	Slopes map[string][]float64
}

func pytorchGolden(t *testing.T) map[string]golden {
	data, err := os.ReadFile("testdata/pytorch.json")
	require.NoError(t, err)
	var raw map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &raw))
	delete(raw, "pytorch")
	out := map[string]golden{}
	for name, text := range raw {
		var g golden
		require.NoError(t, json.Unmarshal(text, &g))
		out[name] = g
	}
	return out
}

// TestPyTorchSteps: twenty steps have the losses of PyTorch's, by each optimizer. PyTorch computes in float64; the losses here are
// sums of float32, whose errors twenty steps pass on.
func TestPyTorchSteps(t *testing.T) {
	for name, want := range pytorchGolden(t) {
		m := pytorchModels[name]
		for optimizer, losses := range want.Losses {
			if (name == "lstm" || name == "scan") && optimizer != "adam" {
				continue // a loop takes long to order
			}
			t.Run(name+" "+optimizer, func(t *testing.T) {
				o := train.Options{Loss: m.loss, Optimizer: optimizers[optimizer], Rate: train.Constant(pytorchRates[optimizer] * want.Rate)}
				if optimizer == "clipped" {
					o.ClipNorm = 0.05
				}
				tr, err := train.New(t.Context(), parsed(t, m.text, m.weights), o)
				require.NoError(t, err)
				for i, want := range losses {
					got, err := tr.Step(t.Context(), m.in...)
					require.NoError(t, err)
					require.InDelta(t, want, got, 1e-4*max(1, want), "step %d", i+1)
				}
			})
		}
	}
}

// doubled is an array of floats in float64; others are as they are.
func doubled(v ndarray.Value) *ndarray.Array {
	a := v.(*ndarray.Array)
	if !a.DType.IsFloat() {
		return a
	}
	out := ndarray.Must(ndarray.Float64, a.Shape...)
	for i := range a.Len() {
		out.SetFloat(i, a.Float(i))
	}
	return out
}

// inDouble is a graph of floats in float64, as are means and variances, which ONNX has in float32 unless told otherwise.
func inDouble(text string) string {
	return normalized.ReplaceAllString(strings.ReplaceAll(text, "float32", "float64"), "$0 [stash_type=11]")
}

var normalized = regexp.MustCompile(` LayerNormalization\([^)]*\)`)

// TestPyTorchStepsDouble: in float64 the same steps have PyTorch's losses to 1e-8, at the optimizers' own rates, too. What
// is between the losses of float32 and these is rounding.
func TestPyTorchStepsDouble(t *testing.T) {
	for name, want := range pytorchGolden(t) {
		m := pytorchModels[name]
		weights := map[string]*ndarray.Array{}
		for k, w := range m.weights {
			weights[k] = doubled(w)
		}
		var in []ndarray.Value
		for _, v := range m.in {
			in = append(in, doubled(v))
		}
		losses := want.Losses
		if want.Full != nil {
			losses = want.Full
		}
		for optimizer, losses := range losses {
			if (name == "lstm" || name == "scan") && optimizer != "adagrad" {
				continue // a loop takes long to order
			}
			t.Run(name+" "+optimizer, func(t *testing.T) {
				o := train.Options{Loss: m.loss, Optimizer: optimizers[optimizer], Rate: train.Constant(pytorchRates[optimizer])}
				if optimizer == "clipped" {
					o.ClipNorm = 0.05
				}
				tr, err := train.New(t.Context(), parsed(t, inDouble(m.text), weights), o)
				require.NoError(t, err)
				for i, want := range losses {
					got, err := tr.Step(t.Context(), in...)
					require.NoError(t, err)
					require.InDelta(t, want, got, 1e-8*max(1, want), "step %d", i+1)
				}
			})
		}
	}
}

// TestPyTorchSlopes: derivatives by all weights of a model are PyTorch's. A step of rate 1 takes them off the weights, which are
// below 2: rounding adds 1.2e-7 to each.
func TestPyTorchSlopes(t *testing.T) {
	for name, want := range pytorchGolden(t) {
		for _, threads := range []int{1, 3} {
			if name == "lstm" && threads > 1 {
				continue
			}
			t.Run(name, func(t *testing.T) {
				m := pytorchModels[name]
				tr, err := train.New(t.Context(), parsed(t, m.text, m.weights), train.Options{Loss: m.loss, Rate: train.Constant(1), Compile: []berth.Option{berth.WithThreads(threads)}})
				require.NoError(t, err)
				_, err = tr.Step(t.Context(), m.in...)
				require.NoError(t, err)
				assert.Len(t, tr.Learned(), len(want.Slopes))
				for weight := range maps.Keys(want.Slopes) {
					w, err := tr.Weight(weight)
					require.NoError(t, err)
					length, apart := 0.0, 0.0
					for i, d := range want.Slopes[weight] {
						got := m.weights[weight].Float(i) - w.Float(i)
						length += d * d
						apart += (got - d) * (got - d)
					}
					assert.LessOrEqual(t, math.Sqrt(apart), 1e-5*math.Sqrt(length)+2.4e-7*math.Sqrt(float64(w.Len())), "%s", weight)
				}
			})
		}
	}
}
