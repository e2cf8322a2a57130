package ops

import "github.com/berth-onnx/berth/ssa"

// elementCost counts one operation per result element, and every operand and
// result as read or written once.
func elementCost(n *ssa.Node) Cost {
	c := TrafficOf(n)
	for _, v := range n.Out {
		if v != nil {
			k, _ := v.Type.NumElems().Const()
			c.FLOPs += k
		}
	}
	return c
}

// TrafficOf counts the bytes of all operands and results, and no operations.
func TrafficOf(n *ssa.Node) Cost {
	var c Cost
	for _, list := range [][]*ssa.Value{n.In, n.Out} {
		for _, v := range list {
			if v != nil {
				b, _ := v.Type.ByteSize()
				c.Bytes += int64(b)
			}
		}
	}
	return c
}
