package train_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// TestLabels: labels that are no class are refused by input, place and value, whichever loss reads them, and the weights stay as they were.
func TestLabels(t *testing.T) {
	scores := `in %x: float32[4,3] in %w1: float32[3,5] in %labels: int64[4] %y = MatMul(%x, %w1) `
	pixels := `in %x: float32[2,3,2,2] in %k: float32[4,3,1,1] %y = Conv(%x, %k) out %y`
	ignored := int64(-100)
	for _, c := range []struct {
		name, text, input string
		loss              train.Loss
		shape, index      []int
		wrong, right      []int64
		classes           int64
		ignored           *int64
	}{
		{"cross entropy", perceptron, "target", train.CrossEntropy, []int{4}, []int{2}, []int64{-1, -100, 2, 1 << 40}, []int64{0, 1}, 2, nil},
		{"cross entropy that ignores", perceptron, "target", train.CrossEntropyIgnoring(-100), []int{4}, []int{2}, []int64{-1, 2}, []int64{0, 1, -100}, 2, &ignored},
		{"cross entropy of pixels", pixels, "target", train.CrossEntropy, []int{2, 2, 2}, []int{1, 0, 1}, []int64{4, -1}, []int64{3}, 4, nil},
		{"an operator of the model", scores + `%q = SoftmaxCrossEntropyLoss(%y, %labels) out %q`, "labels", nil, []int{4}, []int{3}, []int64{5, -1, -100}, []int64{4}, 5, nil},
		{"one that ignores", scores + `%q = SoftmaxCrossEntropyLoss(%y, %labels) [ignore_index=-100] out %q`, "labels", nil, []int{4}, []int{3}, []int64{5, -1}, []int64{4, -100}, 5, &ignored},
		{"one of logarithms and another shape", strings.Replace(scores, "int64[4]", "int32[2,2]", 1) + `const %s: int64[1] = [-1] %r = Reshape(%labels, %s) %l = LogSoftmax(%y) [axis=1]
			%q = NegativeLogLikelihoodLoss(%l, %r) out %q`, "labels", nil, []int{2, 2}, []int{1, 0}, []int64{5, -1}, []int64{0}, 5, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			weights := perceptronWeights()
			weights["k"] = waves(1, 3, 4, 3, 1, 1)
			tr, err := train.New(t.Context(), parsed(t, c.text, weights), train.Options{Loss: c.loss})
			require.NoError(t, err)
			before, err := tr.Checkpoint()
			require.NoError(t, err)
			at := 0
			for d, i := range c.index {
				at = at*c.shape[d] + i
			}
			step := func(label int64) (float64, error) {
				var in []ndarray.Value
				for _, p := range tr.Inputs() {
					shape, _ := p.Type.Static()
					if p.Name != c.input {
						in = append(in, waves(1, 5, shape...))
						continue
					}
					require.Equal(t, c.shape, shape)
					a := ndarray.Must(p.Type.DType, shape...)
					a.SetInt(at, label)
					in = append(in, a)
				}
				return tr.Step(t.Context(), in...)
			}
			for _, label := range c.wrong {
				_, err := step(label)
				var refused *train.LabelError
				require.ErrorAs(t, err, &refused)
				assert.Equal(t, &train.LabelError{Input: c.input, Index: c.index, Label: label, Classes: c.classes, Ignored: c.ignored}, refused)
				assert.ErrorIs(t, err, berth.ErrInput)
				assert.ErrorContains(t, err, fmt.Sprintf("label %d at %v of %q is none of the %d classes", label, c.index, c.input, c.classes))
			}
			after, err := tr.Checkpoint()
			require.NoError(t, err)
			assert.Equal(t, before, after)
			for _, label := range c.right {
				_, err := step(label)
				assert.NoError(t, err, "%d", label)
			}
		})
	}
}

// TestCheckLabels looks at all data before the first step; other inputs have nothing to say.
func TestCheckLabels(t *testing.T) {
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.CrossEntropy})
	require.NoError(t, err)
	all := ndarray.Must(ndarray.Int64, 100)
	assert.NoError(t, tr.CheckLabels("target", all))
	all.SetInt(73, 2)
	assert.ErrorContains(t, tr.CheckLabels("target", all), `label 2 at [73] of "target"`)
	assert.NoError(t, tr.CheckLabels("x", all))
	assert.NoError(t, tr.CheckLabels("target", nil))
	assert.NoError(t, tr.CheckLabels("target", &ndarray.Array{DType: ndarray.Int64, Shape: []int{3}}))
}

// TestIgnoredLabels: examples with the ignored label are as good as not there, also where the label is one of the classes, and a batch of nothing
// else changes nothing.
func TestIgnoredLabels(t *testing.T) {
	for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16} {
		text := func(rows int) string {
			s := strings.ReplaceAll(perceptron, "[4,3]", fmt.Sprintf("[%d,3]", rows))
			return strings.ReplaceAll(s, "float32", dt.String())
		}
		weights := map[string]*ndarray.Array{}
		for name, w := range perceptronWeights() {
			weights[name] = as(w, dt)
		}
		for _, ignored := range []int64{-100, 255, 0} {
			some, err := train.New(t.Context(), parsed(t, text(4), weights), train.Options{Loss: train.CrossEntropyIgnoring(ignored), Rate: train.Constant(0.1)})
			require.NoError(t, err)
			all, err := train.New(t.Context(), parsed(t, text(2), weights), train.Options{Loss: train.CrossEntropy, Rate: train.Constant(0.1)})
			require.NoError(t, err)
			x := as(waves(1, 5, 4, 3), dt)
			first := &ndarray.Array{DType: dt, Shape: []int{2, 3}, Data: x.Data[:len(x.Data)/2]}
			got, err := some.Step(t.Context(), x, ndarray.Of([]int64{1, 1, ignored, ignored}, 4))
			require.NoError(t, err)
			want, err := all.Step(t.Context(), first.Clone(), ndarray.Of([]int64{1, 1}, 2))
			require.NoError(t, err)
			close := map[ndarray.DType]float64{ndarray.Float32: 1e-6, ndarray.Float64: 1e-12, ndarray.Float16: 2e-3}[dt] // half a unit of results below 2
			assert.InDelta(t, want, got, close, "%s, %d", dt, ignored)
			for _, name := range some.Learned() {
				a, err := some.Weight(name)
				require.NoError(t, err)
				b, err := all.Weight(name)
				require.NoError(t, err)
				for i := range a.Len() {
					assert.InDelta(t, b.Float(i), a.Float(i), close, "%s of %s", name, dt)
				}
			}
			before, err := some.Weight("w1")
			require.NoError(t, err)
			loss, err := some.Step(t.Context(), x, ndarray.Of([]int64{ignored, ignored, ignored, ignored}, 4))
			require.NoError(t, err)
			assert.Zero(t, loss)
			after, err := some.Weight("w1")
			require.NoError(t, err)
			assert.Equal(t, before, after)
		}
	}
}

// as is an array in another type of floats.
func as(a *ndarray.Array, dt ndarray.DType) *ndarray.Array {
	b := ndarray.Must(dt, a.Shape...)
	for i := range a.Len() {
		b.SetFloat(i, a.Float(i))
	}
	return b
}

// BenchmarkLabels: what it takes to look at the labels of two million pixels.
func BenchmarkLabels(b *testing.B) {
	tr, err := train.New(b.Context(), parsed(b, `in %x: float32[8,1,512,512] in %k: float32[4,1,1,1] %y = Conv(%x, %k) out %y`, map[string]*ndarray.Array{"k": waves(1, 3, 4, 1, 1, 1)}), train.Options{Loss: train.CrossEntropy})
	require.NoError(b, err)
	labels := ndarray.Must(ndarray.Int64, 8, 512, 512)
	b.SetBytes(int64(len(labels.Data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := tr.CheckLabels("target", labels); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLargeCrossEntropyOfHalves: the logarithms of an image's pixels add up beyond the range of float16, their mean does not.
func TestLargeCrossEntropyOfHalves(t *testing.T) {
	const side, classes = 160, 21
	text := fmt.Sprintf(`in %%x: float16[1,%d,%d,%d] in %%w: float16[%[1]d,1,1] %%y = Mul(%%x, %%w) out %%y`, classes, side, side)
	weights := map[string]*ndarray.Array{"w": as(waves(1, 1, classes, 1, 1), ndarray.Float16)}
	for name, loss := range map[string]train.Loss{"all": train.CrossEntropy, "but some": train.CrossEntropyIgnoring(255)} {
		t.Run(name, func(t *testing.T) {
			tr, err := train.New(t.Context(), parsed(t, text, weights), train.Options{Loss: loss, Rate: train.Constant(0.1)})
			require.NoError(t, err)
			got, err := tr.Step(t.Context(), ndarray.Must(ndarray.Float16, 1, classes, side, side), ndarray.Must(ndarray.Int64, 1, side, side))
			require.NoError(t, err)
			assert.InDelta(t, math.Log(classes), got, 2e-3)
		})
	}
}
