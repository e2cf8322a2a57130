package older

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// shapeRange cuts a part out of the dimensions.
func shapeRange(b *builder) []*ssa.Value {
	return one(b.op("Slice", b.op("Shape", b.in[0]), b.ints(ops.Int(b.n, "start")), b.ints(ops.IntOr(b.n, "end", math.MaxInt64)), b.ints(0)))
}

// reshape needs no allowzero where what may be 0 is the operand's dimension in the same place, or is the only entry that is no
// number above 0.
func reshape(b *builder) []*ssa.Value {
	have, want := b.in[0].Type, b.n.In[1].Content
	target := make([]int64, len(want))
	copied, open, at := 0, 0, 0
	for i, d := range want {
		k, known := d.Const()
		switch {
		case known && k != 0:
			target[i] = k
		case have.Ranked && i < len(have.Shape) && have.Shape[i].Equal(d):
			copied++
		case known || !d.Known():
			return nil
		default:
			open++
			at = i
		}
	}
	switch {
	case len(want) == 0:
		return nil
	case slices.Contains(target, -1): // then no entry may be 0
		return b.same(b.in, "allowzero").Out
	case open == 1 && copied == 0:
		target[at] = -1
	case open > 0:
		return one(b.mayBeEmpty(len(want)))
	}
	return b.same([]*ssa.Value{b.in[0], b.ints(target...)}, "allowzero").Out
}

// mayBeEmpty is a Reshape to a target of which any entry may be 0. A tensor without elements is reshaped to 1 everywhere but for the first
// such entry, and then expanded:
//
//	[0,7] to [3,0,0]   Reshape to [1,-1,1] = [1,0,1]   Expand to [3,0,0]
func (b *builder) mayBeEmpty(rank int) *ssa.Value {
	x, target := b.in[0], b.in[1]
	zero := b.op("Equal", target, b.ints(0))
	count := b.op("CumSum", b.cast(zero, ndarray.Int64), b.constant(ssa.ScalarConst(int64(0))))
	first := b.op("And", zero, b.op("Equal", count, b.ints(1)))
	empty := b.op("Greater", b.pick(count, int64(rank-1)), b.ints(0))
	safe := b.op("Where", empty, b.op("Where", first, b.ints(-1), b.ints(1)), target)
	return b.op("Expand", b.op("Reshape", x, safe), target)
}

// trilu keeps the elements at [i, j] with j - i ≥ k, or ≤ k, and clears the others.
func trilu(b *builder) []*ssa.Value {
	x := b.in[0]
	rank := x.Type.Rank()
	if rank < 2 {
		return nil
	}
	diagonal := b.op("Sub", b.counted(x, rank-1), b.op("Unsqueeze", b.counted(x, rank-2), b.ints(1)))
	k := b.ints(0)
	if b.input(1) != nil {
		k = b.op("Reshape", b.in[1], b.ints(1))
	}
	hidden := "Less"
	if ops.Int(b.n, "upper") == 0 {
		hidden = "Greater"
	}
	cleared := b.op(hidden, diagonal, k)
	if x.Type.DType == ndarray.Bool {
		return one(b.op("And", x, b.op("Not", cleared)))
	}
	return one(b.op("Where", cleared, b.number(x, 0), x))
}

// spread is where the elements of a list stand in one of a number for each axis: at base for the axes listed, in their order,
// else at the number of the axis, or at 0.
func spread(n *ssa.Node, rank int, base int64, own bool) ([]int64, bool) {
	at := make([]int64, rank)
	for i := range at {
		if own {
			at[i] = int64(i)
		}
	}
	axes := ops.Ints(n, "axes")
	if !n.Has("axes") {
		for i := range int64(rank) {
			axes = append(axes, i)
		}
	}
	for i, a := range axes {
		axis, err := ops.NormAxis(a, rank)
		if err != nil {
			return nil, false
		}
		at[axis] = base + int64(i)
	}
	return at, true
}

// centerCropPad cuts the middle out, and then writes zeros around it.
func centerCropPad(b *builder) []*ssa.Value {
	x := b.in[0]
	at, ok := spread(b.n, x.Type.Rank(), int64(x.Type.Rank()), true)
	if !ok {
		return nil
	}
	shape := b.op("Shape", x)
	want := b.pick(b.joined(shape, b.cast(b.in[1], ndarray.Int64)), at...)
	less := func(p, q *ssa.Value) *ssa.Value { return b.op("Max", b.op("Sub", p, q), b.ints(0)) }
	half := func(v *ssa.Value) *ssa.Value { return b.op("Div", v, b.ints(2)) }
	from, missing := half(less(shape, want)), less(want, shape)
	y := b.op("Slice", x, from, b.op("Add", from, b.op("Min", shape, want)))
	before := half(missing)
	return one(b.op("Pad", y, b.joined(before, b.op("Sub", missing, before)), b.number(x, 0)))
}

// pad gives the pads of all axes.
func pad(b *builder) []*ssa.Value {
	axes, known := ops.ConstInts(b.n, 3)
	rank := b.in[0].Type.Rank()
	if !known || rank < 0 {
		return nil
	}
	at := make([]int64, 2*rank)
	for i, a := range axes {
		axis, err := ops.NormAxis(a, rank)
		if err != nil {
			return nil
		}
		at[axis], at[rank+axis] = int64(1+i), int64(1+len(axes)+i)
	}
	in := slices.Clone(b.in[:3])
	in[1] = b.pick(b.joined(b.ints(0), in[1]), at...)
	return b.same(in).Out
}

// resize gives the scales or sizes of all axes. Where sizes are
// asked for, half_pixel_symmetric is half_pixel.
func resize(b *builder) []*ssa.Value {
	n, x := b.n, b.in[0]
	rank := x.Type.Rank()
	if rank < 0 || ops.Str(n, "keep_aspect_ratio_policy") != "stretch" || ops.Int(n, "antialias") != 0 {
		return nil
	}
	in := slices.Clone(b.in)
	if n.Has("axes") {
		ones := ndarray.Must(ndarray.Float32, 1)
		ones.SetFloat(0, 1)
		scales, _ := spread(n, rank, 1, false)
		sizes, ok := spread(n, rank, int64(rank), true)
		if !ok {
			return nil
		}
		if roi := b.input(1); roi != nil {
			in[1] = b.region(roi, rank)
		}
		if in[2] = b.input(2); in[2] != nil {
			in[2] = b.pick(b.joined(b.constant(ssa.NewConstant(ones)), in[2]), scales...)
		}
		if sized := b.input(3); sized != nil {
			in[3] = b.pick(b.joined(b.op("Shape", x), sized), sizes...)
		}
	}
	if ops.Str(n, "coordinate_transformation_mode") == "half_pixel_symmetric" && b.input(3) != nil {
		return b.same(in, "axes", "coordinate_transformation_mode").Out // half_pixel is the default
	}
	return b.same(in, "axes").Out
}

// region gives the starts and ends of all axes: 0 and 1 for those not listed.
func (b *builder) region(roi *ssa.Value, rank int) *ssa.Value {
	whole := ndarray.Must(roi.Type.DType, 2)
	whole.SetFloat(1, 1)
	listed := int64(len(ops.Ints(b.n, "axes")))
	from, _ := spread(b.n, rank, 2, false)
	to := slices.Clone(from)
	for i, k := range from {
		if k == 0 {
			to[i] = 1
		} else {
			to[i] = k + listed
		}
	}
	return b.pick(b.joined(b.constant(ssa.NewConstant(whole)), roi), append(from, to...)...)
}

// batchFirst turns the operands and results of a recurrent layer of layout 1.
func batchFirst(b *builder) []*ssa.Value {
	if ops.Int(b.n, "layout") != 1 {
		return nil
	}
	turned := func(v *ssa.Value, perm ...int64) *ssa.Value {
		if v == nil {
			return nil
		}
		return b.with("Transpose", v, ssa.IntsAttr("perm", perm...))
	}
	in := slices.Clone(b.in)
	in[0] = turned(in[0], 1, 0, 2)
	for i := 5; i < min(len(in), 7); i++ {
		in[i] = turned(in[i], 1, 0, 2)
	}
	out := slices.Clone(b.same(in, "layout").Out)
	out[0] = turned(out[0], 2, 0, 1, 3)
	for i := 1; i < len(out); i++ {
		out[i] = turned(out[i], 1, 0, 2)
	}
	return out
}
