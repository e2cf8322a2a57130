package expr

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestLongReductions compares reductions of long rows with the reference kernels; the elements that are reduced
// are computed in the same kernel, so that the arena holds pieces only.
func TestLongReductions(t *testing.T) {
	e := NewEngine(Options{Threads: 2})
	for _, name := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"} {
		for _, c := range []struct {
			shape   []int
			axes    []int
			keep    int64
			kernels int
		}{
			{[]int{10_000}, nil, 0, 2},
			{[]int{10_000}, nil, 1, 2},
			{[]int{100, 300}, nil, 0, 2},
			{[]int{3, 9000}, []int{1}, 0, 2},
			{[]int{3, 9000}, []int{-1}, 1, 2},
			{[]int{3, 90, 100}, []int{1, 2}, 1, 2},
			{[]int{10_007}, nil, 0, 2}, // a prime: the sum is written out
			{[]int{8000}, nil, 0, 1},
			{[]int{9000, 3}, []int{0}, 0, 2},
			{[]int{3, 90, 100}, []int{1, -2}, 0, 2}, // one axis, named twice
		} {
			x, err := New[float32](c.shape...)
			require.NoError(t, err)
			for i := range x.data {
				x.data[i] = float32(i%97)/50 - 1
			}
			in := []*node{each("Add", x.n.dt, nil, x.n, Num[float32](0.25).n)}
			if c.axes != nil {
				in = append(in, ints(c.axes...))
			}
			n := general(name, ndarray.Float32, []ssa.Attr{ssa.IntAttr("keepdims", c.keep)}, in...)
			require.NoError(t, n.err)
			want := reference{}.eval(t, n)
			got, err := New[float32](n.shape...)
			require.NoError(t, err)
			p, err := e.Prepare(t.Context(), Assignment{job{got.n, n}})
			require.NoError(t, err)
			assert.Len(t, p.Kernels(), c.kernels, "%s of %v: %v", name, c.shape, p.Kernels())
			require.NoError(t, p.Execute(t.Context()))
			assert.InEpsilonSlice(t, slices.Clone(ndarray.Slice[float32](want)), got.data, 1e-5, "%s of %v", name, c.shape)
		}
	}
}
