package oracle

import (
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestHalves runs nodes of half types. Both kernels compute in float32 and round once, so
// results are at most neighbours: the tolerance is the distance between two numbers beside
// each other, relative.
func TestHalves(t *testing.T) {
	for _, half := range []struct {
		dt  ndarray.DType
		tol float64
	}{{ndarray.Float16, 1.0 / (1 << 10)}, {ndarray.BFloat16, 1.0 / (1 << 7)}} {
		h := func(shape ...int) arg { return tensor(half.dt, shape...) }
		same := []ssa.Attr{ssa.IntsAttr("pads", 1, 1, 1, 1)}
		cases := []opCase{
			{op: "MatMul", in: []arg{h(5, 33), h(33, 17)}},
			{op: "MatMul", in: []arg{h(2, 70, 64), h(64, 48).c()}},
			{op: "MatMul", in: []arg{h(3, 9, 20), h(3, 20, 16).c()}},
			{op: "MatMul", in: []arg{h(4, 64), h(64, 48).asSplat()}},
			{op: "Gemm", in: []arg{h(7, 20), h(30, 20).c(), h(30).c()}, attrs: []ssa.Attr{ssa.IntAttr("transB", 1), ssa.FloatAttr("beta", 0.5)}},
			{op: "Conv", in: []arg{h(1, 6, 11, 13), h(16, 6, 3, 3).c(), h(16).c()}, attrs: same},
			{op: "Conv", in: []arg{h(2, 32, 20, 20), h(32, 32, 3, 3).c()}, attrs: same, name: "winograd"},
			{op: "Conv", in: []arg{h(1, 6, 11, 13), h(6, 1, 3, 3).c(), h(6)}, attrs: grouped(6, same...)},
			{op: "Conv", in: []arg{h(1, 6, 11, 13), h(4, 6, 3, 3)}},
			{op: "LayerNormalization", in: []arg{h(5, 40), h(40).c(), h(40).c()}},
			{op: "BatchNormalization", in: []arg{h(2, 3, 5, 5), h(3).c(), h(3).c(), h(3).c(), h(3).between(0.5, 2).c()}},
			{op: "Softmax", in: []arg{h(6, 49)}},
			{op: "ReduceMean", in: []arg{h(3, 70, 5), ints(1)}},
			{op: "Add", in: []arg{h(40, 1000), h(1000)}},
			{op: "Mul", in: []arg{h(3, 5), h(3, 5).asSplat()}},
			{op: "Max", in: []arg{h(30).odd(), h(30).odd(), h(1)}},
			{op: "Gelu", in: []arg{h(1000)}},
			{op: "Clip", in: []arg{h(100), scalarOf(half.dt, -0.5), scalarOf(half.dt, 0.25)}},
			{op: "Clip", in: []arg{h(100).odd(), scalarOf(half.dt, -0.5), absent}},
			{op: "Clip", in: []arg{h(100).odd(), absent, scalarOf(half.dt, 0.5)}},
			{op: "Less", in: []arg{h(50).odd(), h(50).odd()}},
			{op: "AveragePool", in: []arg{h(1, 3, 8, 9)}, attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", 3, 3)}},
			{op: "Attention", in: []arg{h(2, 4, 9, 16), h(2, 4, 11, 16), h(2, 4, 11, 8)}},
			{domain: ops.Private, op: "Accumulate", in: []arg{h(40, 30), h(40, 50), h(30, 50)}, attrs: []ssa.Attr{ssa.FloatAttr("beta", 0.5), ssa.IntAttr("transA", 1)}},
			{op: "Resize", in: []arg{h(1, 2, 5, 6), absent, absent, ints(1, 2, 10, 12)}, attrs: []ssa.Attr{ssa.StringAttr("mode", "linear")}},
		}
		for op, filters := range map[string]int{"ConvWeights": 5, "MaxPoolGradient": 3} {
			for _, pads := range [][]int{{0, 0, 0, 0}, {1, 0, 0, 1}} {
				cases = append(cases, backwardCase(op, h(2, 3, 9, 11), filters, []int{2, 2}, []int{2, 2}, []int{1, 1}, pads))
			}
		}
		for i := range cases {
			cases[i].tol = half.tol
		}
		runCases(t, cases)
	}
}
