package testmodels

import "github.com/berth-onnx/berth/ssa"

var builtins = []Builtin{
	{"residual", "two convolutions with a skip connection", residual},
}

func residual() *ssa.Module {
	b := newBuilder("residual")
	x := b.input("x", ssa.D(1), ssa.D(16), ssa.D(32), ssa.D(32))
	same := ssa.IntsAttr("pads", 1, 1, 1, 1)
	y := b.node("Conv", []*ssa.Value{x, b.weight("w1", 144, 16, 16, 3, 3)}, same)
	y = b.op("Relu", y)
	y = b.node("Conv", []*ssa.Value{y, b.weight("w2", 144, 16, 16, 3, 3)}, same)
	return b.module([]string{"y"}, b.op("Relu", b.op("Add", y, x)))
}
