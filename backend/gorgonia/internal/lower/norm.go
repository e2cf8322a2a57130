package lower

import (
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// statistic identifies what a batch normalization and its derivative both need.
type statistic struct {
	op   any
	name string
	of   *ssa.Value
}

// channelAxes are the axes over which a batch normalization takes its mean.
func (b *builder) channelAxes(x *ssa.Value) []int { return append([]int{0}, upTo(2, b.rank(x))...) }

// moments returns mean and variance of every channel of x, [1 C 1 …]: of this batch, or
// after training what the op has gathered.
func (b *builder) moments(op *gorgonia.BatchNormOp, x *ssa.Value) (mean, variance *ssa.Value) {
	form := make([]int, b.rank(x))
	for i := range form {
		form[i] = 1
	}
	form[1] = b.shape(x)[1]
	if b.options.Eval {
		m, v := op.Stats()
		return b.reshape(b.state(m.(*tensor.Dense)), form...), b.reshape(b.state(v.(*tensor.Dense)), form...)
	}
	axes := b.channelAxes(x)
	mean = b.once(statistic{op, "mean", x}, func() *ssa.Value { return b.mean(x, axes...) })
	variance = b.once(statistic{op, "variance", x}, func() *ssa.Value {
		centered := b.op("Sub", x, mean)
		return b.mean(b.op("Mul", centered, centered), axes...)
	})
	return mean, variance
}

// inverse is 1/√(variance + ε).
func (b *builder) inverse(op *gorgonia.BatchNormOp, variance *ssa.Value) *ssa.Value {
	eps, err := field[float64](op, "epsilon")
	if err != nil {
		b.fail(err)
	}
	return b.op("Reciprocal", b.op("Sqrt", b.op("Add", variance, b.number(variance, eps))))
}

// batchNorm is (x - mean)/√(variance + ε); while training, the running mean and variance
// that the op holds follow.
func batchNorm(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	op, ok := n.Op().(*gorgonia.BatchNormOp)
	if !ok {
		return in[0]
	}
	mean, variance := b.moments(op, in[0])
	if !b.options.Eval {
		b.follow(op, in[0], mean, variance)
	}
	return b.op("Mul", b.op("Sub", in[0], mean), b.inverse(op, variance))
}

// follow makes updates of the running mean and variance: momentum·new + (1-momentum)·old,
// with the unbiased variance.
func (b *builder) follow(op *gorgonia.BatchNormOp, x, mean, variance *ssa.Value) {
	momentum, err := field[float64](op, "momentum")
	if err != nil {
		b.fail(err)
	}
	count := ndarray.Product(b.shape(x)) / b.shape(x)[1]
	m, v := op.Stats()
	next := func(of tensor.Tensor, now *ssa.Value, factor float64) {
		d := of.(*tensor.Dense)
		old := b.state(d)
		now = b.op("Mul", b.reshape(now, b.shape(old)...), b.number(old, momentum*factor))
		b.updates = append(b.updates, update{of: d, by: b.writing, value: b.op("Add", now, b.op("Mul", old, b.number(old, 1-momentum)))})
	}
	next(m, mean, 1)
	next(v, variance, float64(count)/float64(max(count-1, 1)))
}

// batchNormDiff takes x and the adjoint d. With h = (x - mean)·inv and means over all but
// the channels:
//
//	dx = inv·(d - mean(d) - h·mean(d·h)),  after training inv·d
func batchNormDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	x, d := in[0], in[1]
	op := get[*gorgonia.BatchNormOp](b, n, "BatchNormOp")
	if b.err != nil {
		return d
	}
	mean, variance := b.moments(op, x)
	inv := b.inverse(op, variance)
	if b.options.Eval {
		return b.op("Mul", d, inv)
	}
	axes := b.channelAxes(x)
	h := b.op("Mul", b.op("Sub", x, mean), inv)
	share := b.op("Mul", h, b.mean(b.op("Mul", d, h), axes...))
	return b.op("Mul", inv, b.op("Sub", b.op("Sub", d, b.mean(d, axes...)), share))
}

// grouped adds the normalization of every group of channels, [N G rest].
func (b *builder) grouped(n *gorgonia.Node, x *ssa.Value) *ssa.Node {
	s, groups := b.shape(x), get[int](b, n, "numGroups")
	if b.err != nil {
		return b.node("Identity", []*ssa.Value{x}, 1)
	}
	rest := ndarray.Product(s) / max(s[0]*groups, 1)
	one := b.number(x, 1)
	one = b.op("Expand", one, b.ints(rest))
	return b.node("LayerNormalization", []*ssa.Value{b.reshape(x, s[0], groups, rest), one}, 1,
		ssa.IntAttr("axis", 2), ssa.IntAttr("stash_type", int64(x.Type.DType)), ssa.FloatAttr("epsilon", float32(get[float64](b, n, "epsilon"))))
}

func groupNorm(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.grouped(n, in[0]).Out[0]
}

func groupNormDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	m := b.grouped(n, in[0])
	return b.adjoint(m, b.reshape(in[1], b.shape(m.Out[0])...), 0)
}
