package gradient_test

import (
	"math/rand/v2"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// unaryCases are functions of one operand with the interval that numbers are drawn from, in three shapes.
func unaryCases() (all []ruleCase) {
	for _, u := range []struct {
		op        string
		low, high float64
	}{
		{"Identity", -1, 1}, {"Neg", -1, 1}, {"Exp", -1, 1}, {"Log", 0.3, 2}, {"Sqrt", 0.3, 2}, {"Sin", -1, 1}, {"Cos", -1, 1},
		{"Abs", 0.1, 1}, {"Abs", -1, -0.1}, {"Relu", 0.1, 1}, {"Relu", -1, -0.1}, {"Reciprocal", 0.5, 2}, {"Reciprocal", -2, -0.5}, {"Sigmoid", -2, 2}, {"Sigmoid", 20, 30}, {"Tanh", -2, 2},
		{"Softplus", -2, 2}, {"Erf", -2, 2}, {"LeakyRelu", -2, -0.1}, {"LeakyRelu", 0.1, 1}, {"Floor", 0.1, 0.9}, {"Ceil", 0.1, 0.9}, {"Round", 0.6, 0.9}, {"Sign", 0.1, 0.9}, {"Hardmax", -1, 1},
		{"Softmax", -2, 2}, {"LogSoftmax", -2, 2}, {"Dropout", -1, 1}, {"Elu", -1, -0.1}, {"Elu", 0.1, 1}, {"Selu", -1, -0.1}, {"Celu", -1, -0.1}, {"Softsign", -2, 2},
		{"HardSigmoid", -1, 1}, {"HardSigmoid", 4, 5}, {"HardSwish", -1, 1}, {"HardSwish", 4, 5}, {"ThresholdedRelu", 1.1, 2}, {"Swish", -2, 2}, {"Gelu", -2, 2}, {"Mish", -2, 2}, {"Tan", -1, 1},
		{"Asin", -0.8, 0.8}, {"Acos", -0.8, 0.8}, {"Atan", -2, 2}, {"Sinh", -1, 1}, {"Cosh", -1, 1}, {"Asinh", -2, 2}, {"Acosh", 1.2, 2}, {"Atanh", -0.8, 0.8},
		{"Shrink", 0.6, 2}, {"Shrink", -0.4, 0.4}, {"com.microsoft.Gelu", -2, 2}, {"com.microsoft.QuickGelu", -2, 2}, {"com.microsoft.FastGelu", -2, 2},
		{"RandomNormalLike", -1, 1}, {"RandomUniformLike", -1, 1}, {"Bernoulli", 0.1, 0.9}, {"EyeLike", -1, 1}, {"LpNormalization", 0.2, 1},
	} {
		all = append(all, ruleCase{op: u.op, in: []operand{within(u.low, u.high, 3, 4)}})
		if u.op != "EyeLike" && u.op != "Bernoulli" {
			all = append(all, ruleCase{op: u.op, in: []operand{within(u.low, u.high, 5)}}, ruleCase{op: u.op, in: []operand{within(u.low, u.high, 2, 1, 3)}},
				ruleCase{op: u.op, in: []operand{within(u.low, u.high, 0, 3)}})
			if !slices.Contains([]string{"Softmax", "LogSoftmax", "LpNormalization", "Hardmax"}, u.op) { // which have an axis
				all = append(all, ruleCase{op: u.op, in: []operand{{shape: []int{}, low: u.low, high: u.high}}})
			}
		}
	}
	return all
}

// reductionCases are reductions over all, some and kept axes.
func reductionCases() (all []ruleCase) {
	for _, r := range []struct {
		op        string
		low, high float64
	}{
		{"ReduceSum", -1, 1}, {"ReduceMean", -1, 1}, {"ReduceSumSquare", -1, 1}, {"ReduceL1", 0.1, 1}, {"ReduceL2", 0.1, 1}, {"ReduceMax", -1, 1}, {"ReduceMin", -1, 1},
		{"ReduceLogSumExp", -1, 1}, {"ReduceLogSum", 0.5, 1.5}, {"ReduceProd", -2, 2},
	} {
		x := within(r.low, r.high, 2, 3, 4)
		all = append(all, ruleCase{op: r.op, in: []operand{x}}, ruleCase{op: r.op, in: []operand{x, list(-1)}},
			ruleCase{op: r.op, in: []operand{x, list(0, 2)}, attrs: []ssa.Attr{ssa.IntAttr("keepdims", 0)}},
			ruleCase{op: r.op, in: []operand{x}, attrs: []ssa.Attr{ssa.IntAttr("keepdims", 0)}})
	}
	return all
}

// broadcastCases are functions of two operands in shapes that broadcast in every way.
func broadcastCases() (all []ruleCase) {
	for _, f := range []struct {
		op   string
		a, b func(shape ...int) operand
	}{
		{"Add", around, around}, {"Sub", around, around}, {"Mul", around, around}, {"Div", around, positive}, {"Pow", positive, around},
		{"Max", around, around}, {"Min", around, around}, {"Sum", around, around}, {"Mean", around, around}, {"PRelu", around, around},
	} {
		for _, s := range [][2][]int{{{3, 4}, {3, 4}}, {{2, 3, 4}, {4}}, {{3, 1}, {1, 4}}, {{4}, {2, 3, 4}}, {{2, 3}, {1}}, {{1}, {1}}, {{2, 1, 3}, {2, 1}}} {
			if f.op == "PRelu" && (len(s[0]) < len(s[1]) || s[0][len(s[0])-1] < s[1][len(s[1])-1] || len(s[0]) == 3 && len(s[1]) == 2) {
				continue // the slope broadcasts one way
			}
			all = append(all, ruleCase{op: f.op, in: []operand{f.a(s[0]...), f.b(s[1]...)}})
		}
	}
	fmod := []ssa.Attr{ssa.IntAttr("fmod", 1)}
	return append(all, ruleCase{op: "Mod", attrs: fmod, in: []operand{within(5.1, 5.9, 3, 4), within(1.8, 1.9, 4)}},
		ruleCase{op: "Dropout", in: []operand{around(3, 4), number(0.4), given([]bool{true})}, attrs: []ssa.Attr{ssa.IntAttr("seed", 3)}},
		ruleCase{op: "Dropout", in: []operand{around(3, 4), absent, given([]bool{true})}, attrs: []ssa.Attr{ssa.IntAttr("seed", 4)}, results: 2},
		ruleCase{op: "Dropout", in: []operand{around(3, 4), number(0), given([]bool{true})}}, ruleCase{op: "Dropout", in: []operand{around(3, 4), number(0.4), given([]bool{false})}},
		ruleCase{op: "Sum", in: []operand{around(3, 4), around(4), around(1)}},
		ruleCase{op: "Max", in: []operand{around(3, 4), around(4), around(3, 1)}},
		ruleCase{op: "Where", in: []operand{given([]bool{true, false, true, false}, 4), around(3, 4), around(4)}},
		ruleCase{op: "Clip", in: []operand{around(3, 4), number(-0.5), number(0.5)}},
		ruleCase{op: "Clip", in: []operand{within(-2, -1, 3), within(-0.5, -0.4), within(0.5, 0.6)}})
}

// cornerCases are numbers at which formulas of derivatives divide by zero or overflow.
func cornerCases() (all []ruleCase) {
	wide := exactly(-700, -40, -1e-3, 0, 1e-3, 40, 700)
	for _, op := range []string{"Sigmoid", "Tanh", "Softplus", "Softmax", "LogSoftmax", "Erf", "Gelu", "Mish", "Swish", "Atan", "Asinh", "ReduceLogSumExp", "com.microsoft.QuickGelu", "com.microsoft.FastGelu"} {
		all = append(all, ruleCase{op: op, in: []operand{wide}})
	}
	rows := func(v ...float64) operand { return operand{shape: []int{len(v) / 3, 3}, exact: v} }
	return append(all, ruleCase{op: "ReduceProd", in: []operand{rows(2, 0, 3, 0, 0, 4, -1, 2, 3, 0, 0, 0), list(1)}}, ruleCase{op: "ReduceProd", in: []operand{exactly(0)}},
		ruleCase{op: "Pow", in: []operand{exactly(0, 0, 0, -1.5, -2), given([]float64{1, 2, 3, 3, 2}, 5)}}, ruleCase{op: "Pow", in: []operand{exactly(-1, 0, 2), given([]float64{2})}},
		ruleCase{op: "Div", in: []operand{exactly(0, 1e3, -1e3), exactly(0.1, -0.1, 1e3)}}, ruleCase{op: "ReduceMean", in: []operand{within(-1, 1, 1, 1, 1)}},
		ruleCase{op: "MatMul", in: []operand{around(2, 0), around(0, 3)}}, ruleCase{op: "MatMul", in: []operand{around(1, 1), around(1, 1)}},
		ruleCase{op: "Concat", in: []operand{around(2, 0), around(2, 3)}, attrs: []ssa.Attr{ssa.IntAttr("axis", 1)}},
		ruleCase{op: "Gather", in: []operand{around(3, 2), given([]int64{-1, 0, -1, 2}, 4)}}, ruleCase{op: "ReduceSum", in: []operand{around(3, 0), list(1)}})
}

// randomCases are functions and reductions of drawn shapes, operands broadcast in drawn dimensions.
func randomCases() (all []ruleCase) {
	r := rand.New(rand.NewPCG(9, 9))
	drawn := func() []int {
		s := make([]int, 1+r.IntN(4))
		for i := range s {
			s[i] = 1 + r.IntN(3)
		}
		return s
	}
	part := func(shape []int) []int {
		s := slices.Clone(shape)
		for i := range s {
			if r.IntN(3) == 0 {
				s[i] = 1
			}
		}
		return s[r.IntN(len(s)):]
	}
	for range 8 {
		for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean"} {
			s := drawn()
			all = append(all, ruleCase{op: op, in: []operand{positive(part(s)...), positive(part(s)...)}})
		}
		for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"} {
			s, axes := drawn(), []int64{}
			for d := range s {
				if r.IntN(2) == 0 {
					axes = append(axes, int64(d-r.IntN(2)*len(s)))
				}
			}
			if len(axes) == 0 {
				axes = []int64{-1}
			}
			all = append(all, ruleCase{op: op, in: []operand{positive(s...), list(axes...)}, attrs: []ssa.Attr{ssa.IntAttr("keepdims", int64(r.IntN(2)))}})
		}
		s := drawn()
		axis := []ssa.Attr{ssa.IntAttr("axis", int64(r.IntN(len(s))))}
		all = append(all, ruleCase{op: "Softmax", in: []operand{around(s...)}, attrs: axis}, ruleCase{op: "LogSoftmax", in: []operand{around(s...)}, attrs: axis},
			ruleCase{op: "Where", in: []operand{given([]bool{r.IntN(2) == 0}, 1), around(part(s)...), around(part(s)...)}},
			ruleCase{op: "LayerNormalization", in: []operand{within(-1, 1, 2, 2+r.IntN(4)), around(1), around(1)}, attrs: []ssa.Attr{ssa.IntAttr("stash_type", 11)}})
	}
	return all
}

var image = around(2, 4, 5, 4)

func ruleCases() []ruleCase {
	return slices.Concat(unaryCases(), reductionCases(), broadcastCases(), cornerCases(), randomCases(), linearCases(), movementCases(), normCases(), sequenceCases(), microsoftCases())
}

func linearCases() []ruleCase {
	ints, num, str := ssa.IntsAttr, ssa.IntAttr, ssa.StringAttr
	window := []ssa.Attr{ints("kernel_shape", 2, 2), ints("strides", 2, 1), ints("pads", 1, 0, 0, 1)}
	ceiled := []ssa.Attr{ints("kernel_shape", 3, 3), ints("strides", 2, 2), ints("pads", 1, 0, 0, 1), num("ceil_mode", 1)}
	return []ruleCase{
		{op: "MatMul", in: []operand{around(2, 3), around(3, 4)}}, {op: "MatMul", in: []operand{around(3), around(3, 4)}}, {op: "MatMul", in: []operand{around(2, 3), around(3)}},
		{op: "MatMul", in: []operand{around(3), around(3)}}, {op: "MatMul", in: []operand{around(2, 1, 2, 3), around(4, 3, 2)}},
		{op: "Gemm", in: []operand{around(4, 3), around(5, 4), around(5)}, attrs: []ssa.Attr{num("transA", 1), num("transB", 1), ssa.FloatAttr("alpha", 0.5), ssa.FloatAttr("beta", 2)}},
		{op: "Gemm", in: []operand{around(3, 4), around(4, 5), around(3, 1)}}, {op: "Gemm", in: []operand{around(3, 4), around(4, 5)}},
		{op: "Gemm", in: []operand{around(1, 4), around(4, 5), around(5)}}, {op: "Add", in: []operand{around(1, 1, 3), around(3)}}, {op: "Mul", in: []operand{around(3), around(1, 3)}},
		{op: "Einsum", in: []operand{around(2, 3), around(3, 4)}, attrs: []ssa.Attr{str("equation", "ij,jk->ik")}},
		{op: "Einsum", in: []operand{around(2, 3, 4), around(2, 5, 4)}, attrs: []ssa.Attr{str("equation", "bik, bjk -> bij")}},
		{op: "Einsum", in: []operand{around(2, 3), around(4)}, attrs: []ssa.Attr{str("equation", "ij,k->i")}}, {op: "Einsum", in: []operand{around(2, 3), around(3), around(2)}, attrs: []ssa.Attr{str("equation", "ij,j,i")}},
		{op: "com.microsoft.Inverse", in: []operand{{constant: nil, shape: []int{2, 2}, low: 0.5, high: 3}}},
		{op: "Conv", in: []operand{image, around(3, 4, 3, 3), around(3)}, attrs: []ssa.Attr{ints("pads", 1, 0, 1, 1), ints("strides", 2, 1)}},
		{op: "Conv", in: []operand{image, around(4, 2, 2, 3)}, attrs: []ssa.Attr{num("group", 2), ints("dilations", 2, 1)}},
		{op: "Conv", in: []operand{image, around(8, 1, 3, 3)}, attrs: []ssa.Attr{num("group", 4), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)}},
		{op: "Conv", in: []operand{image, around(1, 4, 3, 3)}, attrs: []ssa.Attr{str("auto_pad", "SAME_UPPER"), ints("strides", 2, 2)}},
		{op: "Conv", in: []operand{around(2, 3, 7), around(2, 3, 3)}, attrs: []ssa.Attr{ints("strides", 2)}},
		{op: "Conv", in: []operand{around(2, 3, 7), around(2, 3, 3)}, attrs: []ssa.Attr{str("auto_pad", ""), ints("pads", 1, 0)}},
		{op: "ConvTranspose", in: []operand{around(2, 3, 5), around(3, 2, 3)}, attrs: []ssa.Attr{str("auto_pad", ""), ints("pads", 1, 0)}},
		{op: "AveragePool", in: []operand{image}, attrs: append(slices.Clip(window), str("auto_pad", ""))},
		{op: "AveragePool", in: []operand{image}, attrs: append(slices.Clip(ceiled), num("count_include_pad", 0))},
		{op: "AveragePool", in: []operand{image}, attrs: append(slices.Clip(ceiled), num("count_include_pad", 1))},
		{op: "LpPool", in: []operand{image}, attrs: ceiled}, {op: "MaxPool", in: []operand{image}, attrs: ceiled},
		{op: "ConvTranspose", in: []operand{image, around(4, 3, 3, 2), around(3)}, attrs: []ssa.Attr{ints("strides", 2, 1), ints("pads", 1, 0, 0, 1), ints("output_padding", 1, 0)}},
		{op: "ConvTranspose", in: []operand{image, around(4, 1, 3, 3)}, attrs: []ssa.Attr{num("group", 4)}}, {op: "ConvTranspose", in: []operand{image, around(4, 2, 2, 2)}, attrs: []ssa.Attr{num("group", 2), ints("strides", 2, 2)}},
		{op: "MaxPool", in: []operand{image}, attrs: window}, {op: "MaxPool", in: []operand{image}, attrs: window, results: 2},
		{op: "AveragePool", in: []operand{image}, attrs: window}, {op: "AveragePool", in: []operand{image}, attrs: append(slices.Clip(window), num("count_include_pad", 1))},
		{op: "LpPool", in: []operand{image}, attrs: window}, {op: "LpPool", in: []operand{within(0.2, 1, 1, 2, 4, 4)}, attrs: append(slices.Clip(window), num("p", 3))},
		{op: "GlobalAveragePool", in: []operand{image}}, {op: "GlobalMaxPool", in: []operand{image}}, {op: "GlobalLpPool", in: []operand{image}}, {op: "GlobalLpPool", in: []operand{image}, attrs: []ssa.Attr{num("p", 3)}},
		{op: "MaxUnpool", in: []operand{around(1, 1, 2, 2), given([]int64{0, 3, 9, 14}, 1, 1, 2, 2)}, attrs: []ssa.Attr{ints("kernel_shape", 2, 2), ints("strides", 2, 2)}},
	}
}

func movementCases() []ruleCase {
	ints, num, str := ssa.IntsAttr, ssa.IntAttr, ssa.StringAttr
	return []ruleCase{
		{op: "Transpose", in: []operand{around(2, 3, 4)}}, {op: "Transpose", in: []operand{around(2, 3, 4)}, attrs: []ssa.Attr{ints("perm", 1, 2, 0)}},
		{op: "Concat", in: []operand{around(3, 4), around(3, 2), around(3, 1)}, attrs: []ssa.Attr{num("axis", -1)}},
		{op: "Split", in: []operand{around(4, 3)}, attrs: []ssa.Attr{num("num_outputs", 2)}, results: 2, by: []int{0, 1}}, {op: "Split", in: []operand{around(4, 3), list(1, 3)}, results: 2, by: []int{1}},
		{op: "Flatten", in: []operand{around(2, 3, 2)}}, {op: "Reshape", in: []operand{around(3, 4), list(2, 6)}}, {op: "Squeeze", in: []operand{around(3, 1, 4), list(1)}}, {op: "Unsqueeze", in: []operand{around(3, 4), list(1)}},
		{op: "com.microsoft.ExpandDims", in: []operand{around(3, 4), given([]int32{1})}}, {op: "Expand", in: []operand{around(3, 1), list(2, 3, 4)}}, {op: "Tile", in: []operand{around(3, 2), list(2, 2)}},
		{op: "Pad", in: []operand{around(3, 2), list(1, 0, 0, 2)}}, {op: "Pad", in: []operand{around(3, 3), list(1, 0, 0, 2)}, attrs: []ssa.Attr{str("mode", "reflect")}}, {op: "Pad", in: []operand{around(3, 3), list(1, -1, 0, 2)}},
		{op: "com.microsoft.Pad", in: []operand{around(3, 2), list(1, 0, 0, 2)}},
		{op: "Slice", in: []operand{around(5, 4), list(4, 1), list(0, 3), list(0, 1), list(-2, 1)}}, {op: "Slice", in: []operand{around(6), list(1), list(6), list(0), list(2)}},
		{op: "Slice", in: []operand{around(5, 4), list(-9, 1), list(3, 99), list(-2, 1), list(1, 1)}}, {op: "Slice", in: []operand{around(5, 4), list(2), list(-1)}}, {op: "Slice", in: []operand{around(3, 4), list(-2), list(9), list(-1)}},
		{op: "Gather", in: []operand{around(5, 4), list(3, 0, 3)}}, {op: "Gather", in: []operand{around(2, 5, 3), given([]int64{1, -1, 4, 1}, 2, 2)}, attrs: []ssa.Attr{num("axis", 1)}}, {op: "Gather", in: []operand{around(5, 4), given([]int64{2})}}, {op: "Gather", in: []operand{around(3, 4), given([]int64{2})}, attrs: []ssa.Attr{num("axis", -1)}},
		{op: "GatherElements", in: []operand{around(3, 2), given([]int64{0, 2, 2, 1}, 2, 2)}}, {op: "GatherND", in: []operand{around(3, 2), given([]int64{0, 1, 2, 0}, 2, 2)}}, {op: "com.microsoft.GatherND", in: []operand{around(3, 2), given([]int64{0, 1, 2, 0}, 2, 2)}},
		{op: "ScatterElements", in: []operand{around(3, 2), given([]int64{0, 2}, 1, 2), around(1, 2)}}, {op: "ScatterElements", in: []operand{around(3, 2), given([]int64{0, 0, 0, 1}, 2, 2), around(2, 2)}, attrs: []ssa.Attr{str("reduction", "add")}},
		{op: "ScatterND", in: []operand{around(4, 2), given([]int64{2, 0}, 2, 1), around(2, 2)}}, {op: "ScatterND", in: []operand{around(4, 2), given([]int64{2, 2}, 2, 1), around(2, 2)}, attrs: []ssa.Attr{str("reduction", "add")}},
		{op: "DepthToSpace", in: []operand{around(1, 4, 2, 2)}, attrs: []ssa.Attr{num("blocksize", 2)}}, {op: "SpaceToDepth", in: []operand{around(1, 1, 4, 4)}, attrs: []ssa.Attr{num("blocksize", 2)}},
		{op: "ReverseSequence", in: []operand{around(4, 2), list(3, 2)}}, {op: "Compress", in: []operand{around(3, 2), given([]bool{true, false, true}, 3)}, attrs: []ssa.Attr{num("axis", 0)}},
		{op: "Trilu", in: []operand{around(3, 4)}}, {op: "Trilu", in: []operand{around(2, 4, 4), given([]int64{1})}, attrs: []ssa.Attr{num("upper", 0)}}, {op: "com.microsoft.Trilu", in: []operand{around(3, 4)}},
		{op: "Cast", in: []operand{around(3, 4)}, attrs: []ssa.Attr{num("to", 11)}}, {op: "CastLike", in: []operand{around(3, 4), number(1)}},
		{op: "TopK", in: []operand{around(3, 5), list(2)}, results: 2}, {op: "CumSum", in: []operand{around(3, 5), given([]int64{1})}}, {op: "CumSum", in: []operand{around(4), given([]int64{0})}, attrs: []ssa.Attr{num("exclusive", 1), num("reverse", 1)}},
		{op: "Resize", in: []operand{around(1, 2, 3, 4), absent, absent, list(1, 2, 7, 5)}, attrs: []ssa.Attr{str("mode", "linear")}},
		{op: "Resize", in: []operand{around(1, 1, 4, 4), absent, given([]float32{1, 1, 1.6, 2}, 4)}, attrs: []ssa.Attr{str("mode", "cubic"), str("coordinate_transformation_mode", "align_corners")}},
		{op: "Resize", in: []operand{around(1, 2, 3, 3), absent, absent, list(1, 2, 7, 5)}, attrs: []ssa.Attr{str("mode", "nearest")}},
	}
}

func normCases() []ruleCase {
	double, num := ssa.IntAttr("stash_type", 11), ssa.IntAttr
	labels, weights := given([]int64{2, 0, 1}, 3), drawnConstant(0.5, 1.5, 4)
	return []ruleCase{
		{op: "BatchNormalization", in: []operand{image, around(4), around(4), around(4), positive(4)}},
		{op: "BatchNormalization", in: []operand{image, around(4), around(4), drawnConstant(-1, 1, 4), drawnConstant(0.3, 2, 4)}, attrs: []ssa.Attr{num("training_mode", 1)}, results: 3},
		{op: "LayerNormalization", in: []operand{around(3, 4), around(4), around(4)}, attrs: []ssa.Attr{double}}, {op: "LayerNormalization", in: []operand{around(2, 3, 2), around(3, 2)}, attrs: []ssa.Attr{double, num("axis", 1)}},
		{op: "InstanceNormalization", in: []operand{around(2, 3, 4), around(3), around(3)}}, {op: "GroupNormalization", in: []operand{around(2, 4, 3), around(4), around(4)}, attrs: []ssa.Attr{num("num_groups", 2), double}},
		{op: "RMSNormalization", in: []operand{around(3, 4), around(4)}, attrs: []ssa.Attr{double}}, {op: "SimplifiedLayerNormalization", in: []operand{around(3, 4), around(4)}, attrs: []ssa.Attr{double}},
		{op: "com.microsoft.SimplifiedLayerNormalization", in: []operand{around(3, 4), around(4)}, attrs: []ssa.Attr{double}},
		{op: "MeanVarianceNormalization", in: []operand{around(2, 3, 2, 2)}}, {op: "LpNormalization", in: []operand{positive(3, 4)}, attrs: []ssa.Attr{num("p", 1), num("axis", 0)}},
		{op: "LRN", in: []operand{around(1, 5, 2, 2)}, attrs: []ssa.Attr{num("size", 3), ssa.FloatAttr("alpha", 0.5)}},
		{op: "LRN", in: []operand{around(2, 4, 3)}, attrs: []ssa.Attr{num("size", 2)}},
		{op: "SwiGLU", in: []operand{around(3, 4), around(3, 4)}},
		{op: "Gelu", in: []operand{around(3, 4)}, attrs: []ssa.Attr{ssa.StringAttr("approximate", "tanh")}},
		{op: "NegativeLogLikelihoodLoss", in: []operand{around(3, 4), labels}}, {op: "NegativeLogLikelihoodLoss", in: []operand{around(3, 4), labels, weights}},
		{op: "NegativeLogLikelihoodLoss", in: []operand{around(3, 4), labels, weights}, attrs: []ssa.Attr{ssa.StringAttr("reduction", "none"), num("ignore_index", 0)}},
		{op: "SoftmaxCrossEntropyLoss", in: []operand{around(3, 4), labels}}, {op: "SoftmaxCrossEntropyLoss", in: []operand{around(3, 4), labels, weights}, attrs: []ssa.Attr{num("ignore_index", 2)}},
		{op: "SoftmaxCrossEntropyLoss", in: []operand{around(1, 4, 3), given([]int64{2, 0, 1}, 1, 3)}, attrs: []ssa.Attr{ssa.StringAttr("reduction", "sum")}, results: 2, by: []int{0, 1}},
	}
}

func sequenceCases() []ruleCase {
	num, str := ssa.IntAttr, ssa.StringAttr
	hidden := ssa.IntAttr("hidden_size", 3)
	angles := drawnConstant(-1, 1, 5, 2)
	mask := given([]bool{true, false, true, true, true, false}, 2, 3)
	return append(gateCases(hidden), []ruleCase{
		{op: "RNN", in: []operand{around(4, 2, 2), around(1, 3, 2), around(1, 3, 3), around(1, 6)}, attrs: []ssa.Attr{hidden}, results: 2, by: []int{0, 1}},
		{op: "RNN", in: []operand{around(3, 1, 2), around(1, 3, 2), around(1, 3, 3), absent, absent, around(1, 1, 3)}, attrs: []ssa.Attr{hidden, str("direction", "reverse"), ssa.StringsAttr("activations", "Sigmoid")}, results: 2, by: []int{0, 1}},
		{op: "GRU", in: []operand{around(3, 2, 2), around(1, 9, 2), around(1, 9, 3), around(1, 18)}, attrs: []ssa.Attr{hidden}},
		{op: "GRU", in: []operand{around(3, 2, 2), around(2, 9, 2), around(2, 9, 3), around(2, 18), absent, around(2, 2, 3)}, attrs: []ssa.Attr{hidden, num("linear_before_reset", 1), str("direction", "bidirectional")}, results: 2, by: []int{0, 1}},
		{op: "GRU", in: []operand{around(2, 3, 2), around(1, 9, 2), around(1, 9, 3), absent, absent, around(2, 1, 3)}, attrs: []ssa.Attr{hidden, num("layout", 1), str("direction", "reverse")}, results: 2, by: []int{1}},
		{op: "RNN", in: []operand{around(1, 2, 2), around(1, 3, 2), around(1, 3, 3)}, attrs: []ssa.Attr{hidden}},
		{op: "LSTM", in: []operand{around(3, 2, 2), around(1, 12, 2), around(1, 12, 3), around(1, 24)}, attrs: []ssa.Attr{hidden}, results: 3, by: []int{0, 1, 2}},
		{op: "LSTM", in: []operand{around(2, 3, 2), around(2, 12, 2), around(2, 12, 3), around(2, 24), absent, around(2, 2, 3), around(2, 2, 3), around(2, 9)}, attrs: []ssa.Attr{hidden, str("direction", "bidirectional"), num("layout", 1)}, results: 3, by: []int{0, 2}},
		{op: "LSTM", in: []operand{around(2, 1, 2), around(1, 12, 2), around(1, 12, 3)}, attrs: []ssa.Attr{hidden, num("input_forget", 1)}},
		{op: "LSTM", in: []operand{around(3, 3, 2), around(2, 12, 2), around(2, 12, 3), absent, given([]int32{2, 0, 3}, 3), around(2, 3, 3), around(2, 3, 3)}, attrs: []ssa.Attr{hidden, str("direction", "bidirectional")}, results: 3, by: []int{0, 1, 2}},
		{op: "GRU", in: []operand{around(3, 2, 2), around(1, 9, 2), around(1, 9, 3), absent, given([]int32{1, 3}, 2), around(1, 2, 3)}, attrs: []ssa.Attr{hidden, str("direction", "reverse")}, results: 2, by: []int{0, 1}},
		{op: "RNN", in: []operand{around(3, 2, 2), around(1, 3, 2), around(1, 3, 3)}, attrs: []ssa.Attr{hidden, ssa.FloatAttr("clip", 0.3)}, results: 2, by: []int{0, 1}},
		{op: "Attention", in: []operand{around(1, 2, 3, 2), around(1, 2, 4, 2), around(1, 2, 4, 3)}},
		{op: "Attention", in: []operand{around(1, 2, 8), around(1, 3, 4), around(1, 3, 4), mask}, attrs: []ssa.Attr{num("q_num_heads", 4), num("kv_num_heads", 2), ssa.FloatAttr("softcap", 2)}},
		{op: "Attention", in: []operand{around(1, 2, 3, 2), around(1, 2, 3, 2), around(1, 2, 3, 2), around(3, 5), around(1, 2, 2, 2), around(1, 2, 2, 2)}, attrs: []ssa.Attr{num("is_causal", 1)}, results: 3, by: []int{0, 1, 2}},
		{op: "Attention", in: []operand{around(1, 1, 2, 2), around(1, 1, 3, 2), around(1, 1, 3, 2), given(make([]bool, 6), 2, 3)}},
		{op: "RotaryEmbedding", in: []operand{around(1, 2, 3, 4), angles, angles, given([]int64{0, 2, 4}, 1, 3)}}, {op: "RotaryEmbedding", in: []operand{around(1, 3, 8), angles, angles, given([]int64{0, 2, 4}, 1, 3)}, attrs: []ssa.Attr{num("num_heads", 2), num("interleaved", 1)}},
	}...)
}

// gateCases are recurrent layers with every activation, with parameters and without.
func gateCases(hidden ssa.Attr) (out []ruleCase) {
	list := func(name string, v ...float32) ssa.Attr { return ssa.FloatsAttr("activation_"+name, v...) }
	for _, act := range []string{"Relu", "tanh", "Sigmoid", "Softsign", "Softplus", "Affine", "ScaledTanh", "HardSigmoid", "LeakyRelu", "ThresholdedRelu", "Elu"} {
		in := []operand{around(3, 2, 2), around(1, 3, 2), around(1, 3, 3), around(1, 6)}
		attrs := []ssa.Attr{hidden, ssa.StringsAttr("activations", act)}
		out = append(out, ruleCase{op: "RNN", in: in, attrs: attrs, results: 2, by: []int{0, 1}})
		out = append(out, ruleCase{op: "RNN", in: in, attrs: append(attrs[:2:2], list("alpha", 0.3), list("beta", 0.4)), results: 2, by: []int{0, 1}})
	}
	return append(out, []ruleCase{ // each function takes the next of the parameters that it has
		{op: "LSTM", in: []operand{around(3, 2, 2), around(2, 12, 2), around(2, 12, 3), around(2, 24)}, results: 3, by: []int{0, 1, 2}, attrs: []ssa.Attr{hidden, ssa.StringAttr("direction", "bidirectional"),
			ssa.StringsAttr("activations", "HardSigmoid", "Affine", "Tanh", "Sigmoid", "LeakyRelu", "ScaledTanh"), list("alpha", 0.3, 0.6, 0.2, 1.1), list("beta", 0.4, -0.1, 0.7)}},
		{op: "GRU", in: []operand{around(3, 2, 2), around(2, 9, 2), around(2, 9, 3), around(2, 18)}, results: 2, by: []int{0, 1}, attrs: []ssa.Attr{hidden, ssa.StringAttr("direction", "bidirectional"),
			ssa.StringsAttr("activations", "Sigmoid", "Elu", "HardSigmoid", "ThresholdedRelu"), list("alpha", 0.8, 0.25)}},
	}...)
}

func microsoftCases() []ruleCase {
	const ms = "com.microsoft."
	num, str, ints := ssa.IntAttr, ssa.StringAttr, ssa.IntsAttr
	heads := num("num_heads", 2)
	padded := given([]int32{1, 1, 0}, 1, 3)
	return []ruleCase{
		{op: ms + "BiasGelu", in: []operand{around(3, 4), around(4)}}, {op: ms + "FastGelu", in: []operand{around(3, 4), around(4)}}, {op: ms + "BiasSplitGelu", in: []operand{around(1, 3, 4), around(4)}},
		{op: ms + "BiasAdd", in: []operand{around(1, 3, 4), around(4), around(1, 3, 4)}}, {op: ms + "BiasSoftmax", in: []operand{around(2, 3, 4), around(1, 3, 4)}, attrs: []ssa.Attr{num("axis", 1), num("is_inner_broadcast", 0)}},
		{op: ms + "BiasSoftmax", in: []operand{around(2, 3, 4), around(1, 3, 4)}, attrs: []ssa.Attr{num("axis", 2), num("is_inner_broadcast", 0)}},
		{op: ms + "FusedMatMul", in: []operand{around(4, 3), around(5, 4)}, attrs: []ssa.Attr{num("transA", 1), num("transB", 1), ssa.FloatAttr("alpha", 0.5)}},
		{op: ms + "FusedMatMul", in: []operand{around(3, 2, 4), around(2, 4, 5)}, attrs: []ssa.Attr{num("transBatchA", 1)}}, {op: ms + "TransposeMatMul", in: []operand{around(4, 3), around(4, 5)}, attrs: []ssa.Attr{num("transA", 1)}},
		{op: ms + "FusedMatMulActivation", in: []operand{around(3, 4), around(4, 2)}, attrs: []ssa.Attr{str("activation", "Tanh")}},
		{op: ms + "FusedGemm", in: []operand{around(3, 4), around(4, 5), around(5)}, attrs: []ssa.Attr{str("activation", "LeakyRelu"), ssa.FloatAttr("activation_alpha", 0.3)}},
		{op: ms + "GemmFastGelu", in: []operand{around(3, 4), around(4, 5), around(5)}},
		{op: ms + "FusedConv", in: []operand{around(1, 2, 4, 4), around(3, 2, 3, 3), around(3), around(1, 3, 2, 2)}, attrs: []ssa.Attr{str("activation", "Sigmoid")}},
		{op: ms + "FusedConv", in: []operand{around(1, 2, 4, 4), around(3, 2, 3, 3), around(3)}, attrs: []ssa.Attr{str("activation", "HardSigmoid"), ssa.FloatsAttr("activation_params", 0.1, 0.5), ints("pads", 1, 1, 1, 1)}},
		{op: ms + "GroupNorm", in: []operand{around(1, 2, 3, 4), around(4), around(4)}, attrs: []ssa.Attr{num("groups", 2), num("activation", 1)}},
		{op: ms + "GroupNorm", in: []operand{around(1, 4, 3, 2), around(4), around(4)}, attrs: []ssa.Attr{num("groups", 2), num("activation", 0), num("channels_last", 0)}},
		{op: ms + "SkipLayerNormalization", in: []operand{around(2, 3, 4), around(2, 3, 4), around(4), around(4), around(4)}, results: 4, by: []int{0, 3}, single: true},
		{op: ms + "SkipSimplifiedLayerNormalization", in: []operand{around(2, 3, 4), around(2, 3, 4), around(4), around(4)}, results: 4, by: []int{0, 3}, single: true},
		{op: ms + "EmbedLayerNormalization", in: []operand{given([]int32{1, 0, 1}, 1, 3), given([]int32{0, 1, 1}, 1, 3), around(3, 4), around(5, 4), around(2, 4), around(4), around(4)}, results: 2, single: true},
		{op: ms + "Attention", in: []operand{around(1, 3, 4), around(4, 12), around(12), padded}, attrs: []ssa.Attr{heads}, single: true},
		{op: ms + "Attention", in: []operand{around(2, 3, 4), around(4, 12), around(12)}, attrs: []ssa.Attr{heads, num("unidirectional", 1)}, single: true},
		{op: ms + "MultiHeadAttention", in: []operand{around(1, 2, 4), around(1, 3, 4), around(1, 3, 4), around(12), padded}, attrs: []ssa.Attr{heads}, single: true},
		{op: ms + "MultiHeadAttention", in: []operand{around(1, 2, 4), around(1, 3, 4), around(1, 3, 4)}, attrs: []ssa.Attr{heads, num("unidirectional", 1)}, single: true},
		{op: ms + "MultiHeadAttention", in: []operand{around(1, 3, 4), around(1, 3, 4), around(1, 3, 4), around(12), padded}, attrs: []ssa.Attr{heads, num("unidirectional", 1), ssa.FloatAttr("mask_filter_value", -1)}, single: true},
		{op: ms + "RotaryEmbedding", in: []operand{around(1, 2, 3, 4), given([]int64{1}, 1), drawnConstant(-1, 1, 5, 2), drawnConstant(-1, 1, 5, 2)}},
	}
}
