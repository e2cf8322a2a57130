package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// ReverseSequence reverses the start of every sequence of a batch:
// https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
//
//	Y[t, b] = input[len[b]-1-t, b]  for t < len[b], else input[t, b]
var ReverseSequence = ops.Op{
	Name: "ReverseSequence", Since: 28, Form: kit.TypeForm(10, 28), Doc: "Y = input with the first sequence_lens[b] steps reversed",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("batch_axis", 1).Between(0, 1), ops.IntAttr("time_axis", 0).Between(0, 1)},
	Infer: kit.SameAsShaped("_ _ *", "_"), Eval: kit.Kernel(evalReverseSequence),
	Facts: ops.Facts{Traits: ops.MovementTraits, Cost: kit.MoveCost},
}

func evalReverseSequence(c *ops.Call) {
	a, lens := kit.Tensor(c, 0), kit.Ints(c, 1)
	batch, time := ops.Int(c.Node, "batch_axis"), ops.Int(c.Node, "time_axis")
	if a.Rank() < 2 || batch == time {
		kit.Failf("batch_axis %d and time_axis %d must be 0 and 1 in some order, the operand is %s", batch, time, a)
	}
	steps := a.Shape[time]
	if len(lens) != a.Shape[batch] {
		kit.Failf("%d lengths for a batch of %d", len(lens), a.Shape[batch])
	}
	out := kit.Result(c, 0, a.DType, a.Shape...)
	inner := kit.SizeOf(a.Shape[2:])
	w := kit.Watching(c)
	for b, l := range lens {
		if l < 0 || l > int64(steps) {
			kit.Failf("length %d of sequence %d is outside of 0..%d", l, b, steps)
		}
		for t := range steps {
			from := t
			if t < int(l) {
				from = int(l) - 1 - t
			}
			x, y := t*len(lens)+b, from*len(lens)+b
			if time == 1 {
				x, y = b*steps+t, b*steps+from
			}
			kit.CopyElems(&w, out, x*inner, a, y*inner, inner)
		}
	}
}
