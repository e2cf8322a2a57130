package ops

import "github.com/berth-onnx/berth/ssa"

// elementCost counts one operation per result element, and every operand and
// result as read or written once.
func elementCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	for _, v := range n.Out {
		if v != nil {
			k, _ := v.Type.NumElems().Const()
			c.FLOPs += k
		}
	}
	return c
}
