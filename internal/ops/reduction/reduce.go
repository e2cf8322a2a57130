package reduction

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// smallest and largest are the ends of an integer type's range.
func smallest(dt ndarray.DType) int64 { lo, _ := kit.IntegerRange(dt); return lo }

func largest(dt ndarray.DType) uint64 { _, hi := kit.IntegerRange(dt); return hi }

// sameFold is a fold that does not depend on the element type.
func sameFold[A any](f fold[A]) func(ndarray.DType) fold[A] {
	return func(ndarray.DType) fold[A] { return f }
}

// minFloat and maxFloat give NaN if one is in the operand.
func minFloat(acc, x float64) float64 { return min(acc, x) }

func maxFloat(acc, x float64) float64 { return max(acc, x) }

// addFloat, addInt, addUint take in one element of a sum.
func addFloat(acc, x float64) float64 { return acc + x }

func addInt(acc, x int64) int64 { return acc + x }

func addUint(acc, x uint64) uint64 { return acc + x }

// ReduceSum adds along axes: https://onnx.ai/onnx/operators/onnx__ReduceSum.html
// An empty sum is 0.
var ReduceSum = reduceOp("ReduceSum", 13, 13, "Y = Σ X", reduction{
	float:   fold[float64]{step: addFloat},
	int:     sameFold(fold[int64]{step: addInt}),
	uint:    sameFold(fold[uint64]{step: addUint}),
	content: ssa.Dim.Add,
}, kit.Since(13)).But(ops.ZeroSignPassed)

// ReduceMean averages along axes: https://onnx.ai/onnx/operators/onnx__ReduceMean.html
// An empty mean is NaN; integer means are cut off towards 0, empty ones are 0.
var ReduceMean = reduceOp("ReduceMean", 18, 18, "Y = Σ X / n", reduction{
	float: fold[float64]{step: addFloat, done: func(s float64, n int) float64 { return s / float64(n) }},
	int:   sameFold(fold[int64]{step: addInt, done: func(s int64, n int) int64 { return s / int64(max(n, 1)) }}),
	uint:  sameFold(fold[uint64]{step: addUint, done: func(s uint64, n int) uint64 { return s / uint64(max(n, 1)) }}),
}, kit.Since(18)).But(ops.ZeroSignPassed)

// ReduceMax takes the maximum along axes: https://onnx.ai/onnx/operators/onnx__ReduceMax.html
// An empty maximum is -∞ or the smallest value of the type; NaN in the operand gives NaN.
var ReduceMax = reduceOp("ReduceMax", 20, 18, "Y = max X", reduction{
	float: fold[float64]{init: math.Inf(-1), step: maxFloat},
	int: func(dt ndarray.DType) fold[int64] {
		return fold[int64]{init: smallest(dt), step: func(a, x int64) int64 { return max(a, x) }}
	},
	uint:    sameFold(fold[uint64]{step: func(a, x uint64) uint64 { return max(a, x) }}),
	bools:   true,
	content: ssa.Dim.Max,
}, kit.SinceTypes(18, 20, ndarray.Bool)).But(ops.ZeroSignPassed)

// ReduceMin takes the minimum along axes: https://onnx.ai/onnx/operators/onnx__ReduceMin.html
// An empty minimum is +∞ or the largest value of the type; NaN in the operand gives NaN.
var ReduceMin = reduceOp("ReduceMin", 20, 18, "Y = min X", reduction{
	float: fold[float64]{init: math.Inf(1), step: minFloat},
	int: func(dt ndarray.DType) fold[int64] {
		return fold[int64]{init: int64(largest(dt)), step: func(a, x int64) int64 { return min(a, x) }}
	},
	uint: func(dt ndarray.DType) fold[uint64] {
		return fold[uint64]{init: largest(dt), step: func(a, x uint64) uint64 { return min(a, x) }}
	},
	bools:   true,
	content: ssa.Dim.Min,
}, kit.SinceTypes(18, 20, ndarray.Bool)).But(ops.ZeroSignPassed)

// ReduceProd multiplies along axes: https://onnx.ai/onnx/operators/onnx__ReduceProd.html
// An empty product is 1.
var ReduceProd = reduceOp("ReduceProd", 18, 18, "Y = Π X", reduction{
	float:   fold[float64]{init: 1, step: func(a, x float64) float64 { return a * x }},
	int:     sameFold(fold[int64]{init: 1, step: func(a, x int64) int64 { return a * x }}),
	uint:    sameFold(fold[uint64]{init: 1, step: func(a, x uint64) uint64 { return a * x }}),
	content: ssa.Dim.Mul,
}, kit.Since(18)).But(ops.ZeroSignPassed)

// ReduceL1 adds absolute values: https://onnx.ai/onnx/operators/onnx__ReduceL1.html
var ReduceL1 = reduceOp("ReduceL1", 18, 18, "Y = Σ |X|", reduction{
	float: fold[float64]{step: func(a, x float64) float64 { return a + math.Abs(x) }},
	int:   sameFold(fold[int64]{step: func(a, x int64) int64 { return a + max(x, -x) }}),
	uint:  sameFold(fold[uint64]{step: addUint}),
}, kit.Since(18)).But(ops.ZeroSignCleared)

// ReduceL2 is the Euclidean norm: https://onnx.ai/onnx/operators/onnx__ReduceL2.html
var ReduceL2 = reduceOp("ReduceL2", 18, 18, "Y = √ Σ X²", reduction{
	float: fold[float64]{step: addSquare, done: func(s float64, _ int) float64 { return math.Sqrt(s) }},
	int: sameFold(fold[int64]{step: func(a, x int64) int64 { return a + x*x },
		done: func(s int64, _ int) int64 { return kit.TruncToInt64(math.Sqrt(float64(s))) }}),
	uint: sameFold(fold[uint64]{step: func(a, x uint64) uint64 { return a + x*x },
		done: func(s uint64, _ int) uint64 { return kit.TruncToUint64(math.Sqrt(float64(s))) }}),
}, kit.Since(18)).But(ops.ZeroSignCleared)

func addSquare(acc, x float64) float64 { return acc + x*x }

// ReduceSumSquare adds squares: https://onnx.ai/onnx/operators/onnx__ReduceSumSquare.html
var ReduceSumSquare = reduceOp("ReduceSumSquare", 18, 18, "Y = Σ X²", reduction{
	float: fold[float64]{step: addSquare},
	int:   sameFold(fold[int64]{step: func(a, x int64) int64 { return a + x*x }}),
	uint:  sameFold(fold[uint64]{step: func(a, x uint64) uint64 { return a + x*x }}),
}, kit.Since(18)).But(ops.ZeroSignCleared)

// ReduceLogSum is the logarithm of the sum: https://onnx.ai/onnx/operators/onnx__ReduceLogSum.html
// An empty reduction is -∞. Integers, which operator sets below 28 allowed, are cut off.
var ReduceLogSum = reduceOp("ReduceLogSum", 28, 18, "Y = ln Σ X", reduction{
	float: fold[float64]{step: addFloat, done: func(s float64, _ int) float64 { return kit.Log(s) }},
	int: sameFold(fold[int64]{step: addInt,
		done: func(s int64, _ int) int64 { return kit.TruncToInt64(math.Log(float64(s))) }}),
	uint: sameFold(fold[uint64]{step: addUint,
		done: func(s uint64, _ int) uint64 { return kit.TruncToUint64(math.Log(float64(s))) }}),
}, kit.Since(18)).But(ops.ZeroSignIgnored)

// ReduceLogSumExp is the logarithm of the sum of exponentials:
// https://onnx.ai/onnx/operators/onnx__ReduceLogSumExp.html
//
//	Y = m + ln Σ exp(X - m),  m = max X
//
// The maximum is taken out first so that nothing overflows. An empty reduction is -∞.
var ReduceLogSumExp = func() ops.Op {
	o := reduceOp("ReduceLogSumExp", 28, 18, "Y = ln Σ exp X", reduction{}, kit.Since(18)).But(ops.ZeroSignIgnored)
	o.Eval = kit.Kernel(evalReduceLogSumExp)
	return o
}()

func evalReduceLogSumExp(c *ops.Call) {
	g := reduceGeometryOf(c)
	dt := g.in.DType
	if !dt.IsFloat() && !dt.IsInteger() {
		kit.Check(kit.UnsupportedType(dt))
	}
	out, x := kit.Result(c, 0, dt, g.shape...), kit.Elements[float64](c, g.in)
	top, sum := kit.Make[float64](c, out.Len()), kit.Make[float64](c, out.Len())
	foldInto(c, g, fold[float64]{init: math.Inf(-1), step: maxFloat}, x, top)
	kit.EachBroadcast(c, g.in.Shape, g.kept, nil, func(i, o, _ int) { sum[o] += math.Exp(x[i] - top[o]) })
	w := kit.Watching(c)
	for i, m := range top {
		w.Did(1)
		if !math.IsInf(m, 0) { // all -∞, an empty reduction, or some +∞: that is the result
			top[i] = m + math.Log(sum[i])
		}
	}
	if dt.IsInteger() {
		kit.StoreTruncated(c, out, top)
	} else {
		kit.WriteFloats(c, out, top)
	}
}
