package ops

import "github.com/berth-onnx/berth/ssa"

// Cost rules that several operators share. They count arithmetic as it is written
// in the operator's formula, not what a kernel does.

// attentionDims is [batch, heads, seq, size] of an operand of rank 3 or 4.
func attentionDims(t ssa.Type, num int64) (d [4]ssa.Dim, ok bool) {
	switch {
	case t.Rank() == 4:
		copy(d[:], t.Shape)
		return d, true
	case t.Rank() == 3 && num > 0:
		return [4]ssa.Dim{t.Shape[0], ssa.D(num), t.Shape[1], t.Shape[2].FloorDiv(ssa.D(num))}, true
	}
	return d, false
}

// attentionCost counts both products.
func attentionCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	q, ok := attentionDims(InType(n, 0), Int(n, "q_num_heads"))
	v, ok2 := attentionDims(InType(n, 2), Int(n, "kv_num_heads"))
	total := v[2]
	if n.Input(5) != nil {
		total = total.Add(dimOf(InType(n, 5), 2))
	}
	if work, known := q[0].Mul(q[1]).Mul(q[2]).Mul(total).Mul(q[3].Add(v[3])).Const(); ok && ok2 && known {
		c.FLOPs = 2 * work
	}
	return c
}

// causalConvCost counts a product and a sum per tap.
func causalConvCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	w := InType(n, 1)
	if work, ok := n.Out[0].Type.NumElems().Mul(dimOf(w, w.Rank()-1)).Const(); ok {
		c.FLOPs = 2 * work
	}
	return c
}

func convTransposeCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	w, ok := InType(n, 1).Static()
	if ins, known := InType(n, 0).NumElems().Const(); ok && known && len(w) > 2 {
		c.FLOPs = 2 * ins * int64(sizeOf(w[1:]))
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

func gemmCost(n *ssa.Node) Cost {
	c := Cost{}
	for _, v := range []*ssa.Value{n.In[0], n.In[1], n.Input(2), n.Out[0]} {
		if v != nil {
			b, _ := v.Type.ByteSize()
			c.Bytes += int64(b)
		}
	}
	elems, _ := n.Out[0].Type.NumElems().Const()
	shape, ok := n.In[0].Type.Static()
	if !ok || len(shape) != 2 {
		return c
	}
	k := shape[1]
	if Int(n, "transA") != 0 {
		k = shape[0]
	}
	c.FLOPs = 2 * elems * int64(k)
	if n.Input(2) != nil {
		c.FLOPs += elems
	}
	return c
}

// convCost counts a convolution's multiplications and additions; wi is the
// weights' operand.
func convCost(wi int) func(*ssa.Node) Cost {
	return func(n *ssa.Node) Cost {
		c := trafficOf(n)
		w, ok := InType(n, wi).Static()
		if !ok || len(w) < 3 || n.Output(0) == nil {
			return c
		}
		if outs, ok := n.Out[0].Type.NumElems().Const(); ok {
			c.FLOPs = 2 * outs * int64(sizeOf(w[1:]))
		}
		return c
	}
}

// trafficOf counts the bytes of all operands and results, and no operations.
func trafficOf(n *ssa.Node) Cost {
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

// normCost counts about eight operations per element.
func normCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	if k, ok := InType(n, 0).NumElems().Const(); ok {
		c.FLOPs = 8 * k
	}
	return c
}

// poolCost counts one operation per tap and output.
func poolCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	kernel, err := kernelAttr(n)
	if err != nil || n.Output(0) == nil {
		return c
	}
	if outs, ok := n.Out[0].Type.NumElems().Const(); ok {
		c.FLOPs = outs * int64(sizeOf(kernel))
	}
	return c
}

// moveCost is the cost of an operator that only moves data: its result written
// once and as many bytes read.
func moveCost(n *ssa.Node) Cost {
	var c Cost
	for _, v := range n.Out {
		if v != nil {
			b, _ := v.Type.ByteSize()
			c.Bytes += 2 * int64(b)
		}
	}
	return c
}

// freeCost is the cost of a view.
func freeCost(*ssa.Node) Cost { return Cost{} }

// linearAttentionCost counts what is done to the state at every position: decay,
// correction and sum for every key head, reading for every query head.
func linearAttentionCost(n *ssa.Node) Cost {
	c := trafficOf(n)
	q, k, v := InType(n, 0), InType(n, 1), InType(n, 2)
	steps := dimOf(q, 0).Mul(dimOf(q, 1))
	state := dimOf(k, 2).Mul(dimOf(v, 2).FloorDiv(ssa.D(max(Int(n, "kv_num_heads"), 1))))
	read := n.Out[0].Type.NumElems().Mul(dimOf(q, 2).FloorDiv(ssa.D(max(Int(n, "q_num_heads"), 1))))
	if work, ok := steps.Mul(state).MulN(5).Add(read.MulN(2)).Const(); ok {
		c.FLOPs = work
	}
	return c
}

// matMulCost is two operations per term of every inner product.
func matMulCost(n *ssa.Node) Cost {
	c := Cost{}
	for _, v := range []*ssa.Value{n.In[0], n.In[1], n.Out[0]} {
		b, _ := v.Type.ByteSize()
		c.Bytes += int64(b)
	}
	elems, _ := n.Out[0].Type.NumElems().Const()
	if a := n.In[0].Type.Shape; len(a) > 0 {
		k, _ := a[len(a)-1].Const()
		c.FLOPs = 2 * elems * k
	}
	return c
}
