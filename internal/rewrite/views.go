package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Views merges neighbours that only rename or move elements:
//
//	Reshape ─▶ Flatten ─▶ Unsqueeze     one Reshape, or nothing
//	Transpose p ─▶ Transpose q          Transpose p∘q, or nothing
//	Cast ─▶ Cast                        one Cast if the first loses nothing
var Views = &Pass{
	Name: "views", Doc: "rows of Reshape, Transpose, Cast, Concat, Slice, Pad -> one node",
	rules: []rule{
		{"a reduction and its axes dropped or put back -> the reduction with the other keepdims", with(reshapes), mergeReduceAxes},
		{"a row of Reshape, Flatten, Squeeze, Unsqueeze -> one Reshape", with(reshapes), mergeReshape},
		{"Transpose, Transpose -> one Transpose", named("Transpose"), mergeTranspose},
		{"Transpose of dimensions of one -> Reshape", named("Transpose"), transposeOnes},
		{"Cast, Cast -> one Cast", named("Cast"), mergeCast},
		{"Concat of Concat -> one Concat", named("Concat"), mergeConcat},
		{"Slice, Slice -> one Slice", named("Slice"), mergeSlice},
		{"Pad with zeros, Conv -> Conv with pads", named("Conv"), mergePad},
	},
}

// mergeReshape follows a row of reshaping nodes up to its source. Where the shape of
// the last result can be written as a target for the source, one Reshape of the source
// (or the source itself) replaces the last node.
func mergeReshape(c *Context, n *ssa.Node) bool {
	src, out := n.In[0], n.Out[0]
	for m := defWith(src, reshapes); m != nil && ops.TargetKnown(m); m = defWith(src, reshapes) {
		src = m.In[0]
	}
	if src == n.In[0] || !ops.TargetKnown(n) {
		return false
	}
	if sameShape(src.Type, out.Type) {
		return c.forward(n, src)
	}
	return c.becomeReshape(n, src)
}

// becomeReshape replaces n by a Reshape of x to its result's shape, if that can be
// written as a constant.
func (c *Context) becomeReshape(n *ssa.Node, x *ssa.Value) bool {
	out := n.Out[0]
	target, ok := reshapeTarget(x.Type, out.Type)
	return ok && c.become(n, "Reshape", []*ssa.Value{x, c.constant(out.Name+"_shape", ssa.Int64s(target...))})
}

// reshapeTarget writes the shape out as a constant target for a Reshape of in:
// numbers, 0 for the operand's dimension of the same index, and one -1.
//
//	[N, 3, 8, 8] -> [N, 192]     -1, 192
//	[N, S, 64]   -> [N*S, 64]    -1, 64
//	[N, S, 64]   -> [N, S, 8, 8] 0, 0, 8, 8
//	[N, S, 64]   -> [N, 8, S, 8] can not be written: where N is 0, every S fits
//
// A dimension that is the number 0 can not be written beside 0 for "copy" or -1.
func reshapeTarget(in, out ssa.Type) ([]int64, bool) {
	if !in.Ranked || !out.Ranked || in.Kind != ssa.KindTensor || slices.ContainsFunc(out.Shape, func(d ssa.Dim) bool { return d.Is(0) }) {
		return nil, false
	}
	return targetOf(in, out.Shape)
}

// targetOf writes dimensions that are no numbers as 0 or -1. A -1 stands beside numbers
// above 0 only: the operand may be empty, and the length is then not determined by a
// product of 0. Entries 0 and -1 of want are what the model itself wrote: they stay.
func targetOf(in ssa.Type, want []ssa.Dim) ([]int64, bool) {
	target := make([]int64, len(want))
	var holes, copies []int
	written := false
	for i, d := range want {
		switch k, known := d.Const(); {
		case known:
			target[i], written = k, written || k <= 0
		case i < len(in.Shape) && in.Shape[i].Equal(d):
			copies = append(copies, i)
		default:
			holes, target[i] = append(holes, i), -1
		}
	}
	if len(holes) == 0 && len(copies) == 1 && !written { // -1 also reads in tools that do not know 0
		target[copies[0]] = -1
	}
	return target, len(holes) == 0 || len(holes) == 1 && len(copies) == 0 && !written
}

// mergeReduceAxes: a reduction, then Squeeze of its kept axes or Unsqueeze of its
// dropped ones, is the reduction with the other keepdims.
func mergeReduceAxes(c *Context, n *ssa.Node) bool {
	r := n.In[0].Def
	if r == nil || r.Domain != "" || !keepsDims(r) || !c.only(n.In[0], n) || !ops.TargetKnown(n) {
		return false
	}
	flip := func(m *ssa.Node) { m.SetAttr(ssa.IntAttr("keepdims", 1-ops.Int(r, "keepdims"))) }
	probe := ssa.Node{Op: r.Op, In: r.In, Out: []*ssa.Value{{}}, Attrs: slices.Clone(r.Attrs)}
	flip(&probe)
	if ops.Infer(&probe) != nil || !sameShape(probe.Out[0].Type, n.Out[0].Type) {
		return false
	}
	c.replace(n.Out[0], c.copyNode(r, r.In, flip).Out[0])
	return true
}

// keepsDims reports a reduction: an operator with the attribute keepdims.
func keepsDims(n *ssa.Node) bool {
	o := ops.Of(n)
	return o != nil && slices.ContainsFunc(o.Attrs, func(a *ops.AttrSpec) bool { return a.Name == "keepdims" })
}

// mergeTranspose composes two permutations.
func mergeTranspose(c *Context, n *ssa.Node) bool {
	m := def(n.In[0], "Transpose")
	if m == nil {
		return false
	}
	p, q := permOf(n), permOf(m)
	return p != nil && len(p) == len(q) && c.becomeTranspose(n, m.In[0], composed(p, q))
}

// becomeTranspose replaces n by a Transpose of x, or by x if that moves nothing.
func (c *Context) becomeTranspose(n *ssa.Node, x *ssa.Value, perm []int64) bool {
	if isIdentityPerm(perm) {
		return c.forward(n, x)
	}
	return c.become(n, "Transpose", []*ssa.Value{x}, ssa.IntsAttr("perm", perm...))
}

// composed is the permutation of a transposition by q and then by p.
func composed(p, q []int64) []int64 {
	r := make([]int64, len(p))
	for i, x := range p {
		r[i] = q[x]
	}
	return r
}

// transposeOnes turns a Transpose that only moves dimensions of length 1 into a
// Reshape, which moves nothing.
func transposeOnes(c *Context, n *ssa.Node) bool {
	p := permOf(n)
	return onlyMovesOnes(n.In[0].Type, p) && !isIdentityPerm(p) && c.becomeReshape(n, n.In[0])
}

// onlyMovesOnes reports that the dimensions not known to be 1 keep their order.
func onlyMovesOnes(t ssa.Type, perm []int64) bool {
	last := int64(-1)
	if !t.Ranked || len(perm) != len(t.Shape) {
		return false
	}
	for _, p := range perm {
		if p < 0 || p >= int64(len(t.Shape)) {
			return false
		}
		if t.Shape[p].Is(1) {
			continue
		}
		if p < last {
			return false
		}
		last = p
	}
	return true
}

// mergeCast drops a first cast that keeps every value.
func mergeCast(c *Context, n *ssa.Node) bool {
	m := def(n.In[0], "Cast")
	if m == nil {
		return false
	}
	from, via, to := m.In[0].Type.DType, n.In[0].Type.DType, n.Out[0].Type.DType
	switch {
	case !widens(from, via) || to == ndarray.String:
		return false
	case from == to:
		return c.forward(n, m.In[0])
	}
	return c.reread(n, m.In[:1])
}

// widens reports that every value of a is a value of b.
func widens(a, b ndarray.DType) bool {
	switch to := significand[b]; {
	case to >= 24 && a != ndarray.Bool:
		return significand[a] > 0 && significand[a] < to || a.IsInteger() && a.FileBits() <= to
	case a == ndarray.Bool:
		return b.IsInteger() || b.IsFloat()
	case a.IsSigned() && b.IsSigned(), a.IsUnsigned() && b.IsUnsigned():
		return a.FileBits() <= b.FileBits()
	case a.IsUnsigned() && b.IsSigned():
		return a.FileBits() < b.FileBits()
	}
	return false
}

// significand is the binary digits of float types. float32 and float64 also have the
// exponents of all types with fewer digits.
var significand = map[ndarray.DType]int{ndarray.BFloat16: 8, ndarray.Float16: 11, ndarray.Float32: 24, ndarray.Float64: 53}

// mergeConcat merges operands that are a Concat on the same axis without other
// readers, and drops operands of length 0.
func mergeConcat(c *Context, n *ssa.Node) bool {
	rank := n.Out[0].Type.Rank()
	if rank < 1 {
		return false
	}
	axis := normalAxis(n, rank)
	var in []*ssa.Value
	changed := false
	for _, v := range n.In {
		switch m := def(v, "Concat"); {
		case m != nil && c.only(v, n) && normalAxis(m, rank) == axis && countOf(n.In, v) == 1:
			in = append(in, m.In...)
			changed = true
		case v.Type.Rank() == rank && v.Type.Shape[axis].Is(0) && len(n.In) > 1:
			changed = true
		default:
			in = append(in, v)
		}
	}
	return changed && len(in) > 0 && c.reread(n, in)
}

func normalAxis(n *ssa.Node, rank int) int64 {
	a := ops.Int(n, "axis")
	if a < 0 {
		a += int64(rank)
	}
	return a
}

func countOf(vs []*ssa.Value, v *ssa.Value) int {
	k := 0
	for _, w := range vs {
		if w == v {
			k++
		}
	}
	return k
}

// mergePad: zeros around the spatial dimensions become pads of the convolution.
func mergePad(c *Context, n *ssa.Node) bool {
	m := def(n.In[0], "Pad")
	if m == nil || ops.Str(m, "mode") != "constant" || m.Input(3) != nil || !c.only(n.In[0], n) {
		return false
	}
	pads, ok := ints(m, 1)
	rank := n.In[0].Type.Rank()
	auto := ops.Str(n, "auto_pad")
	w := n.Input(1)
	if w == nil || w.Const == nil || !finiteElements(w.Const) { // 0 * Inf is NaN, and pads are not multiplied
		return false
	}
	if !ok || rank < 3 || len(pads) != 2*rank || auto != "NOTSET" && auto != "VALID" {
		return false
	}
	if v := m.Input(2); v != nil {
		if f, ok := scalar(v); !ok || f != 0 {
			return false
		}
	}
	sum := make([]int64, 2*(rank-2))
	copy(sum, ops.Ints(n, "pads"))
	for i, p := range pads {
		d := i%rank - 2
		if p < 0 || p > 0 && d < 0 {
			return false
		}
		if d >= 0 {
			sum[i/rank*(rank-2)+d] += p
		}
	}
	return c.reread(n, append([]*ssa.Value{m.In[0]}, n.In[1:]...), func(m *ssa.Node) {
		m.DropAttr("auto_pad")
		m.SetAttr(ssa.IntsAttr("pads", sum...))
	})
}

// finiteElements reports a constant of finite numbers.
func finiteElements(k *ssa.Constant) bool {
	a, splat := k.Splat()
	if !splat {
		var err error
		if a, err = k.Array(); err != nil {
			return false
		}
	}
	for i := range a.Len() {
		if !isFinite(a.Float(i)) {
			return false
		}
	}
	return true
}
