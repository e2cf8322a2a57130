package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Gemm makes one product with bias of a matrix product and what surrounds it,
// where all is of rank 2:
//
//	MatMul(A, B), Add C      -> Gemm(A, B, C)
//	Gemm(A, B), Add C        -> Gemm(A, B, C)
//	Transpose before Gemm    -> transA, transB
//	MatMul(A, Transpose(B))  -> Gemm(A, B, transB)
var Gemm = &Pass{
	Name: "gemm", Doc: "MatMul, Add, Transpose of rank 2 -> Gemm",
	run: func(c *Context, g *ssa.Graph) error {
		for _, n := range slices.Clone(g.Nodes) {
			if !c.alive(n) || len(n.Out) == 0 || c.unread(n) {
				continue
			}
			var err error
			switch {
			case is(n, "Add"):
				err = c.addIntoGemm(n)
			case is(n, "Gemm"), is(n, "MatMul"):
				err = c.transposeIntoGemm(n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// addIntoGemm: the sum's other operand becomes C.
func (c *Context) addIntoGemm(n *ssa.Node) error {
	for i := range 2 {
		m := defAny(n.In[i], "MatMul", "Gemm")
		bias := n.In[1-i]
		if m == nil || !c.only(n.In[i], n) || m.Input(2) != nil || bias == n.In[i] || !rank2Floats(m) || !broadcastsTo(bias.Type, m.Out[0].Type) {
			continue
		}
		if !sameShape(n.Out[0].Type, m.Out[0].Type) {
			continue
		}
		attrs := m.Attrs
		if is(m, "Gemm") {
			attrs = slices.DeleteFunc(slices.Clone(attrs), func(a ssa.Attr) bool { return a.Name == "beta" })
		}
		if !c.patch(n, "becomes the bias of %s", m) {
			return nil
		}
		k, err := c.node(n, n.Out[0].Name, "Gemm", []*ssa.Value{m.In[0], m.In[1], bias}, 1, attrs...)
		if err != nil {
			return err
		}
		k.Name = m.Name
		c.replace(n.Out[0], k.Out[0])
		return nil
	}
	return nil
}

// rank2Floats reports a product of two matrices of a type Gemm takes.
func rank2Floats(m *ssa.Node) bool {
	return m.In[0].Type.Rank() == 2 && m.In[1].Type.Rank() == 2 && m.Out[0].Type.DType.IsFloat()
}

// broadcastsTo reports that b broadcasts to exactly the shape of t (Gemm
// broadcasts C in one direction only).
func broadcastsTo(b, t ssa.Type) bool {
	if b.Kind != ssa.KindTensor || !b.Ranked || len(b.Shape) > len(t.Shape) {
		return false
	}
	off := len(t.Shape) - len(b.Shape)
	for i, d := range b.Shape {
		if !d.Is(1) && !d.Equal(t.Shape[off+i]) {
			return false
		}
	}
	return true
}

// transposeIntoGemm reads past transposes of a Gemm's operands. A MatMul becomes
// a Gemm only where that saves a Transpose nobody else reads.
func (c *Context) transposeIntoGemm(n *ssa.Node) error {
	if !rank2Floats(n) {
		return nil
	}
	in := slices.Clone(n.In)
	attrs := slices.Clone(n.Attrs)
	flags := [2]string{"transA", "transB"}
	var past *ssa.Node
	for i := range 2 {
		t := def(in[i], "Transpose")
		if t == nil || in[i].Type.Rank() != 2 || isIdentityPerm(permOf(t)) || !c.only(in[i], n) {
			continue
		}
		in[i], past = t.In[0], t
		flip := ssa.IntAttr(flags[i], 1-ops.Int(n, flags[i]))
		attrs = slices.DeleteFunc(attrs, func(a ssa.Attr) bool { return a.Name == flags[i] })
		if flip.I != 0 {
			attrs = append(attrs, flip)
		}
	}
	if past == nil || !c.patch(n, "reads past %s", past) {
		return nil
	}
	k, err := c.node(n, n.Out[0].Name, "Gemm", in, 1, attrs...)
	if err != nil {
		return err
	}
	k.Name = n.Name
	c.replace(n.Out[0], k.Out[0])
	return nil
}
