package graphgen

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestGraphsAreValidAndRun draws many graphs; every one must pass the checker,
// run, and come out the same again.
func TestGraphsAreValidAndRun(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(400) {
		g, err := New(seed, Config{})
		require.NoError(t, err)
		again, err := New(seed, Config{})
		require.NoError(t, err)
		require.Equal(t, g.String(), again.String(), "seed %d", seed)
		require.NoError(t, Agree(context.Background(), g, again, seed, 2), "seed %d\n%s", seed, g)
		g.Walk(func(b *ssa.Graph) {
			for _, n := range b.Nodes {
				seen[n.Op]++
			}
		})
	}
	for _, op := range []string{"If", "Loop", "Scan", "Conv", "ConvTranspose", "MatMul", "Gemm", "Reshape", "Shape", "Erf", "BatchNormalization", "Split", "ArgMax", "Cast", "Where"} {
		assert.Positive(t, seen[op], op)
	}
}

// TestTypesHold compares the type that inference gives every value with the
// array that the kernels make of it: shapes, symbols and contents.
func TestTypesHold(t *testing.T) {
	for seed := range uint64(400) {
		g, err := New(seed, Config{})
		require.NoError(t, err)
		bind := map[string]int64{"N": 1 + int64(seed%3), "M": 4 - int64(seed%4)}
		in, err := Inputs(rand.New(rand.NewPCG(seed, 5)), g, bind)
		require.NoError(t, err)
		_, err = ops.Interpret(context.Background(), g, in, func(n *ssa.Node, out []ndarray.Value) {
			for i, v := range n.Out {
				if a, ok := out[i].(*ndarray.Array); ok && v != nil {
					holds(t, seed, n, v, a, bind)
				}
			}
		})
		require.NoError(t, err, "seed %d\n%s", seed, g)
	}
}

func holds(t *testing.T, seed uint64, n *ssa.Node, v *ssa.Value, a *ndarray.Array, bind map[string]int64) {
	t.Helper()
	require.Equal(t, v.Type.DType, a.DType, "seed %d, %s", seed, n)
	if !v.Type.Ranked {
		return
	}
	require.Len(t, a.Shape, len(v.Type.Shape), "seed %d, %s is %s", seed, n, v.Type)
	for i, d := range v.Type.Shape {
		if k, ok := d.Bind(bind).Const(); ok {
			require.EqualValues(t, k, a.Shape[i], "seed %d, %s: dimension %d of %s", seed, n, i, v.Type)
		}
	}
	for i, d := range v.Content {
		if k, ok := d.Bind(bind).Const(); ok {
			require.Equal(t, k, a.Int(i), "seed %d, %s: element %d of %v", seed, n, i, v.Content)
		}
	}
}

func TestFeaturesAreKept(t *testing.T) {
	for seed := range uint64(100) {
		g, err := New(seed, Config{Features: Elementwise | Moves})
		require.NoError(t, err)
		for _, n := range g.Nodes {
			assert.NotContains(t, []string{"If", "Loop", "Scan", "Conv", "MatMul", "Shape", "ReduceSum"}, n.Op)
		}
	}
}

func TestDiffNamesTheDifference(t *testing.T) {
	one := []ndarray.Value{ndarray.Of([]float32{1, 2}, 2)}
	for _, c := range []struct {
		name string
		got  ndarray.Value
		want string
	}{
		{"same", ndarray.Of([]float32{1, 2}, 2), ""},
		{"noise", ndarray.Of([]float32{1, 2.00001}, 2), ""},
		{"number", ndarray.Of([]float32{1, 3}, 2), "element 1"},
		{"shape", ndarray.Of([]float32{1, 2}, 1, 2), "want float32[2]"},
		{"type", ndarray.Of([]int32{1, 2}, 2), "want float32[2]"},
		{"kind", &ndarray.Sequence{}, "want float32[2]"},
	} {
		d := Noise.Diff([]ndarray.Value{c.got}, one)
		if c.want == "" {
			assert.Empty(t, d, c.name)
		} else {
			assert.Contains(t, d, c.want, c.name)
		}
	}
}
