package inplace

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
)

// TestPairIndex: a pair that comes again is found where it is in the list, also where those of several results alternate.
func TestPairIndex(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		results := 1 + r.IntN(4)
		x, at := pairIndex{first: make([]int32, results)}, map[[2]int]int{}
		var list []over
		for range 200 {
			o := over{in: r.IntN(1 + r.IntN(40)), out: r.IntN(results)}
			k := [2]int{o.in, o.out}
			if want, ok := at[k]; ok {
				require.Equal(t, want, x.find(list, o))
				continue
			}
			require.Equal(t, -1, x.find(list, o))
			at[k] = x.add(list, o)
			list = append(list, o)
		}
	}
}

// TestManyPairsLook: the context is looked at while the pairs of one node are entered in a set.
func TestManyPairsLook(t *testing.T) {
	ctx := &looktest.Context{}
	sharedRoots(ctx, &liveness.Layout{}, &liveness.Step{}, make([]ops.Pair, 4096))
	require.Equal(t, context.Canceled, ctx.Err())
	require.Equal(t, -2, ctx.Left, "ended at the first look")
}
