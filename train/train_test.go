package train_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/all"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// parsed is a model of a graph in text form, whose constants without numbers are drawn.
func parsed(t testing.TB, text string, weights map[string]*ndarray.Array) *berth.Model {
	g, err := ssa.ParseGraph(`graph "m" {` + text + `}`)
	require.NoError(t, err)
	for _, v := range append([]*ssa.Value(nil), g.Params...) {
		if w := weights[v.Name]; w != nil {
			c := g.AddConst(v.Name, ssa.NewConstant(w))
			g.ReplaceUses(v, c)
		}
	}
	var rest []*ssa.Value
	for _, v := range g.Params {
		if weights[v.Name] == nil {
			rest = append(rest, v)
		}
	}
	g.Params = rest
	require.NoError(t, ops.InferGraph(g))
	return berth.FromModule(&ssa.Module{Graph: g})
}

// waves are numbers without pattern, the same in the PyTorch script: sin(i·1.7 + seed)·scale.
func waves(scale, seed float64, shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, math.Sin(float64(i)*1.7+seed)*scale)
	}
	return a
}

// TestFirstStates: zeros that a loop or a recurrent layer begins with are no weights, unless they are named; other first states are.
func TestFirstStates(t *testing.T) {
	const layer = `in %x: float32[3,2,4] in %w: float32[1,6,4] in %r: float32[1,6,2] in %h: float32[1,2,2] _, %y = GRU(%x, %w, %r, _, _, %h) [hidden_size=2] out %y`
	const loop = `in %x: float32[3,2,2] in %h: float32[2,2] in %w: float32[2,2] %y = Scan(%h, %x | %w) [num_scan_inputs=1] { body: graph "b" { in %h: float32[2,2] in %x: float32[2,2] in %w: float32[2,2]
		%p = MatMul(%h, %w) %n = Add(%p, %x) out %n } } out %y`
	for _, c := range []struct {
		text  string
		first *ndarray.Array
		learn []string
		want  []string
	}{
		{layer, filled(0, 1, 2, 2), nil, []string{"w", "r"}},
		{layer, waves(1, 1, 1, 2, 2), nil, []string{"w", "r", "h"}},
		{layer, filled(0, 1, 2, 2), []string{"h"}, []string{"h"}},
		{loop, filled(0, 2, 2), nil, []string{"w"}},
		{loop, filled(0.5, 2, 2), nil, []string{"h", "w"}},
	} {
		weights := map[string]*ndarray.Array{"w": waves(1, 2, 1, 6, 4), "r": waves(1, 3, 1, 6, 2), "h": c.first}
		if c.first.Rank() == 2 {
			weights = map[string]*ndarray.Array{"w": waves(1, 2, 2, 2), "h": c.first}
		}
		tr, err := train.New(t.Context(), parsed(t, c.text, weights), train.Options{Loss: train.MeanSquaredError, Learn: c.learn})
		require.NoError(t, err)
		assert.ElementsMatch(t, c.want, tr.Learned())
	}
}

const perceptron = `in %x: float32[4,3] in %w1: float32[3,5] in %b1: float32[5] in %w2: float32[5,2] in %b2: float32[2]
	%h = Gemm(%x, %w1, %b1) %a = Tanh(%h) %y = Gemm(%a, %w2, %b2) out %y`

func perceptronWeights() map[string]*ndarray.Array {
	return map[string]*ndarray.Array{"w1": waves(0.7, 1, 3, 5), "b1": waves(0.1, 2, 5), "w2": waves(0.6, 3, 5, 2), "b2": waves(0.1, 4, 2)}
}

// optimizers are all of them, with the name of PyTorch's form.
var optimizers = map[string]train.Optimizer{"sgd": train.SGD(0.01), "momentum": train.Momentum(0.9, 0.01), "nesterov": train.Nesterov(0.9, 0), "adam": train.Adam(0.9, 0.99, 1e-8, 0.01),
	"adamw": train.AdamW(0.9, 0.99, 1e-8, 0.1), "adagrad": train.Adagrad(1e-10, 0)}

// TestLearns: each optimizer makes the loss of a perceptron small, in steps that allocate nothing.
func TestLearns(t *testing.T) {
	for name, o := range optimizers {
		t.Run(name, func(t *testing.T) {
			tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.CrossEntropy, Optimizer: o, Rate: train.Constant(0.1), Compile: []berth.Option{berth.WithThreads(1)}})
			require.NoError(t, err)
			assert.Equal(t, []string{"w1", "b1", "w2", "b2"}, tr.Learned())
			x, labels := waves(1, 5, 4, 3), ndarray.Of([]int64{0, 1, 1, 0}, 4)
			first, err := tr.Step(t.Context(), x, labels)
			require.NoError(t, err)
			var last float64
			for range 60 {
				last, err = tr.Step(t.Context(), x, labels)
				require.NoError(t, err)
			}
			assert.Less(t, last, 0.5*first)
			in := []ndarray.Value{x, labels}
			ctx := context.Background()
			assert.Zero(t, testing.AllocsPerRun(10, func() {
				if _, err := tr.Step(ctx, in...); err != nil {
					t.Error(err)
				}
			}))
		})
	}
}

// TestAccumulate: the weights change after every third step, by the mean of three derivatives, as those of one step over all the
// examples; a trainer that goes back between changes takes the same steps again.
func TestAccumulate(t *testing.T) {
	for name, optimizer := range map[string]train.Optimizer{"sgd": train.SGD(0.01), "adam": optimizers["adam"]} {
		t.Run(name, func(t *testing.T) {
			o := train.Options{Loss: train.MeanSquaredError, Optimizer: optimizer, Rate: train.Decay(0.1, 0.5, 1), ClipNorm: 0.5}
			whole, err := train.New(t.Context(), parsed(t, strings.Replace(perceptron, "[4,3]", "[12,3]", 1), perceptronWeights()), o)
			require.NoError(t, err)
			o.Accumulate, o.Learn = 3, []string{"b2", "w2", "w1", "b1"}
			tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), o)
			require.NoError(t, err)
			x, want := waves(1, 5, 12, 3), waves(0.5, 6, 12, 2)
			part := func(a *ndarray.Array, i int) *ndarray.Array {
				size := len(a.Data) / 3
				return &ndarray.Array{DType: a.DType, Shape: []int{4, a.Shape[1]}, Data: a.Data[i*size : (i+1)*size]}
			}
			var c *train.Checkpoint
			for change := range 3 {
				_, err := whole.Step(t.Context(), x, want)
				require.NoError(t, err)
				before, err := tr.Weight("w1")
				require.NoError(t, err)
				for i := range 3 {
					now, err := tr.Weight("w1")
					require.NoError(t, err)
					assert.Equal(t, before.Data, now.Data, "change %d, step %d", change, i)
					_, err = tr.Step(t.Context(), part(x, i).Clone(), part(want, i).Clone())
					require.NoError(t, err)
					if change == 1 && i == 1 {
						c, err = tr.Checkpoint()
						require.NoError(t, err)
					}
				}
				a, err := whole.Weight("w1")
				require.NoError(t, err)
				b, err := tr.Weight("w1")
				require.NoError(t, err)
				for k := range a.Len() {
					assert.InDelta(t, a.Float(k), b.Float(k), 1e-6, "change %d", change)
				}
			}
			last, err := tr.Weight("w1")
			require.NoError(t, err)
			require.NoError(t, tr.Restore(c))
			for _, i := range []int{2, 0, 1, 2} {
				_, err = tr.Step(t.Context(), part(x, i).Clone(), part(want, i).Clone())
				require.NoError(t, err)
			}
			again, err := tr.Weight("w1")
			require.NoError(t, err)
			assert.Equal(t, last.Data, again.Data)
		})
	}
}

// TestModel: the model that training gives has the loss that the next step finds, also after it was written and read.
func TestModel(t *testing.T) {
	m := parsed(t, perceptron, perceptronWeights())
	tr, err := train.New(t.Context(), m, train.Options{Loss: train.MeanSquaredError, Rate: train.Constant(0.1)})
	require.NoError(t, err)
	x, want := waves(1, 5, 4, 3), waves(0.5, 6, 4, 2)
	for range 3 {
		_, err = tr.Step(t.Context(), x, want)
		require.NoError(t, err)
	}
	learned, err := tr.Model()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "learned.onnx")
	require.NoError(t, learned.Save(file, berth.SaveOptions{}))
	read, err := berth.Open(file)
	require.NoError(t, err)
	defer read.Close()
	next, err := tr.Step(t.Context(), x, want)
	require.NoError(t, err)
	for _, m := range []*berth.Model{learned, read} {
		out, err := m.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
		require.NoError(t, err)
		y, sum := out["y"].(*ndarray.Array), 0.0
		for i := range y.Len() {
			sum += (y.Float(i) - want.Float(i)) * (y.Float(i) - want.Float(i))
		}
		assert.InDelta(t, next, sum/float64(y.Len()), 1e-6)
	}
	further, err := train.New(t.Context(), read, train.Options{Loss: train.MeanSquaredError, Rate: train.Constant(0.1)})
	require.NoError(t, err)
	_, err = further.Step(t.Context(), x, want)
	require.NoError(t, err)
	again, err := further.Model()
	require.NoError(t, err)
	for _, v := range again.Graph().Values() {
		if v.Name == "w1" {
			a, err := v.Const.Array()
			require.NoError(t, err)
			w, err := tr.Weight("w1") // one step further, too
			require.NoError(t, err)
			assert.Equal(t, w.Data, a.Data)
		}
	}
	before, err := m.RunValues(t.Context(), map[string]ndarray.Value{"x": x})
	require.NoError(t, err)
	untouched, err := parsed(t, perceptron, perceptronWeights()).RunValues(t.Context(), map[string]ndarray.Value{"x": x})
	require.NoError(t, err)
	assert.Equal(t, untouched["y"].(*ndarray.Array).Data, before["y"].(*ndarray.Array).Data)
}

// TestCheckpoint: a trainer that goes back takes the same steps again, bit for bit, also by what was written and read.
func TestCheckpoint(t *testing.T) {
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError, Optimizer: optimizers["adam"]})
	require.NoError(t, err)
	x, want := waves(1, 5, 4, 3), waves(0.5, 6, 4, 2)
	steps := func() (losses []float64) {
		for range 3 {
			loss, err := tr.Step(t.Context(), x, want)
			require.NoError(t, err)
			losses = append(losses, loss)
		}
		return losses
	}
	steps()
	c, err := tr.Checkpoint()
	require.NoError(t, err)
	var file bytes.Buffer
	require.NoError(t, gob.NewEncoder(&file).Encode(c))
	c = new(train.Checkpoint)
	require.NoError(t, gob.NewDecoder(&file).Decode(c))
	first := steps()
	require.NoError(t, tr.Restore(c))
	assert.Equal(t, 3, tr.Steps())
	assert.Equal(t, first, steps())
	c.States["w9"] = c.States["w1"]
	assert.ErrorContains(t, tr.Restore(c), "w9")
	delete(c.States, "w1")
	assert.ErrorContains(t, tr.Restore(c), "w1")
}

// TestCancelled: a step that its context ended leaves the weights as they were.
func TestCancelled(t *testing.T) {
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = tr.Step(ctx, waves(1, 5, 4, 3), waves(0.5, 6, 4, 2))
	assert.ErrorIs(t, err, context.Canceled)
	w, err := tr.Weight("w1")
	require.NoError(t, err)
	assert.Equal(t, perceptronWeights()["w1"].Data, w.Data)
	assert.Zero(t, tr.Steps())
}

// TestErrors: what can not be trained is told by name.
func TestErrors(t *testing.T) {
	weights := perceptronWeights()
	for _, c := range []struct {
		name, text, want string
		o                train.Options
	}{
		{"no such output", perceptron, `Options.Output(z): want an output`, train.Options{Output: "z"}},
		{"no such weight", perceptron, `Options.Learn(w9): want a weight`, train.Options{Learn: []string{"w9"}}},
		{"a loss of several elements", perceptron, "one number", train.Options{}},
		{"a weight that does not count", perceptron + ` `, "does not depend", train.Options{Output: "y", Learn: []string{"w2", "w1"}, Loss: func(b *train.Builder, y *ssa.Value) *ssa.Value {
			return b.Op("ReduceSum", []*ssa.Value{b.Graph.Params[1]}, ssa.IntAttr("keepdims", 0))
		}}},
		{"steps alone between loss and weights", `in %x: float32[4,3] in %w1: float32[3,5] %p = MatMul(%x, %w1) %y = Sign(%p) out %y`, `Sign "-> y"`, train.Options{Loss: train.MeanSquaredError}},
		{"an output of integers", `in %x: float32[4,3] in %w1: float32[3,5] %p = MatMul(%x, %w1) %y = ArgMax(%p) out %y`, "no tensor of floats", train.Options{Loss: train.MeanSquaredError}},
		{"no weights", `in %x: float32[4,3] %y = Relu(%x) out %y`, "no weights", train.Options{Loss: train.MeanSquaredError}},
		{"weights of two types", `in %x: float32[4,3] in %w1: float32[3,5] const %w3: float64[2] = [1,2] %p = MatMul(%x, %w1) %s = ReduceSum(%p) [keepdims=0] %q = Cast(%s) [to=11] %y = Mul(%q, %w3) out %y`, `weight "w3" is of float64 and "w1" of float32`, train.Options{Loss: train.MeanSquaredError}},
		{"an input of the name that a loss adds", `in %target: float32[4,3] in %w1: float32[3,5] %y = MatMul(%target, %w1) out %y`, `input "target"`, train.Options{Loss: train.MeanSquaredError}},
		{"a weight named twice", perceptron, `Options.Learn(w1): want each weight once`, train.Options{Loss: train.MeanSquaredError, Learn: []string{"w1", "w1"}}},
		{"an input as a weight", perceptron, `Options.Learn(x): want a weight, and no input`, train.Options{Loss: train.MeanSquaredError, Learn: []string{"x"}}},
		{"no weight named", perceptron, "nil learns all", train.Options{Loss: train.MeanSquaredError, Learn: []string{}}},
		{"negative accumulation", perceptron, "Options.Accumulate(-3)", train.Options{Loss: train.MeanSquaredError, Accumulate: -3}},
		{"a length that is none", perceptron, "Options.ClipNorm(NaN)", train.Options{Loss: train.MeanSquaredError, ClipNorm: math.NaN()}},
		{"a negative budget", perceptron, "Options.Budget(-1)", train.Options{Loss: train.MeanSquaredError, Budget: -1}},
		{"a loss without a value", perceptron, "no value", train.Options{Loss: func(*train.Builder, *ssa.Value) *ssa.Value { return nil }}},
		{"a loss of an operator that is not there", perceptron, `no operator "Nope"`, train.Options{Loss: func(b *train.Builder, y *ssa.Value) *ssa.Value { return b.Op("Nope", []*ssa.Value{y}) }}},
		{"open shapes", `in %x: float32[N,3] in %w1: float32[3,5] %y = MatMul(%x, %w1) out %y`, "one number", train.Options{Loss: func(_ *train.Builder, y *ssa.Value) *ssa.Value { return y }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := train.New(t.Context(), parsed(t, c.text, weights), c.o)
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err := train.New(t.Context(), &berth.Model{}, train.Options{})
	assert.ErrorContains(t, err, "no outputs")
	det := parsed(t, `in %x: float32[5,5] in %w1: float32[3,5] %p = MatMul(%w1, %x) %t = Transpose(%w1) %q = MatMul(%p, %t) %y = Det(%q) out %y`, weights)
	_, err = train.New(t.Context(), det, train.Options{})
	var refused *gradient.Error
	require.ErrorAs(t, err, &refused)
	assert.ErrorContains(t, err, "Det")
}

// TestFrozenNorms: a batch normalization whose scale and bias are not learned stays in the form of inference, with its statistics as
// they are; one of which either is learned updates them.
func TestFrozenNorms(t *testing.T) {
	for learn, trained := range map[string]bool{"w": false, "k1": false, "s": true, "o": true} {
		m := pytorchModels["cnn"]
		tr, err := train.New(t.Context(), parsed(t, m.text, m.weights), train.Options{Loss: m.loss, Learn: []string{learn}, Rate: train.Constant(0.1)})
		require.NoError(t, err)
		before, err := parsed(t, m.text, m.weights).RunValues(t.Context(), map[string]ndarray.Value{"x": m.in[0]})
		require.NoError(t, err)
		loss, err := tr.Step(t.Context(), m.in...)
		require.NoError(t, err)
		_, err = tr.Weight("mean")
		assert.Equal(t, trained, err == nil, "%s: %v", learn, err)
		if !trained {
			y, labels, want := before["y9"].(*ndarray.Array), m.in[1].(*ndarray.Array), 0.0
			for i := range 4 {
				sum := 0.0
				for k := range 3 {
					sum += math.Exp(y.Float(i*3 + k))
				}
				want += (math.Log(sum) - y.Float(i*3+int(labels.Int(i)))) / 4
			}
			assert.InDelta(t, want, loss, 1e-6, "%s: the loss is that of the model as it runs", learn)
		}
	}
}

// TestScores: losses that make probabilities of scores refuse probabilities, and take the scores that the error names; the model keeps its
// output of probabilities.
func TestScores(t *testing.T) {
	labels, pairs := ndarray.Of([]int64{0, 1, 1, 0}, 4), waves(0.5, 6, 4, 2)
	for _, c := range []struct {
		op     string
		loss   train.Loss
		target ndarray.Value
		refuse bool
	}{{"Softmax", train.CrossEntropy, labels, true}, {"Softmax", train.BinaryCrossEntropy, pairs, true}, {"Sigmoid", train.BinaryCrossEntropy, pairs, true},
		{"Sigmoid", train.CrossEntropy, labels, false}, {"LogSoftmax", train.CrossEntropy, labels, false}, {"Softmax", train.MeanSquaredError, pairs, false}} {
		m := parsed(t, strings.Replace(perceptron, "out %y", "%p = "+c.op+"(%y) out %p", 1), perceptronWeights())
		_, err := train.New(t.Context(), m, train.Options{Loss: c.loss})
		if !c.refuse {
			assert.NoError(t, err, c.op)
			continue
		}
		require.ErrorContains(t, err, `must name "y"`, c.op)
		tr, err := train.New(t.Context(), m, train.Options{Loss: c.loss, Output: "y"})
		require.NoError(t, err)
		plain, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: c.loss})
		require.NoError(t, err)
		for range 3 {
			got, err := tr.Step(t.Context(), waves(1, 5, 4, 3), c.target)
			require.NoError(t, err)
			want, err := plain.Step(t.Context(), waves(1, 5, 4, 3), c.target)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		learned, err := tr.Model()
		require.NoError(t, err)
		assert.Equal(t, "p", learned.Outputs()[0].Name)
	}
	_, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Output: "w1"})
	assert.ErrorContains(t, err, `Options.Output(w1): want an output`)
}
