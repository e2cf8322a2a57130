package ops

import "github.com/berth-onnx/berth/ssa"

// Cost rules that several families share. They count arithmetic as it is written
// in the operator's formula, not what a kernel does.

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

// readCost counts one operation per element of operand 0: reductions to little.
func readCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	c.FLOPs, _ = InType(n, 0).NumElems().Const()
	return c
}

// innerCost counts products whose terms run along the last dimension of operand 0
// (the one before with transA),// whatever operands with scales and zero points stand between.
func innerCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	a := InType(n, 0)
	along := a.Rank() - 1
	if Int(n, "transA") != 0 {
		along--
	}
	outs, ok := n.Out[0].Type.NumElems().Const()
	if k, known := dimOf(a, along).Const(); ok && known {
		c.FLOPs = 2 * outs * k
	}
	return c
}

// projectedCost is innerCost of the projections and both products of attention of
// all positions to all, from operands input [B,S,I], weights [I,W] with queries,
// keys and values side by side, and result [B,S,V]; past keys come on top.
func projectedCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	x, w := InType(n, 0), InType(n, 1)
	tokens := dimOf(x, 0).Mul(dimOf(x, 1))
	scores := tokens.Mul(dimOf(x, 1)).Mul(dimOf(w, 1).Add(dimOf(n.Out[0].Type, 2)).FloorDiv(ssa.D(2)))
	if work, ok := tokens.Mul(dimOf(x, 2)).Mul(dimOf(w, 1)).Add(scores).Const(); ok {
		c.FLOPs = 2 * work
	}
	return c
}

// cachedCost counts both products of attention of every query to a cache, result
// at [B,heads,length,size], or, where that is absent, to keys as long as the
// queries.
func cachedCost(at int) func(n *ssa.Node) Cost {
	return func(n *ssa.Node) Cost {
		c := trafficOf(n)
		length := dimOf(InType(n, 0), 1)
		if v := n.Input(1); v != nil {
			length = dimOf(v.Type, max(v.Type.Rank()-2, 0))
		}
		if v := n.Output(at); v != nil {
			length = dimOf(v.Type, 2)
		}
		if outs, ok := n.Out[0].Type.NumElems().Mul(length).Const(); ok {
			c.FLOPs = 4 * outs
		}
		return c
	}
}
