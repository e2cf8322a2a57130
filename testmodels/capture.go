package testmodels

import "github.com/berth-onnx/berth/ssa"

// In both models the last node outside that reads a is Exp. A planner that forgets
// what bodies capture would let Exp write over a, which the body reads later.
var captureModels = []Builtin{
	{Name: "capture-if", Doc: "a branch reads a value after its last direct use", Build: captureIf},
	{Name: "capture-loop", Doc: "a loop reads a value after its last direct use", Build: captureLoop},
}

func captureIf() *ssa.Module {
	b := newBuilder("capture-if")
	cond, x := b.flag("cond"), b.static("x", 4, 64)
	a := b.op("Mul", x, x)
	e := b.op("Exp", a)
	y := b.branch(cond, []*ssa.Value{a}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		return []*ssa.Value{b.op("Sqrt", c[0])}
	}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		return []*ssa.Value{b.op("Sub", c[0], b.float(1))}
	})
	return b.module([]string{"y"}, b.op("Add", y[0], b.op("Reciprocal", e)))
}

func captureLoop() *ssa.Module {
	b := newBuilder("capture-loop")
	n, x := b.trips(), b.static("x", 4, 64)
	a := b.op("Mul", x, x)
	e := b.op("Exp", a)
	y := b.loop(n, nil, []*ssa.Value{e}, []*ssa.Value{a}, func(r *repeated) {
		r.next = []*ssa.Value{r.op("Mul", r.op("Sub", r.carried[0], r.captured[0]), r.float(0.5))}
	})
	return b.module([]string{"y"}, y[0])
}
