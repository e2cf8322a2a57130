package kit

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Cost rules that several operators share. They count arithmetic as it is written
// in the operator's formula, not what a kernel does.

// AttentionDims is [batch, heads, seq, size] of an operand of rank 3 or 4.
func AttentionDims(t ssa.Type, num int64) (d [4]ssa.Dim, ok bool) {
	switch {
	case t.Rank() == 4:
		copy(d[:], t.Shape)
		return d, true
	case t.Rank() == 3 && num > 0:
		return [4]ssa.Dim{t.Shape[0], ssa.D(num), t.Shape[1], t.Shape[2].FloorDiv(ssa.D(num))}, true
	}
	return d, false
}

// AttentionCost counts both products.
func AttentionCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	q, ok := AttentionDims(ops.InType(n, 0), ops.Int(n, "q_num_heads"))
	v, ok2 := AttentionDims(ops.InType(n, 2), ops.Int(n, "kv_num_heads"))
	total := v[2]
	if n.Input(5) != nil {
		total = total.Add(DimOf(ops.InType(n, 5), 2))
	}
	if work, known := q[0].Mul(q[1]).Mul(q[2]).Mul(total).Mul(q[3].Add(v[3])).Const(); ok && ok2 && known {
		c.FLOPs = 2 * work
	}
	return c
}

// CausalConvCost counts a product and a sum per tap.
func CausalConvCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	w := ops.InType(n, 1)
	if work, ok := n.Out[0].Type.NumElems().Mul(DimOf(w, w.Rank()-1)).Const(); ok {
		c.FLOPs = 2 * work
	}
	return c
}

// ConvTransposeCost counts the work of ConvTranspose.
func ConvTransposeCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	w, ok := ops.InType(n, 1).Static()
	if ins, known := ops.InType(n, 0).NumElems().Const(); ok && known && len(w) > 2 {
		c.FLOPs = 2 * ins * int64(SizeOf(w[1:]))
	}
	return c
}

// ReadCost counts one operation per element of operand 0, as reductions do.
func ReadCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	c.FLOPs, _ = ops.InType(n, 0).NumElems().Const()
	return c
}

// InnerCost counts products whose terms run along the last dimension of operand 0
// (the one before with transA), whatever the positions of scales and zero points.
func InnerCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	a := ops.InType(n, 0)
	along := a.Rank() - 1
	if ops.Int(n, "transA") != 0 {
		along--
	}
	outs, ok := n.Out[0].Type.NumElems().Const()
	if k, known := DimOf(a, along).Const(); ok && known {
		c.FLOPs = 2 * outs * k
	}
	return c
}

// CachedCost counts both products of attention of every query to a cache, result
// at [B,heads,length,size], or, where that is absent, to keys as long as the
// queries.
//
//go:noinline
func CachedCost(at int) func(n *ssa.Node) ops.Cost {
	return func(n *ssa.Node) ops.Cost {
		c := ops.TrafficOf(n)
		length := DimOf(ops.InType(n, 0), 1)
		if v := n.Input(1); v != nil {
			length = DimOf(v.Type, max(v.Type.Rank()-2, 0))
		}
		if v := n.Output(at); v != nil {
			length = DimOf(v.Type, 2)
		}
		if outs, ok := n.Out[0].Type.NumElems().Mul(length).Const(); ok {
			c.FLOPs = 4 * outs
		}
		return c
	}
}

// GemmCost counts the work of Gemm.
func GemmCost(n *ssa.Node) ops.Cost {
	c := ops.Cost{}
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
	if ops.Int(n, "transA") != 0 {
		k = shape[0]
	}
	c.FLOPs = 2 * elems * int64(k)
	if n.Input(2) != nil {
		c.FLOPs += elems
	}
	return c
}

// ConvCost counts a convolution's multiplications and additions; wi is the
// weights' operand.
//
//go:noinline
func ConvCost(wi int) func(*ssa.Node) ops.Cost {
	return func(n *ssa.Node) ops.Cost {
		c := ops.TrafficOf(n)
		w, ok := ops.InType(n, wi).Static()
		if !ok || len(w) < 3 || n.Output(0) == nil {
			return c
		}
		if outs, ok := n.Out[0].Type.NumElems().Const(); ok {
			c.FLOPs = 2 * outs * int64(SizeOf(w[1:]))
		}
		return c
	}
}

// NormCost counts about eight operations per element.
func NormCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	if k, ok := ops.InType(n, 0).NumElems().Const(); ok {
		c.FLOPs = 8 * k
	}
	return c
}

// MoveCost is the cost of an operator that only moves data: its result written
// once and as many bytes read.
func MoveCost(n *ssa.Node) ops.Cost {
	var c ops.Cost
	for _, v := range n.Out {
		if v != nil {
			b, _ := v.Type.ByteSize()
			c.Bytes += 2 * int64(b)
		}
	}
	return c
}

// FreeCost is the cost of a view.
func FreeCost(*ssa.Node) ops.Cost { return ops.Cost{} }

// LinearAttentionCost counts what is done to the state at every position: decay,
// correction and sum for every key head, reading for every query head.
func LinearAttentionCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	q, k, v := ops.InType(n, 0), ops.InType(n, 1), ops.InType(n, 2)
	steps := DimOf(q, 0).Mul(DimOf(q, 1))
	state := DimOf(k, 2).Mul(DimOf(v, 2).FloorDiv(ssa.D(max(ops.Int(n, "kv_num_heads"), 1))))
	read := n.Out[0].Type.NumElems().Mul(DimOf(q, 2).FloorDiv(ssa.D(max(ops.Int(n, "q_num_heads"), 1))))
	if work, ok := steps.Mul(state).MulN(5).Add(read.MulN(2)).Const(); ok {
		c.FLOPs = work
	}
	return c
}

// MatMulCost is two operations per term of every inner product.
func MatMulCost(n *ssa.Node) ops.Cost {
	c := ops.Cost{}
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
