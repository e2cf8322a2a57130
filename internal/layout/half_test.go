package layout_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestHalfNetworks compares networks of half types with the same networks in float32, whose weights and inputs are those of the half
// ones. The plain half network under the interpreter, which rounds the result of every node, errs by so much; blocked and with
// epilogues, which round once for all nodes that are one, it may err twice as much and by one rounding more.
func TestHalfNetworks(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		made := map[string]int{}
		for seed := range uint64(120) {
			dt := []ndarray.DType{ndarray.Float16, ndarray.BFloat16}[seed%2]
			g := drawNetwork(t, seed, false)
			half := retyped(t, g, dt, dt)
			c, _ := assigned(t, half, seed%5 != 4)
			for _, n := range c.Nodes {
				if n.Domain == ops.Private {
					made[n.Op]++
				}
			}
			wantKernels(t, c)
			in, err := graphgen.Inputs(rand.New(rand.NewPCG(seed, 9)), half, nil)
			require.NoError(t, err)
			exact, err := ops.Interpret(t.Context(), retyped(t, g, dt, ndarray.Float32), []ndarray.Value{converted(in[0].(*ndarray.Array), ndarray.Float32)}, nil)
			require.NoError(t, err)
			plain, err := ops.Interpret(t.Context(), half, in, nil)
			require.NoError(t, err)
			got := runFast(t, c, in, 1)
			require.Equal(t, got, runFast(t, c, in, 3))
			for i := range got {
				want := exact[i].(*ndarray.Array)
				size, allowed := distance(want, nil), distance(want, plain[i].(*ndarray.Array))
				require.LessOrEqual(t, distance(want, got[i].(*ndarray.Array)), 2*allowed+size*map[ndarray.DType]float64{ndarray.Float16: 1.0 / (1 << 11), ndarray.BFloat16: 1.0 / (1 << 8)}[dt], "seed %d: %s", seed, c)
			}
		}
		for _, op := range []string{"ToBlocked", "FromBlocked", "BlockedConv", "BlockedMaxPool", "BlockedGlobalAveragePool", "BlockedMul", "BlockedAdd"} {
			assert.NotZero(t, made[op], op)
		}
	})
}

// retyped is a graph of float32 with inputs and constants rounded to a type and kept as one of another.
func retyped(t *testing.T, g *ssa.Graph, rounded, kept ndarray.DType) *ssa.Graph {
	c, _ := g.Clone()
	for _, v := range c.Values() {
		v.Type.DType = kept
		scales := len(v.Uses()) > 0 && v.Uses()[0].Node.Op == "Resize" && v.Uses()[0].Index == 2
		switch {
		case v.Const == nil:
		case scales || v.Const.DType() != ndarray.Float32:
			v.Type.DType = v.Const.DType()
		default:
			a, err := v.Const.Array()
			require.NoError(t, err)
			v.Const = ssa.NewConstant(converted(converted(a, rounded), kept))
		}
	}
	require.NoError(t, ops.Check(c))
	return c
}

// converted is an array as one of another float type.
func converted(a *ndarray.Array, dt ndarray.DType) *ndarray.Array {
	out := ndarray.Must(dt, a.Shape...)
	for i := range a.Len() {
		out.SetFloat(i, a.Float(i))
	}
	return out
}

// distance is the largest difference of two arrays, of one and zero if there is no other.
func distance(a, b *ndarray.Array) (most float64) {
	for i := range a.Len() {
		d := a.Float(i)
		if b != nil {
			d -= b.Float(i)
		}
		most = max(most, math.Abs(d))
	}
	return most
}
