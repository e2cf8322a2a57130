package ops

import (
	"fmt"
)

// ReverseSequence reverses the start of every sequence of a batch:
// https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
//
//	Y[t, b] = input[len[b]-1-t, b]  for t < len[b], else input[t, b]
var ReverseSequence = Op{
	Name: "ReverseSequence", Since: 28, Form: typeForm(10, 28), Doc: "Y = input with the first sequence_lens[b] steps reversed",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("batch_axis", 1), intAttr("time_axis", 0)},
	Infer: SameAs, Eval: evalReverseSequence,
	Facts: Facts{Traits: movement, Cost: moveCost},
}

func evalReverseSequence(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	lens, err := needInts(c, 1)
	if err != nil {
		return err
	}
	batch, time := Int(c.Node, "batch_axis"), Int(c.Node, "time_axis")
	if a.Rank() < 2 || batch+time != 1 || batch < 0 || time < 0 {
		return fmt.Errorf("batch_axis %d and time_axis %d must be 0 and 1 in some order, the operand is %s", batch, time, a)
	}
	steps := a.Shape[time]
	if len(lens) != a.Shape[batch] {
		return fmt.Errorf("%d lengths for a batch of %d", len(lens), a.Shape[batch])
	}
	out, err := c.Output(0, a.DType, a.Shape...)
	if err != nil {
		return err
	}
	_, _, inner := splitDims(a.Shape, 1)
	for b, l := range lens {
		if l < 0 || l > int64(steps) {
			return fmt.Errorf("length %d of sequence %d is outside of 0..%d", l, b, steps)
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
	return nil
}
