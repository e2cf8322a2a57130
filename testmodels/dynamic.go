package testmodels

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

var dynamicModels = []Builtin{
	{Name: "heads", Doc: "splits and joins heads of an N x S input through Shape, Gather, Concat, Reshape", Build: heads},
	{Name: "flatten", Doc: "computes its target shape from two inputs", Build: flattenTo},
	{Name: "kv-concat", Doc: "appends to a cache of P steps and attends to all of them", Build: kvConcat},
}

// size returns dimension axis of v as a list of one element.
func (b *builder) size(v *ssa.Value, axis int64) *ssa.Value {
	return b.op("Unsqueeze", b.op("Gather", b.op("Shape", v), b.int(axis)), b.ints(0))
}

// shaped reshapes v to a shape joined from lists.
func (b *builder) shaped(v *ssa.Value, parts ...*ssa.Value) *ssa.Value {
	return b.op("Reshape", v, b.node("Concat", parts, ssa.IntAttr("axis", 0)))
}

func (b *builder) transpose(v *ssa.Value, perm ...int64) *ssa.Value {
	return b.node("Transpose", []*ssa.Value{v}, ssa.IntsAttr("perm", perm...))
}

func (b *builder) softmax(v *ssa.Value) *ssa.Value {
	return b.node("Softmax", []*ssa.Value{v}, ssa.IntAttr("axis", -1))
}

func (b *builder) cast(v *ssa.Value, to int64) *ssa.Value {
	return b.node("Cast", []*ssa.Value{v}, ssa.IntAttr("to", to))
}

func heads() *ssa.Module {
	b := newBuilder("heads")
	x := b.input("x", ssa.Sym("N"), ssa.Sym("S"), ssa.D(24))
	n, s := b.size(x, 0), b.size(x, 1)
	split := b.transpose(b.shaped(x, n, s, b.ints(3), b.ints(8)), 0, 2, 1, 3)
	mixed := b.op("Add", b.op("Tanh", split), b.op("MatMul", split, b.linear("w", 8, 8, 8)))
	joined := b.shaped(b.transpose(mixed, 0, 2, 1, 3), n, s, b.ints(24))
	return b.module([]string{"y"}, b.op("Add", joined, x))
}

// flattenTo computes with the sizes themselves: the mean over all rows, by hand.
func flattenTo() *ssa.Module {
	b := newBuilder("flatten")
	x, y := b.input("x", ssa.Sym("N"), ssa.Sym("S"), ssa.D(4)), b.input("y", ssa.Sym("M"), ssa.D(4))
	rows := b.op("Mul", b.size(x, 0), b.size(x, 1))
	flat := b.node("Concat", []*ssa.Value{b.shaped(x, rows, b.ints(4)), y}, ssa.IntAttr("axis", 0))
	total := b.node("ReduceSum", []*ssa.Value{flat, b.ints(0)}, ssa.IntAttr("keepdims", 1))
	count := b.cast(b.op("Add", rows, b.size(y, 0)), int64(ndarray.Float32))
	mean := b.op("Div", total, count)
	return b.module([]string{"centred", "mean"}, b.op("Sub", flat, mean), mean)
}

func kvConcat() *ssa.Module {
	b := newBuilder("kv-concat")
	dims := []ssa.Dim{ssa.D(1), ssa.D(2), ssa.Sym("P"), ssa.D(8)}
	keys, values := b.input("past_key", dims...), b.input("past_value", dims...)
	x := b.input("x", ssa.D(1), ssa.D(2), ssa.Sym("S"), ssa.D(8))
	along := ssa.IntAttr("axis", 2)
	k := b.node("Concat", []*ssa.Value{keys, b.op("MatMul", x, b.linear("wk", 8, 8, 8))}, along)
	v := b.node("Concat", []*ssa.Value{values, b.op("MatMul", x, b.linear("wv", 8, 8, 8))}, along)
	y := b.op("MatMul", b.softmax(b.op("MatMul", x, b.transpose(k, 0, 1, 3, 2))), v)
	return b.module([]string{"y", "key", "value"}, y, k, v)
}
