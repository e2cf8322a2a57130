package generator

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Range counts from start up or down to limit (exclusive) in steps of delta:
// https://onnx.ai/onnx/operators/onnx__Range.html
//
//	n = max(ceil((limit - start) / delta), 0)        Y[i] = start + i·delta
//
// Half types compute in float32 (stash_type 1); a delta of 0 is an error.
var Range = ops.Op{
	Name: "Range", Since: 27, Doc: "Y[i] = start + i·delta, i < ceil((limit-start)/delta)",
	Form:  kit.SinceTypes(11, 27, ndarray.Float16, ndarray.BFloat16),
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("stash_type", 1).From(27).Between(1, 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(InferRange), Eval: kit.Kernel(EvalRange),
}

// InferRange is the type and shape rule of [Range].
func InferRange(n *ssa.Node) []ops.Inferred {
	dt := kit.SameDType(n, 0, 1, 2)
	var length ssa.Dim
	var content []ssa.Dim
	start, limit, delta := kit.SoleKnown(n, 0), kit.SoleKnown(n, 1), kit.SoleKnown(n, 2)
	if step, ok := delta.Const(); ok {
		if step == 0 {
			kit.Failf("delta is 0")
		}
		length = RangeLength(start, limit, step)
		if k, ok := length.Const(); ok && k <= ssa.MaxContent && kit.TracksContent(dt) {
			content = make([]ssa.Dim, k)
			for i := range content {
				content[i] = start.AddN(int64(i) * step)
			}
		}
	}
	return kit.FactOf(ssa.TensorOf(dt, length), content)
}

// RangeLength is the symbolic element count for a constant step.
func RangeLength(start, limit ssa.Dim, step int64) ssa.Dim {
	span := limit.Sub(start)
	if step < 0 {
		span, step = start.Sub(limit), -step
	}
	if step < 0 { // the most negative step has no positive counterpart
		return ssa.Dim{}
	}
	length := span.CeilDiv(ssa.D(step))
	if span.NonNegative() {
		return length
	}
	return length.Max(ssa.D(0))
}

// EvalRange is the reference kernel of [Range].
func EvalRange(c *ops.Call) {
	var in [3]*ndarray.Array
	for i := range in {
		a := kit.Tensor(c, i)
		if in[i] = a; a.Len() != 1 || a.DType != in[0].DType {
			kit.Failf("operand %d is %s, it must be one element of type %s", i, a, in[0].DType)
		}
	}
	switch dt := in[0].DType; {
	case dt.IsInteger():
		rangeInts(c, dt, in[0].Int(0), in[1].Int(0), in[2].Int(0))
	case dt == ndarray.Float64:
		rangeFloats(c, dt, in[0].Float(0), in[1].Float(0), in[2].Float(0))
	case dt.IsFloat():
		rangeFloats(c, dt, float32(in[0].Float(0)), float32(in[1].Float(0)), float32(in[2].Float(0)))
	default:
		kit.Check(kit.UnsupportedType(dt))
	}
}

func rangeInts(c *ops.Call, dt ndarray.DType, start, limit, delta int64) {
	if delta == 0 {
		kit.Failf("delta is 0")
	}
	var n uint64 // distances do not overflow as unsigned numbers
	if delta > 0 && limit > start {
		n = (uint64(limit)-uint64(start)-1)/uint64(delta) + 1
	} else if delta < 0 && limit < start {
		n = (uint64(start)-uint64(limit)-1)/(-uint64(delta)) + 1
	}
	if n > math.MaxInt {
		kit.Failf("%d elements: %w", n, ndarray.ErrSize)
	}
	out := kit.Result(c, 0, dt, int(n))
	w := kit.Watching(c)
	for i := range int(n) {
		w.Did(1)
		out.SetInt(i, start+int64(i)*delta)
	}
}

func rangeFloats[T float32 | float64](c *ops.Call, dt ndarray.DType, start, limit, delta T) {
	if delta == 0 {
		kit.Failf("delta is 0")
	}
	n := max(math.Ceil(float64((limit-start)/delta)), 0)
	if !(n < math.MaxInt) {
		kit.Failf("from %v to %v in steps of %v: %w", start, limit, delta, ndarray.ErrSize)
	}
	y := kit.NewResult[T](c, 0, dt, int(n))
	w := kit.Watching(c)
	for i := range y.V {
		w.Did(1)
		y.V[i] = start + T(i)*delta
	}
	y.Store()
}
