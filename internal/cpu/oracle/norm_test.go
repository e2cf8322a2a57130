package oracle

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func TestPool(t *testing.T) {
	x := f32s(2, 3, 11, 14)
	kernel := func(k []int, more ...any) []ssa.Attr { return lists(append([]any{"kernel_shape", k}, more...)...) }
	for _, op := range []string{"MaxPool", "AveragePool"} {
		runCases(t, []opCase{
			{op: op, in: []arg{x}, attrs: kernel([]int{2, 2}, "strides", []int{2, 2}), tol: 1e-6},
			{op: op, in: []arg{x}, attrs: kernel([]int{3, 3}, "pads", []int{1, 1, 1, 1}), tol: 1e-6},
			{op: op, in: []arg{x}, attrs: kernel([]int{5, 3}, "pads", []int{2, 0, 1, 2}, "strides", []int{3, 2}), tol: 1e-6},
			{op: op, in: []arg{x}, attrs: append(kernel([]int{3, 3}, "strides", []int{2, 2}), ssa.IntAttr("ceil_mode", 1)), tol: 1e-6},
			{op: op, in: []arg{x}, attrs: kernel([]int{2, 3}, "dilations", []int{2, 3}), tol: 1e-6},
			{op: op, in: []arg{x}, attrs: append(kernel([]int{3, 3}, "strides", []int{2, 2}), auto("SAME_UPPER")...), tol: 1e-6},
			{op: op, in: []arg{x}, attrs: append(kernel([]int{3, 3}, "strides", []int{2, 2}), auto("SAME_LOWER")...), tol: 1e-6},
			{op: op, in: []arg{f32s(2, 3, 20)}, attrs: kernel([]int{3}, "strides", []int{2}), tol: 1e-6},
			{name: "windows of padding alone", op: op, in: []arg{f32s(2, 3, 5, 2)}, attrs: kernel([]int{1, 2}, "dilations", []int{1, 3}, "pads", []int{0, 1, 0, 1}), tol: 1e-6},
			{name: "windows of padding alone", op: op, in: []arg{f32s(1, 17, 2, 3, 4)}, attrs: kernel([]int{2, 2, 2}, "dilations", []int{3, 1, 1}, "pads", []int{1, 0, 2, 1, 0, 2}), tol: 1e-6},
			{op: op, in: []arg{f32s(1, 2, 5, 6, 7)}, attrs: kernel([]int{2, 3, 2}, "pads", []int{1, 1, 0, 0, 1, 1}, "strides", []int{1, 2, 2}), tol: 1e-6},
			{op: op, in: []arg{tensor(ndarray.Float64, 2, 3, 8, 9)}, attrs: kernel([]int{3, 2}, "pads", []int{1, 1, 1, 0}), tol: 1e-12},
		})
	}
	include := ssa.IntAttr("count_include_pad", 1)
	runCases(t, []opCase{
		{op: "AveragePool", in: []arg{x}, attrs: append(kernel([]int{3, 3}, "pads", []int{1, 1, 1, 1}), include), tol: 1e-6},
		{op: "AveragePool", in: []arg{x}, attrs: append(kernel([]int{4, 4}, "pads", []int{1, 1, 1, 1}, "strides", []int{3, 3}), include, ssa.IntAttr("ceil_mode", 1)), tol: 1e-6},
		{op: "AveragePool", in: []arg{f32s(1, 2, 5, 6, 7)}, attrs: append(kernel([]int{2, 3, 2}, "pads", []int{1, 1, 0, 0, 1, 1}), include, ssa.IntAttr("ceil_mode", 1)), tol: 1e-6},
		{op: "AveragePool", in: []arg{f32s(2, 3, 5, 6, 7)}, attrs: kernel([]int{2, 3, 2}, "pads", []int{1, 1, 0, 0, 1, 1}, "strides", []int{2, 1, 2}), tol: 1e-6},
		{op: "AveragePool", in: []arg{f32s(2, 3, 5, 6, 7)}, attrs: kernel([]int{3, 1, 1}, "pads", []int{1, 0, 0, 1, 0, 0}), tol: 1e-6},
		{op: "MaxPool", in: []arg{f32s(2, 3, 6, 8, 9).odd()}, attrs: kernel([]int{3, 2, 2}, "pads", []int{1, 1, 0, 1, 0, 1}, "strides", []int{2, 2, 2})},
		{op: "MaxPool", in: []arg{f32s(2, 3, 6, 8, 9).odd()}, attrs: kernel([]int{1, 2, 2}, "strides", []int{1, 2, 2})},
		{op: "MaxPool", in: []arg{f32s(2, 3, 6, 8, 9)}, attrs: kernel([]int{2, 1, 1}, "strides", []int{2, 1, 1})},
		{op: "MaxPool", in: []arg{f32s(2, 3, 6, 8, 9)}, attrs: kernel([]int{1, 1, 1})},
		{op: "MaxPool", in: []arg{f32s(1, 2, 7, 8, 9)}, attrs: append(kernel([]int{3, 2, 3}, "strides", []int{2, 3, 2}, "dilations", []int{2, 1, 2}), ssa.IntAttr("ceil_mode", 1))},
		{op: "MaxPool", in: []arg{x.odd()}, attrs: kernel([]int{3, 3})},
		{op: "MaxPool", in: []arg{x}, outs: 2, attrs: kernel([]int{3, 3}, "strides", []int{2, 2}, "pads", []int{1, 1, 0, 1})},
		{op: "MaxPool", in: []arg{tensor(ndarray.Int8, 2, 3, 8, 9)}, attrs: kernel([]int{3, 2}, "pads", []int{1, 1, 1, 0})},
		{op: "MaxPool", in: []arg{tensor(ndarray.Uint8, 2, 3, 8, 9)}, attrs: kernel([]int{3, 2})},
		{op: "MaxPool", in: []arg{tensor(ndarray.Uint8, 1, 2, 8, 150)}, attrs: kernel([]int{3, 3}, "strides", []int{2, 2}, "pads", []int{1, 1, 1, 1}, "dilations", []int{1, 2})},
		{op: "MaxPool", in: []arg{tensor(ndarray.Int8, 2, 3, 4, 5, 6)}, attrs: kernel([]int{2, 3, 2}, "strides", []int{2, 1, 1}, "pads", []int{0, 1, 1, 1, 1, 0})},
	})
	for dt, want := range map[ndarray.DType]string{ndarray.Float32: "vectors over strips of the image", ndarray.Float64: "window by window"} {
		for _, op := range []string{"MaxPool", "AveragePool"} {
			b := opCase{op: op, in: []arg{tensor(dt, 2, 3, 5, 6, 7)}, attrs: kernel([]int{2, 3, 2})}.build(t, 1)
			p, err := cpu.New().Prepare(t.Context(), b.node, 1)
			require.NoError(t, err)
			assert.Equal(t, want, backend.ChoiceOf(p.Kernel).Algorithm, "volumes of %s", dt)
		}
	}
	for _, op := range []string{"GlobalAveragePool", "GlobalMaxPool"} {
		runCases(t, []opCase{
			{op: op, in: []arg{f32s(2, 5, 7, 7)}, tol: 1e-6},
			{op: op, in: []arg{f32s(2, 5, 300)}, tol: 1e-6},
			{op: op, in: []arg{f32s(1, 2, 3, 4, 5).odd()}, tol: 1e-6},
		})
	}
}

func TestNorms(t *testing.T) {
	eps := []ssa.Attr{ssa.FloatAttr("epsilon", 1e-3)}
	c := f32s(5)
	v := f32s(5).between(0.1, 2)
	axis := func(a int64) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("axis", a)} }
	training := []ssa.Attr{ssa.IntAttr("training_mode", 1)}
	runCases(t, []opCase{
		{op: "BatchNormalization", in: []arg{f32s(2, 5, 7, 9), c, c, c, v}, attrs: eps, tol: 1e-5},
		{op: "BatchNormalization", in: []arg{f32s(2, 5, 7, 9), c.c(), c.c(), c.c(), v.c()}, tol: 1e-5},
		{op: "BatchNormalization", in: []arg{f32s(4, 5), c, c, c.c(), v.c()}, tol: 1e-5},
		{op: "BatchNormalization", in: []arg{f32s(2, 5, 7, 9), c, c, c, v}, attrs: append(training, eps...), outs: 3, tol: 1e-5},
		{op: "BatchNormalization", in: []arg{f32s(3, 5, 5000), c, c, c, v}, attrs: training, tol: 1e-5},
		{op: "BatchNormalization", in: []arg{f32s(3, 5, 2).between(1e19, 9e19), c, c, c, v}, attrs: training, outs: 3, tol: 1e-5},
		{op: "BatchNormalization", in: []arg{f32s(4, 5), c, c, c.c(), v.c()}, attrs: training, outs: 3, unused: []int{2}, tol: 1e-5},
		{op: "BatchNormalization", in: []arg{f32s(6), f32s(1), f32s(1), f32s(1), f32s(1)}, attrs: training, outs: 3, tol: 1e-5},
		{op: "InstanceNormalization", in: []arg{f32s(2, 5, 7, 9), c, c}, tol: 1e-5},
		{op: "InstanceNormalization", in: []arg{f32s(2, 5, 70), c.c(), c.c()}, attrs: eps, tol: 1e-5},
		{op: "GroupNormalization", in: []arg{f32s(2, 6, 7, 9), f32s(6), f32s(6)}, attrs: []ssa.Attr{ssa.IntAttr("num_groups", 2)}, tol: 1e-5},
		{op: "LayerNormalization", in: []arg{f32s(2, 3, 64), f32s(64), f32s(64)}, tol: 1e-5},
		{op: "LayerNormalization", in: []arg{f32s(2, 3, 64), f32s(64)}, outs: 3, tol: 1e-5},
		{op: "LayerNormalization", in: []arg{f32s(2, 3, 17), f32s(3, 17), f32s(3, 17)}, attrs: axis(1), tol: 1e-5},
		{op: "LayerNormalization", in: []arg{f32s(2, 3, 17), f32s(1, 17), f32s(17).c()}, outs: 2, attrs: eps, tol: 1e-5},
		{op: "LayerNormalization", in: []arg{f32s(2, 3, 17), f32s()}, left: true},
		{op: "RMSNormalization", in: []arg{f32s(2, 3, 64), f32s(64)}, tol: 1e-5},
		{op: "SimplifiedLayerNormalization", in: []arg{f32s(2, 3, 65), f32s(65)}, attrs: eps, tol: 1e-5},
		{op: "SimplifiedLayerNormalization", domain: microsoft, in: []arg{f32s(2, 3, 65), f32s(65)}, tol: 1e-5},
		{op: "SkipLayerNormalization", domain: microsoft, in: []arg{f32s(2, 3, 64), f32s(2, 3, 64), f32s(64), f32s(64), f32s(64)}, tol: 1e-5},
		{op: "SkipLayerNormalization", domain: microsoft, in: []arg{f32s(2, 300, 64), f32s(300, 64), f32s(64)}, outs: 4, tol: 1e-5},
		{op: "SkipLayerNormalization", domain: microsoft, in: []arg{f32s(2, 3, 64), f32s(1, 3, 64), f32s(64), absent, f32s(64)}, outs: 4, unused: []int{1, 2}, tol: 1e-5},
		{op: "SkipSimplifiedLayerNormalization", domain: microsoft, in: []arg{f32s(2, 3, 64), f32s(2, 3, 64), f32s(64), f32s(64)}, tol: 1e-5},
		{op: "BiasGelu", domain: microsoft, in: []arg{f32s(2, 3, 64), f32s(64)}, tol: 1e-5},
		{op: "FastGelu", domain: microsoft, in: []arg{f32s(2, 3, 64), f32s(64)}, tol: 1e-5},
		{op: "FastGelu", domain: microsoft, in: []arg{f32s(2, 3, 64)}, tol: 1e-5},
		{op: "LRN", in: []arg{f32s(2, 9, 5, 6)}, attrs: []ssa.Attr{ssa.IntAttr("size", 5)}, tol: 1e-5},
		{op: "LRN", in: []arg{f32s(2, 9, 13)}, attrs: []ssa.Attr{ssa.IntAttr("size", 4), ssa.FloatAttr("alpha", 0.5), ssa.FloatAttr("beta", 0.6), ssa.FloatAttr("bias", 2)}, tol: 1e-5},
		{op: "LRN", name: "a window above any number of channels", left: true, in: []arg{f32s(1, 3, 2)}, attrs: []ssa.Attr{ssa.IntAttr("size", 1<<17)}, tol: 1e-5},
	})
}

func TestSoftmax(t *testing.T) {
	for _, op := range []string{"Softmax", "LogSoftmax"} {
		for _, shape := range [][]int{{3, 5}, {2, 3, 77}, {4, 3, 1200}, {2, 7, 5, 3}, {9}, {200, 300}} {
			for axis := range shape {
				runCases(t, []opCase{{op: op, in: []arg{f32s(shape...).between(-9, 9)}, attrs: []ssa.Attr{ssa.IntAttr("axis", int64(axis))}, tol: 2e-6}})
			}
		}
		runCases(t, []opCase{
			{op: op, in: []arg{f32s(20, 5).odd()}, tol: 2e-6},
			{op: op, in: []arg{f32s(20, 5).odd()}, attrs: []ssa.Attr{ssa.IntAttr("axis", 0)}, tol: 2e-6},
			{op: op, name: "far from zero", in: []arg{f32s(20, 5).between(1e6, 1e6+9)}, attrs: []ssa.Attr{ssa.IntAttr("axis", 0)}, tol: 2e-6},
			{op: op, in: []arg{f32s()}, tol: 2e-6},
		})
	}
}

func TestReduce(t *testing.T) {
	all := []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"}
	keep := func(k int64) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("keepdims", k)} }
	for _, op := range all {
		x := f32s(2, 3, 4, 5).between(0.1, 2)
		for mask := range 16 {
			var axes []int64
			for i := range 4 {
				if mask>>i&1 != 0 {
					axes = append(axes, int64(i))
				}
			}
			runCases(t, []opCase{{op: op, in: []arg{x, ints(axes...)}, attrs: keep(int64(mask % 2)), tol: 1e-5}})
		}
		runCases(t, []opCase{
			{op: op, in: []arg{x}, tol: 1e-5},
			{op: op, in: []arg{x, ints()}, attrs: []ssa.Attr{ssa.IntAttr("noop_with_empty_axes", 1)}, tol: 1e-5},
			{op: op, in: []arg{f32s(3, 1000).between(0.99, 1.01), ints(-1)}, tol: 1e-5},
			{op: op, in: []arg{f32s(500, 30).between(0.99, 1.01), ints(0)}, tol: 1e-5},
			{op: op, in: []arg{f32s(1, 1), ints(0, 1)}, tol: 1e-5},
		})
	}
	for _, dt := range []ndarray.DType{ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Int8, ndarray.Uint8} {
		for _, op := range []string{"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"} {
			x := tensor(dt, 2, 3, 4)
			runCases(t, []opCase{
				{op: op, in: []arg{x, ints(1)}, tol: 1e-12},
				{op: op, in: []arg{x, ints(0, 2)}, attrs: keep(0), tol: 1e-12},
				{op: op, in: []arg{x}, tol: 1e-12},
			})
		}
	}
	runCases(t, []opCase{
		{op: "ReduceMax", in: []arg{f32s(9, 9).odd(), ints(1)}},
		{op: "ReduceMin", in: []arg{f32s(9, 9).odd(), ints(0)}},
		{op: "ReduceMax", in: []arg{boolean(9, 9), ints(0)}},
		{op: "ReduceLogSumExp", in: []arg{f32s(3, 3000), ints(1)}, tol: 1e-5},
		{op: "ReduceLogSumExp", in: []arg{f32s(30, 3).odd(), ints(1)}, tol: 1e-5},
		{op: "ReduceLogSumExp", in: []arg{f32s(3, 30)}, tol: 1e-5},
	})
}

func TestRank(t *testing.T) {
	axis := func(a int64, more ...ssa.Attr) []ssa.Attr { return append(more, ssa.IntAttr("axis", a)) }
	for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Int64, ndarray.Int32, ndarray.Int8, ndarray.Uint8} {
		for _, a := range []int64{0, 1, -1} {
			x := tensor(dt, 5, 7, 300).between(0, 9)
			small, long := tensor(dt, 5, 7, 6), tensor(dt, 3, 5, 130)
			if dt.IsFloat() {
				small, long = small.odd(), long.odd()
			}
			runCases(t, []opCase{
				{op: "ArgMax", in: []arg{x}, attrs: axis(a)},
				{op: "ArgMin", in: []arg{small}, attrs: axis(a, ssa.IntAttr("keepdims", 0))},
				{op: "ArgMax", in: []arg{long}, attrs: axis(a)},
				{op: "ArgMin", in: []arg{long}, attrs: axis(a, ssa.IntAttr("select_last_index", 1))},
				{op: "ArgMax", in: []arg{small}, attrs: axis(a, ssa.IntAttr("select_last_index", 1))},
				{op: "TopK", in: []arg{x, ints(3)}, outs: 2, attrs: axis(a)},
				{op: "TopK", in: []arg{small, ints(5)}, outs: 2, attrs: axis(a, ssa.IntAttr("largest", 0))},
				{op: "TopK", in: []arg{small, ints(1)}, outs: 2, attrs: axis(a)},
				{op: "CumSum", in: []arg{tensor(dt, 5, 7, 6), ints(a)}, tol: 1e-5},
				{op: "CumSum", in: []arg{tensor(dt, 5, 7, 6), ints(a)}, attrs: []ssa.Attr{ssa.IntAttr("reverse", 1)}, tol: 1e-5},
				{op: "CumSum", in: []arg{tensor(dt, 5, 7, 6), ints(a)}, attrs: []ssa.Attr{ssa.IntAttr("exclusive", 1)}, tol: 1e-5},
				{op: "CumSum", in: []arg{tensor(dt, 5, 7, 6), ints(a)}, attrs: []ssa.Attr{ssa.IntAttr("exclusive", 1), ssa.IntAttr("reverse", 1)}, tol: 1e-5},
			})
		}
	}
	runRandom(t, 40, func(r *rand.Rand) opCase {
		n := 1 + r.Intn(40)
		return opCase{op: "TopK", outs: 2, in: []arg{f32s(3, n).from(func(r *rand.Rand) float64 { return float64(r.Intn(6)) }), ints(int64(1 + r.Intn(n)))}}
	})
}
