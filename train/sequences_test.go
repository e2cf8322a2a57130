package train_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// loopOver appends a function of each of 4 slices of x to a list, which is joined.
func loopOver(member, join string) string {
	return `in %x: float32[4,2,3] in %w: float32[3,3] const %one: int64[] = 1 const %yes: bool[] = true const %z: float32[2,3] = splat 0 %none = SequenceEmpty() [dtype=1]
		%parts = SplitToSequence(%x, %one) [axis=0, keepdims=0] %n = SequenceLength(%parts)
		%h, %list = Loop(%n, %yes, %z, %none | %parts, %w) { body: graph "step" { in %t: int64[] in %go: bool[] in %h: float32[2,3] in %s: seq(float32[...]) in %parts: seq(float32[2,3]) in %w: float32[3,3]
			%xt = SequenceAt(%parts, %t) %p = MatMul(%h, %w) %a = Add(%p, %xt) %hn = Tanh(%a) ` + member + ` %next = SequenceInsert(%s, %m) out %go, %hn, %next } }
		%y = ConcatFromSequence(%list) ` + join + ` %l = SequenceLength(%list) out %y, %h, %l`
}

// TestSequences: lists become tensors, which are what the lists were.
func TestSequences(t *testing.T) {
	const same, row = `%m = Identity(%hn)`, `const %ax: int64[1] = [0] %m = Unsqueeze(%hn, %ax)`
	for name, c := range map[string]struct {
		text string
		left int // nodes that give or take sequences
	}{
		"appended and stacked":            {loopOver(same, `[axis=0, new_axis=1]`), 0},
		"stacked along another axis":      {loopOver(same, `[axis=-1, new_axis=1]`), 0},
		"joined along an axis of 1":       {loopOver(row, `[axis=0]`), 0},
		"joined along a longer axis":      {loopOver(same, `[axis=1]`), 0},
		"read twice":                      {`in %x: float32[3,4] const %i: int64[] = -1 const %k: int64[] = 0 %s = SplitToSequence(%x) [axis=1] %a = SequenceAt(%s, %i) %b = SequenceAt(%s, %k) %y = Sub(%a, %b) out %y`, 0},
		"parts of a length":               {`in %x: float32[3,5] const %two: int64[] = 2 const %k: int64[] = -1 const %j: int64[] = 1 %s = SplitToSequence(%x, %two) [axis=1] %a = SequenceAt(%s, %k) %b = SequenceAt(%s, %j) %y = Add(%a, %b) out %y`, 0},
		"parts of lengths":                {`in %x: float32[5,3] const %sizes: int64[2] = [1,4] const %k: int64[] = 1 %s = SplitToSequence(%x, %sizes) [keepdims=0] %y = SequenceAt(%s, %k) out %y`, 0},
		"a position known while running":  {`in %x: float32[5,3] in %i: int64[] const %sizes: int64[2] = [1,4] %s = SplitToSequence(%x, %sizes) %y = SequenceAt(%s, %i) out %y`, 2},
		"a list of values":                {`in %x: float32[2,3] in %y: float32[2,3] const %k: int64[] = -1 %s = SequenceConstruct(%x, %y) %a = SequenceAt(%s, %k) %b = ConcatFromSequence(%s) [axis=-1] %c = ConcatFromSequence(%s) [axis=1, new_axis=1] out %a, %b, %c`, 0},
		"a result of the model is a list": {`in %x: float32[2,3] %s = SplitToSequence(%x) out %s`, 1},
		"members of a loop of two lengths": {`in %x: float32[2,3] const %n: int64[] = 2 const %yes: bool[] = true %none = SequenceEmpty() [dtype=1] %f, %s = Loop(%n, %yes, %x, %none) { body: graph "b" { in %t: int64[] in %go: bool[] in %v: float32[...] in %s: seq(float32[...])
			%w = Concat(%v, %v) [axis=0] %next = SequenceInsert(%s, %w) out %go, %w, %next } } %y = ConcatFromSequence(%s) [axis=0] out %y`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { ` + c.text + ` }`)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			var in []ndarray.Value
			for i, p := range g.Params {
				shape, _ := p.Type.Static()
				if p.Type.DType == ndarray.Int64 {
					in = append(in, ndarray.Scalar(int64(1)))
					continue
				}
				in = append(in, waves(1, float64(i), shape...))
			}
			want, err := ops.Interpret(t.Context(), g, in, nil)
			require.NoError(t, err)
			require.NoError(t, train.Sequences(g))
			require.NoError(t, ssa.Check(g))
			got, err := ops.Interpret(t.Context(), g, in, nil)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			left := 0
			g.Walk(func(b *ssa.Graph) {
				for _, n := range b.Nodes {
					if n.Op == "SequenceAt" || n.Op == "SequenceInsert" || n.Op == "SequenceEmpty" || n.Op == "ConcatFromSequence" || n.Op == "SplitToSequence" || n.Op == "SequenceLength" {
						left++
					}
				}
			})
			assert.Equal(t, c.left, left, g)
		})
	}
}

// TestListsLearn: a loop that appends to a list learns what one that stacks does.
func TestListsLearn(t *testing.T) {
	const stacked = `in %x: float32[4,2,3] in %w: float32[3,3] const %z: float32[2,3] = splat 0
		%h, %y = Scan(%z, %x | %w) [num_scan_inputs=1] { body: graph "step" { in %h: float32[2,3] in %xt: float32[2,3] in %w: float32[3,3]
			%p = MatMul(%h, %w) %a = Add(%p, %xt) %hn = Tanh(%a) out %hn, %hn } } out %y`
	weights := map[string]*ndarray.Array{"w": waves(0.5, 1, 3, 3)}
	var losses [2][3]float64
	for i, text := range []string{stacked, loopOver(`%m = Identity(%hn)`, `[axis=0, new_axis=1]`)} {
		tr, err := train.New(t.Context(), parsed(t, text, weights), train.Options{Loss: train.MeanSquaredError})
		require.NoError(t, err)
		for k := range losses[i] {
			losses[i][k], err = tr.Step(t.Context(), waves(1, 2, 4, 2, 3), waves(1, 3, 4, 2, 3))
			require.NoError(t, err)
		}
	}
	assert.InDeltaSlice(t, losses[0][:], losses[1][:], 1e-6)
}
