package forest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/ml"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// drawnForest is a TreeEnsemble of trees whose leaves vote for one of two targets.
func drawnForest(r *rand.Rand, modes []ml.BranchMode, values []float64, how int) *ssa.Node {
	const trees, depth, features = 7, 4, 3
	var mode []uint8
	var split, weight []float64
	var roots, feature, target, nan []int64
	var child, leaf [2][]int64 // of the true and the false branch
	var grow func(level int) (at, isLeaf int64)
	grow = func(level int) (int64, int64) {
		if level == depth || level > 0 && r.IntN(8) == 0 {
			target, weight = append(target, int64(r.IntN(2))), append(weight, r.NormFloat64())
			return int64(len(target) - 1), 1
		}
		at := len(mode)
		mode, split = append(mode, uint8(modes[r.IntN(len(modes))])), append(split, values[r.IntN(len(values))])
		feature, nan = append(feature, int64(r.IntN(features))), append(nan, int64(r.IntN(2)))
		for side := range 2 {
			child[side], leaf[side] = append(child[side], 0), append(leaf[side], 0)
		}
		for side := range 2 {
			to, end := grow(level + 1)
			child[side][at], leaf[side][at] = to, end
		}
		return int64(at), 0
	}
	for range trees {
		at, _ := grow(0)
		roots = append(roots, at)
	}
	tensor := func(name string, a *ndarray.Array) ssa.Attr { return ssa.TensorAttr(name, ssa.NewConstant(a)) }
	x := &ssa.Value{Type: ssa.TensorOf(ndarray.Float64, ssa.D(73), ssa.D(features))}
	return &ssa.Node{Domain: "ai.onnx.ml", Op: "TreeEnsemble", In: []*ssa.Value{x}, Attrs: []ssa.Attr{
		ssa.IntAttr("n_targets", 2), ssa.IntAttr("aggregate_function", int64(how)), ssa.IntsAttr("tree_roots", roots...),
		tensor("nodes_modes", ndarray.Of(mode, len(mode))), tensor("nodes_splits", ndarray.Of(split, len(split))),
		ssa.IntsAttr("nodes_featureids", feature...), ssa.IntsAttr("nodes_missing_value_tracks_true", nan...),
		ssa.IntsAttr("nodes_truenodeids", child[0]...), ssa.IntsAttr("nodes_trueleafs", leaf[0]...),
		ssa.IntsAttr("nodes_falsenodeids", child[1]...), ssa.IntsAttr("nodes_falseleafs", leaf[1]...),
		ssa.IntsAttr("leaf_targetids", target...), tensor("leaf_weights", ndarray.Of(weight, len(weight))),
	}}
}

// TestForest compares the quick search with walks node by node.
func TestForest(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	values := []float64{0, math.Copysign(0, -1), 1, -1, math.SmallestNonzeroFloat64, math.MaxFloat64, 0.5}
	for _, c := range []struct {
		name   string
		modes  []ml.BranchMode
		splits []float64
		quick  bool
	}{
		{"below or same", []ml.BranchMode{ml.BranchLEQ}, append(values, inf, -inf), true},
		{"all orders", []ml.BranchMode{ml.BranchLEQ, ml.BranchLT, ml.BranchGTE, ml.BranchGT}, append(values, inf), true},
		{"below the lowest", []ml.BranchMode{ml.BranchLT}, []float64{-inf}, false},
		{"no number", []ml.BranchMode{ml.BranchLEQ}, []float64{nan}, false},
		{"same", []ml.BranchMode{ml.BranchLEQ, ml.BranchEQ}, values, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			x := make([]float64, 73*3)
			for i := range x {
				x[i] = append(values, inf, -inf, nan)[r.IntN(len(values)+3)]
			}
			for how := range 4 {
				n := drawnForest(r, c.modes, c.splits, how)
				_, err := ml.PrepareForest(n, func(f *ml.Forest) ml.LeafSearch {
					s := branchlessSearch(f)
					assert.Equal(t, c.quick, s != nil)
					return s
				})
				require.NoError(t, err)
				plain, err := ops.Of(n).Prepare(n)
				require.NoError(t, err)
				got, err := Kernels[ops.Key{Domain: n.Domain, Name: n.Op}](n)
				require.NoError(t, err)
				assert.Equal(t, scoresOf(t, plain, n, x), scoresOf(t, got, n, x), "aggregate %d", how)
			}
		})
	}
}

func scoresOf(t *testing.T, k ops.Kernel, n *ssa.Node, x []float64) []float64 {
	c := &ops.Call{Node: n, In: []ndarray.Value{ndarray.Of(x, len(x)/3, 3)}, Out: make([]ndarray.Value, 1)}
	require.NoError(t, k.Run(c))
	return ndarray.Slice[float64](c.Out[0].(*ndarray.Array))
}
