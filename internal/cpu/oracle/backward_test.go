package oracle

import (
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/internal/cpu"
	_ "github.com/berth-onnx/berth/internal/ops/backward"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func init() { cpu.LinkTraining() }

// backwardCase is a case of an operator of package backward, for an operand, a kernel and the geometry of its window.
func backwardCase(op string, x arg, filters int, kernel, strides, dilations, pads []int, more ...ssa.Attr) opCase {
	d := []int{x.shape[0], filters}
	for i, k := range kernel {
		d = append(d, (x.shape[2+i]+pads[i]+pads[len(kernel)+i]-dilations[i]*(k-1)-1)/strides[i]+1)
	}
	return opCase{domain: ops.Private, op: op, in: []arg{x, tensor(x.dt, d...)}, tol: 2e-4,
		attrs: append(more, lists("kernel_shape", kernel, "strides", strides, "dilations", dilations, "pads", pads)...)}
}

// TestBackward: kernels of the backward pass of training steps, blocks of a part of a line, of one and of several lines, parts of channels and of filters, windows
// in the padding, in place and not.
func TestBackward(t *testing.T) {
	one, none := []int{1, 1}, []int{0, 0, 0, 0}
	equal := f32s(2, 3, 12, 79) // windows with several maxima
	equal.fill = func(r *rand.Rand, x *ndarray.Array) {
		for i := range x.Len() {
			x.SetFloat(i, float64(r.Intn(3)))
		}
	}
	runCases(t, []opCase{
		backwardCase("MaxPoolGradient", equal, 3, []int{2, 2}, []int{2, 2}, one, none),
		backwardCase("ConvWeights", f32s(2, 3, 9, 11), 5, []int{3, 3}, one, one, []int{1, 1, 1, 1}),
		backwardCase("ConvWeights", f32s(2, 40, 9, 11), 20, []int{3, 3}, one, one, []int{1, 1, 1, 1}),
		backwardCase("ConvWeights", f32s(1, 20, 70, 90), 3, []int{3, 3}, one, one, []int{1, 0, 2, 1}),
		backwardCase("ConvWeights", f32s(2, 6, 9, 11), 4, one, one, one, none),
		backwardCase("ConvWeights", f32s(2, 6, 9, 11), 4, one, []int{2, 2}, one, none),
		backwardCase("ConvWeights", f32s(2, 6, 9, 11), 4, []int{2, 5}, []int{2, 3}, []int{2, 1}, []int{3, 7, 2, 1}),
		backwardCase("ConvWeights", f32s(2, 6, 9, 11), 9, []int{3, 2}, one, one, none, ssa.IntAttr("group", 3)),
		backwardCase("ConvWeights", f32s(3, 4, 50), 6, []int{7}, []int{2}, []int{1}, []int{3, 3}),
		backwardCase("ConvWeights", f32s(2, 16, 3000), 16, []int{9}, []int{1}, []int{1}, []int{4, 4}),
		backwardCase("ConvWeights", f32s(1, 24, 2, 3000), 4, []int{3, 3}, []int{1, 2}, []int{1, 3}, []int{1, 5, 1, 2}),
		backwardCase("MaxPoolGradient", f32s(2, 3, 8, 10), 3, []int{2, 2}, []int{2, 2}, one, none),
		backwardCase("MaxPoolGradient", f32s(2, 3, 9, 11), 3, []int{2, 2}, []int{2, 2}, one, none),
		backwardCase("MaxPoolGradient", f32s(2, 3, 10, 11), 3, []int{3, 2}, []int{3, 2}, one, none),
		backwardCase("MaxPoolGradient", f32s(2, 3, 10, 11), 3, []int{3, 3}, []int{2, 1}, one, []int{1, 2, 1, 0}),
		backwardCase("MaxPoolGradient", f32s(2, 3, 20), 3, []int{2}, []int{2}, []int{1}, []int{0, 0}),
		backwardCase("MaxPoolGradient", f32s(2, 3, 20), 3, []int{4}, []int{2}, []int{2}, []int{1, 1}),
	})
	half := []ssa.Attr{ssa.FloatAttr("beta", 0.5), ssa.IntAttr("transA", 1)}
	runCases(t, []opCase{
		{domain: ops.Private, op: "Accumulate", in: []arg{f32s(40, 30), f32s(40, 50), f32s(30, 50)}, attrs: half, tol: 1e-4},
		{domain: ops.Private, op: "Accumulate", in: []arg{f32s(30, 40), f32s(40, 50), f32s(30, 50)}, tol: 1e-4},
		{domain: ops.Private, op: "Accumulate", in: []arg{f32s(1, 30), f32s(1, 50), f32s(30, 50)}, attrs: half, tol: 1e-4},
	})
	runRandom(t, 60, func(r *rand.Rand) opCase {
		kernel, strides, dilations := []int{1 + r.Intn(4), 1 + r.Intn(4)}, []int{1 + r.Intn(3), 1 + r.Intn(3)}, []int{1 + r.Intn(2), 1 + r.Intn(2)}
		pads := []int{r.Intn(3), r.Intn(3), r.Intn(3), r.Intn(3)}
		group := 1 + r.Intn(2)
		x := f32s(1+r.Intn(3), group*(1+r.Intn(30)), 8+r.Intn(12), 8+r.Intn(12))
		if r.Intn(2) == 0 {
			return backwardCase("MaxPoolGradient", x, x.shape[1], kernel, strides, dilations, pads)
		}
		return backwardCase("ConvWeights", x, group*(1+r.Intn(20)), kernel, strides, dilations, pads, ssa.IntAttr("group", int64(group)))
	})
}
