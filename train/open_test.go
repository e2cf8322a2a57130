package train_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// TestOpenDimensions: what stays open is named with its input and the remedy, and what is bound trains.
func TestOpenDimensions(t *testing.T) {
	weights := map[string]*ndarray.Array{"w": waves(0.5, 1, 4, 3), "k": waves(0.5, 2, 2, 3, 1, 1)}
	const rows, images = `in %x: float32[N,4] in %w: float32[4,3] %y = MatMul(%x, %w) out %y`, `in %x: float32[N,3,H,?] in %k: float32[2,3,1,1] %c = Conv(%x, %k) %g = GlobalAveragePool(%c) %y = Flatten(%g) out %y`
	dim := func(name string) berth.Option { return berth.WithDim(name, 2) }
	for _, c := range []struct {
		text string
		loss train.Loss
		opts []berth.Option
		want string // "": it trains
	}{
		{rows, train.CrossEntropy, nil, `the output of a cross entropy is float32[N,3]; it must be [N, C, …] with known sizes: open are N of input "x" (float32[N,4]); fix them by berth.WithShape or WithDim`},
		{rows, train.OutputIsLoss, nil, `the loss is float32[N,3]; it must be one number of known shape, as a mean: open are N of input "x"`},
		{`in %x: float32[...] in %w: float32[4,3] %y = MatMul(%x, %w) out %y`, train.MeanSquaredError, nil, `the loss is of unknown shape; it must be one number of known shape, as a mean: open are all dimensions of input "x"`},
		{images, train.MeanSquaredError, []berth.Option{dim("N")}, `sizes must be known: not supported: open are H, dimension 3 of input "x" (float32[2,3,H,?])`},
		{rows, train.OutputIsLoss, []berth.Option{dim("N")}, `it must be one number of known shape, as a mean`},
		{rows, train.CrossEntropy, []berth.Option{dim("N")}, ""},
		{images, train.CrossEntropy, []berth.Option{berth.WithShape("x", 2, 3, 4, 4)}, ""},
	} {
		tr, err := train.New(t.Context(), parsed(t, c.text, weights), train.Options{Loss: c.loss, Compile: c.opts})
		if c.want != "" {
			assert.ErrorContains(t, err, c.want)
			continue
		}
		require.NoError(t, err)
		var in []ndarray.Value
		for _, p := range tr.Inputs() {
			shape, ok := p.Type.Static()
			require.True(t, ok)
			in = append(in, ndarray.Must(p.Type.DType, shape...))
		}
		_, err = tr.Step(t.Context(), in...)
		require.NoError(t, err)
	}
}

// TestOperatorsByName: an operator of another domain is named with a dot or as in graphs.
func TestOperatorsByName(t *testing.T) {
	for _, name := range []string{"com.microsoft.QuickGelu", "com.microsoft::QuickGelu"} {
		_, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: func(b *train.Builder, y *ssa.Value) *ssa.Value {
			return b.Op("ReduceMean", []*ssa.Value{b.Op(name, []*ssa.Value{y})}, ssa.IntAttr("keepdims", 0))
		}})
		require.NoError(t, err)
	}
}
