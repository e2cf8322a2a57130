package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// Operators and the channel-blocked layout (ssa/layout.go). Three kinds of operators take
// blocked operands:
//
//   - those made for it, which package internal/ops/blocked registers;
//   - elementwise ones, whose operands are of the result's layout or have one element. They
//     must map zeros to zero, or there is no padding: who makes such nodes sees to it;
//   - Concat of whole blocks.

// isConcat reports a concatenation along the channels.
func isConcat(o *Op, n *ssa.Node) bool {
	return o.Domain == "" && o.Name == "Concat" && Int(n, "axis") == 1
}

// channelsOf is the number of channels of a result of a general operator that has a blocked operand, 0 for a plain one.
func channelsOf(o *Op, n *ssa.Node, t ssa.Type) int {
	sum := 0
	for _, v := range n.In {
		switch {
		case !isBlocked(v):
		case o.Facts.IsElementwise() && v.Type.Rank() == t.Rank():
			return v.Type.Channels
		case isConcat(o, n):
			sum += v.Type.Channels
		}
	}
	return sum
}

func isBlocked(v *ssa.Value) bool { return v != nil && v.Type.IsBlocked() }

// checkLayout reports a node that does not take the layout of an operand.
func checkLayout(n *ssa.Node) error {
	o := Of(n)
	if o != nil && o.Domain == Private || !slices.ContainsFunc(n.In, isBlocked) {
		return nil
	}
	for i, v := range n.In {
		if v == nil || o != nil && takesLayout(o, n, v.Type) {
			continue
		}
		return AtNode("check", n, fmt.Errorf("operand %d is of type %s: the operator does not take the layout", i, v.Type))
	}
	return nil
}

// takesLayout reports that an operand's layout fits those of the others.
func takesLayout(o *Op, n *ssa.Node, t ssa.Type) bool {
	y := n.Out[0].Type
	switch {
	case isConcat(o, n):
		return t.IsBlocked() && t.Channels%t.Block() == 0
	case !o.Facts.IsElementwise():
		return false
	}
	return t.IsBlocked() && t.Channels == y.Channels || t.NumElems().Is(1)
}
