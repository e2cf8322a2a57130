package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Gemm makes one product with bias of a matrix product and what surrounds it, where all
// is of rank 2:
//
//	A ─▶ Transpose ─▶ MatMul ─▶ Add C     Gemm(A, B, C) with transA
//	B ────────────────▲
var Gemm = &Pass{
	Name: "gemm", Doc: "MatMul, Add, Transpose of rank 2 -> Gemm",
	rules: []rule{
		{"MatMul or Gemm, Add -> Gemm", named("Add"), addIntoGemm},
		{"Transpose, MatMul or Gemm -> Gemm", named("Gemm", "MatMul"), transposeIntoGemm},
	},
}

// addIntoGemm: the sum's other operand becomes C.
func addIntoGemm(c *Context, n *ssa.Node) bool {
	for i := range 2 {
		m, bias := def(n.In[i], "MatMul", "Gemm"), n.In[1-i]
		if m == nil || !c.only(n.In[i], n) || m.Input(2) != nil || bias == n.In[i] || !rank2Floats(m) ||
			!broadcastsTo(bias.Type, m.Out[0].Type) || roundingAddend(bias) || !sameShape(n.Out[0].Type, m.Out[0].Type) {
			continue
		}
		return c.becomeGemm(n, m, []*ssa.Value{m.In[0], m.In[1], bias}, without(gemmAttrs(m), "beta"))
	}
	return false
}

// roundingAddend reports a constant that is added to round ([channels.round]).
func roundingAddend(v *ssa.Value) bool {
	if v.Const == nil {
		return false
	}
	k, ok := readChannels(v.Const, v.Const.Len())
	return ok && k.round()
}

// becomeGemm replaces n by a Gemm with the name of the product m.
func (c *Context) becomeGemm(n, m *ssa.Node, in []*ssa.Value, attrs []ssa.Attr) bool {
	v := c.op(n, n.Out[0].Name, "Gemm", in, attrs...)
	v.Def.Name = m.Name
	c.replace(n.Out[0], v)
	return true
}

// gemmAttrs are the attributes of a Gemm that computes the product m; a MatMul has
// none that count.
func gemmAttrs(m *ssa.Node) []ssa.Attr {
	if is(m, "Gemm") {
		return m.Attrs
	}
	return nil
}

func without(attrs []ssa.Attr, name string) []ssa.Attr {
	return slices.DeleteFunc(slices.Clone(attrs), func(a ssa.Attr) bool { return a.Name == name })
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
// a Gemm only where that saves a Transpose no other node reads.
func transposeIntoGemm(c *Context, n *ssa.Node) bool {
	if !rank2Floats(n) {
		return false
	}
	in, attrs, changed := slices.Clone(n.In), gemmAttrs(n), false
	for i, flag := range []string{"transA", "transB"} {
		t := def(in[i], "Transpose")
		if t == nil || isIdentityPerm(permOf(t)) || !c.only(in[i], n) {
			continue
		}
		in[i], attrs, changed = t.In[0], without(attrs, flag), true
		if !is(n, "Gemm") || ops.Int(n, flag) == 0 {
			attrs = append(attrs, ssa.IntAttr(flag, 1))
		}
	}
	return changed && c.becomeGemm(n, n, in, attrs)
}
