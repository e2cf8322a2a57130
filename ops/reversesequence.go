package ops

// ReverseSequence reverses the start of every sequence of a batch:
// https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
//
//	Y[t, b] = input[len[b]-1-t, b]  for t < len[b], else input[t, b]
var ReverseSequence = Op{
	Name: "ReverseSequence", Since: 28, Form: typeForm(10, 28), Doc: "Y = input with the first sequence_lens[b] steps reversed",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("batch_axis", 1), intAttr("time_axis", 0)},
	Infer: SameAs, Eval: kernel(evalReverseSequence),
	Facts: Facts{Traits: movement, Cost: moveCost},
}

func evalReverseSequence(c *Call) {
	a := tensor(c, 0)
	lens := ints(c, 1)
	batch, time := Int(c.Node, "batch_axis"), Int(c.Node, "time_axis")
	if a.Rank() < 2 || batch+time != 1 || batch < 0 || time < 0 {
		failf("batch_axis %d and time_axis %d must be 0 and 1 in some order, the operand is %s", batch, time, a)
	}
	steps := a.Shape[time]
	if len(lens) != a.Shape[batch] {
		failf("%d lengths for a batch of %d", len(lens), a.Shape[batch])
	}
	out := result(c, 0, a.DType, a.Shape...)
	_, _, inner := splitDims(a.Shape, 1)
	for b, l := range lens {
		if l < 0 || l > int64(steps) {
			failf("length %d of sequence %d is outside of 0..%d", l, b, steps)
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
			copyElems(out, x*inner, a, y*inner, inner)
		}
	}
}
