package older

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// stashed is operand 0 in the type that the normalization computes in.
func (b *builder) stashed() *ssa.Value {
	return b.cast(b.in[0], ndarray.DType(ops.Int(b.n, "stash_type")))
}

// mean is the mean over the dimensions from attribute axis on; nil where these are not known.
func (b *builder) mean(x *ssa.Value) *ssa.Value {
	rank := int64(x.Type.Rank())
	axis := ops.Int(b.n, "axis")
	if rank >= 0 && axis < 0 {
		axis += rank
	}
	end := max(rank, 0) // a negative axis of an unknown rank counts from the back
	if rank < 0 && axis >= 0 || axis >= end {
		return nil
	}
	var axes []int64
	for ; axis < end; axis++ {
		axes = append(axes, axis)
	}
	return b.op("ReduceMean", x, b.ints(axes...))
}

// deviation is √(mean(x²) + ε), nil where the dimensions are not known.
func (b *builder) deviation(x *ssa.Value) *ssa.Value {
	mean := b.mean(b.op("Mul", x, x))
	if mean == nil {
		return nil
	}
	return b.op("Sqrt", b.plus(mean, float64(ops.Float(b.n, "epsilon"))))
}

// layerNorm is (x - mean)/√(variance + ε) · scale + bias.
func layerNorm(b *builder) []*ssa.Value {
	x := b.stashed()
	mean := b.mean(x)
	if mean == nil {
		return nil
	}
	centered := b.op("Sub", x, mean)
	deviation := b.deviation(centered)
	y := b.op("Mul", b.cast(b.op("Div", centered, deviation), b.in[0].Type.DType), b.in[1])
	if bias := b.input(2); bias != nil {
		y = b.op("Add", y, bias)
	}
	return []*ssa.Value{y, mean, b.op("Reciprocal", deviation)}[:len(b.n.Out)]
}

// rmsNorm is x/√(mean(x²) + ε) · scale.
func rmsNorm(b *builder) []*ssa.Value {
	x := b.stashed()
	deviation := b.deviation(x)
	if deviation == nil {
		return nil
	}
	return one(b.op("Mul", b.cast(b.op("Div", x, deviation), b.in[1].Type.DType), b.in[1]))
}

// groupNorm normalizes the rows of [N, groups, rest] as InstanceNormalization does.
func groupNorm(b *builder) []*ssa.Value {
	x, groups := b.stashed(), int(ops.Int(b.n, "num_groups"))
	rank := x.Type.Rank()
	if rank < 2 {
		return nil
	}
	filled := func(v float64) *ssa.Value {
		a := ndarray.Must(x.Type.DType, groups)
		for i := range groups {
			a.SetFloat(i, v)
		}
		return b.constant(ssa.NewConstant(a))
	}
	rows := b.op("Reshape", x, b.ints(0, int64(groups), -1))
	y := b.node("InstanceNormalization", []*ssa.Value{rows, filled(1), filled(0)}, 1, ssa.FloatAttr("epsilon", ops.Float(b.n, "epsilon"))).Out[0]
	y = b.cast(b.op("Reshape", y, b.op("Shape", x)), b.in[0].Type.DType)
	perChannel := make([]int64, rank-1)
	for i := range perChannel {
		perChannel[i] = 1
	}
	perChannel[0] = -1
	return one(b.op("Add", b.op("Mul", y, b.op("Reshape", b.in[1], b.ints(perChannel...))), b.op("Reshape", b.in[2], b.ints(perChannel...))))
}
