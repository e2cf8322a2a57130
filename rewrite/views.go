package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Views merges neighbours that only rename elements:
//
//	Reshape, Flatten, Squeeze, Unsqueeze in a row  -> one Reshape, or nothing
//	Transpose, Transpose                           -> one Transpose, or nothing
//	Transpose that only moves dimensions of one    -> Reshape
//	Cast, Cast where the first loses nothing       -> one Cast, or nothing
//	Concat of Concat on one axis                   -> one Concat
//	Slice, Slice along other dimensions            -> one Slice
//	Pad (zeros) before Conv                        -> pads of the Conv
//	reduction, then its axes dropped or put back   -> reduction with the other keepdims
var Views = &Pass{
	Name: "views", Doc: "rows of Reshape, Transpose, Cast, Concat, Slice, Pad -> one node",
	run: func(c *Context, g *ssa.Graph) error {
		for _, n := range slices.Clone(g.Nodes) {
			if !c.alive(n) || n.Opaque || n.Domain != "" || len(n.Out) == 0 || c.unread(n) {
				continue
			}
			rule := viewRules[n.Op]
			if rule == nil {
				continue
			}
			if err := rule(c, n); err != nil {
				return err
			}
		}
		return nil
	},
}

var viewRules map[string]func(c *Context, n *ssa.Node) error

func init() {
	viewRules = map[string]func(c *Context, n *ssa.Node) error{
		"Reshape": mergeReshape, "Flatten": mergeReshape, "Squeeze": mergeReshape, "Unsqueeze": mergeReshape,
		"Transpose": mergeTranspose, "Cast": mergeCast, "Concat": mergeConcat, "Slice": mergeSlice, "Conv": mergePad,
	}
}

var reshapingOps = []string{"Reshape", "Flatten", "Squeeze", "Unsqueeze"}

// defAny returns the defining node of v if it is one of the operators.
func defAny(v *ssa.Value, names ...string) *ssa.Node {
	for _, op := range names {
		if n := def(v, op); n != nil {
			return n
		}
	}
	return nil
}

// mergeReshape goes up a row of reshaping nodes to its source. The result's shape
// is known; where it can be written as a target of the source, one Reshape (or
// the source itself) takes the place of the row's end.
func mergeReshape(c *Context, n *ssa.Node) error {
	if done, err := mergeReduceAxes(c, n); done || err != nil {
		return err
	}
	src := n.In[0]
	for m := defAny(src, reshapingOps...); m != nil; m = defAny(src, reshapingOps...) {
		src = m.In[0]
	}
	out := n.Out[0]
	if src == n.In[0] {
		return nil
	}
	if sameShape(src.Type, out.Type) {
		if c.canReplace(out, src) && c.patch(n, "the row of views ends as %s began", src.Name) {
			c.replace(out, src)
		}
		return nil
	}
	target, ok := reshapeTarget(src.Type, out.Type)
	if !ok {
		c.skip(n, "the shape %s can not be written as a constant", out.Type)
		return nil
	}
	if !c.patch(n, "one Reshape from %s", src.Name) {
		return nil
	}
	m, err := c.node(n, out.Name, "Reshape", []*ssa.Value{src, c.constant(out.Name+"_shape", ssa.Int64s(target...))}, 1)
	if err != nil {
		return err
	}
	m.Name = n.Name
	c.replace(out, m.Out[0])
	return nil
}

// reshapeTarget writes the shape out as a constant target for a Reshape of in:
// numbers, 0 where the operand's own dimension at that place is meant, and one -1.
//
//	[N, 3, 8, 8] -> [N, 192]     0, 192       (or -1, 192)
//	[N, S, 64]   -> [N*S, 64]    -1, 64
//	[N, S, 64]   -> [N, S, 8, 8] 0, 0, 8, 8
//
// A dimension that is the number 0 can not be written beside 0 for "copy" or -1.
func reshapeTarget(in, out ssa.Type) ([]int64, bool) {
	if !in.Ranked || !out.Ranked || in.Kind != ssa.KindTensor {
		return nil, false
	}
	return targetDims(in.Shape, out.Shape)
}

func targetDims(in, out []ssa.Dim) ([]int64, bool) {
	target := make([]int64, len(out))
	hole, symbolic := -1, 0
	for i, d := range out {
		if k, ok := d.Const(); ok {
			if k <= 0 {
				return nil, false
			}
			target[i] = k
			continue
		}
		if symbolic++; !d.Known() && hole >= 0 {
			return nil, false
		}
		if i < len(in) && in[i].Equal(d) {
			continue // 0 copies it
		}
		if hole >= 0 {
			return nil, false
		}
		hole, target[i] = i, -1
	}
	if hole < 0 && symbolic == 1 { // -1 also reads in tools that do not know 0
		target[slices.Index(target, 0)] = -1
	}
	return target, true
}

// mergeReduceAxes: a reduction, then Squeeze of its kept axes or Unsqueeze of its
// dropped ones, is the reduction with the other keepdims.
func mergeReduceAxes(c *Context, n *ssa.Node) (bool, error) {
	r := n.In[0].Def
	if r == nil || r.Opaque || r.Domain != "" || !reductions[r.Op] || !c.only(n.In[0], n) {
		return false, nil
	}
	keep := 1 - ops.Int(r, "keepdims")
	probe, err := c.copyNodeWith(r, r.In, func(m *ssa.Node) { m.SetAttr(ssa.IntAttr("keepdims", keep)) })
	same := err == nil && sameShape(probe.Out[0].Type, n.Out[0].Type)
	if !same || !c.patch(n, "%s with keepdims=%d", r.Op, keep) {
		c.killIfUnread(probe)
		return false, nil
	}
	c.replace(n.Out[0], probe.Out[0])
	return true, nil
}

var reductions = map[string]bool{
	"ReduceSum": true, "ReduceMean": true, "ReduceMax": true, "ReduceMin": true, "ReduceProd": true, "ReduceL1": true, "ReduceL2": true,
	"ReduceLogSum": true, "ReduceLogSumExp": true, "ReduceSumSquare": true, "ArgMax": true, "ArgMin": true,
}

// mergeTranspose composes two permutations, and turns one that only moves
// dimensions of length 1 into a Reshape, which moves nothing.
func mergeTranspose(c *Context, n *ssa.Node) error {
	p := permOf(n)
	if p == nil {
		return nil
	}
	if m := def(n.In[0], "Transpose"); m != nil {
		if q := permOf(m); q != nil {
			return c.composeTransposes(n, m, p, q)
		}
	}
	in := n.In[0].Type
	if !onlyMovesOnes(in, p) || isIdentityPerm(p) {
		return nil
	}
	target, ok := reshapeTarget(in, n.Out[0].Type)
	if !ok || !c.patch(n, "only moves dimensions of length 1") {
		return nil
	}
	m, err := c.node(n, n.Out[0].Name, "Reshape", []*ssa.Value{n.In[0], c.constant(n.Out[0].Name+"_shape", ssa.Int64s(target...))}, 1)
	if err != nil {
		return err
	}
	c.replace(n.Out[0], m.Out[0])
	return nil
}

func (c *Context) composeTransposes(n, m *ssa.Node, p, q []int64) error {
	r := make([]int64, len(p))
	for i, x := range p {
		if x < 0 || x >= int64(len(q)) {
			return nil
		}
		r[i] = q[x]
	}
	if isIdentityPerm(r) {
		if c.canReplace(n.Out[0], m.In[0]) && c.patch(n, "undoes %s", m) {
			c.replace(n.Out[0], m.In[0])
		}
		return nil
	}
	if !c.patch(n, "composed with %s", m) {
		return nil
	}
	t, err := c.node(n, n.Out[0].Name, "Transpose", []*ssa.Value{m.In[0]}, 1, ssa.IntsAttr("perm", r...))
	if err != nil {
		return err
	}
	c.replace(n.Out[0], t.Out[0])
	return nil
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
func mergeCast(c *Context, n *ssa.Node) error {
	m := def(n.In[0], "Cast")
	if m == nil {
		return nil
	}
	from, via, to := m.In[0].Type.DType, n.In[0].Type.DType, n.Out[0].Type.DType
	if !widens(from, via) || to == ndarray.String {
		return nil
	}
	if from == to {
		if c.canReplace(n.Out[0], m.In[0]) && c.patch(n, "undoes %s", m) {
			c.replace(n.Out[0], m.In[0])
		}
		return nil
	}
	if !c.patch(n, "reads past %s", m) {
		return nil
	}
	k, err := c.copyNode(n, []*ssa.Value{m.In[0]})
	if err == nil {
		c.replace(n.Out[0], k.Out[0])
	}
	return err
}

// widens reports that every value of a is a value of b.
func widens(a, b ndarray.DType) bool {
	type pair struct{ a, b ndarray.DType }
	switch (pair{a, b}) {
	case pair{ndarray.Float16, ndarray.Float32}, pair{ndarray.BFloat16, ndarray.Float32}, pair{ndarray.Float32, ndarray.Float64},
		pair{ndarray.Float16, ndarray.Float64}, pair{ndarray.BFloat16, ndarray.Float64}, pair{ndarray.Int32, ndarray.Float64}, pair{ndarray.Uint32, ndarray.Float64}:
		return true
	}
	small := a == ndarray.Int8 || a == ndarray.Uint8 || a == ndarray.Int16 || a == ndarray.Uint16 || a == ndarray.Bool
	switch {
	case small && (b == ndarray.Float32 || b == ndarray.Float64):
		return true
	case a == ndarray.Bool:
		return b.IsInteger() || b.IsFloat()
	case a.IsSigned() && b.IsSigned(), a.IsUnsigned() && b.IsUnsigned():
		return a.FileBits() <= b.FileBits()
	case a.IsUnsigned() && b.IsSigned():
		return a.FileBits() < b.FileBits()
	}
	return false
}

// mergeConcat takes in operands that are a Concat on the same axis which nobody
// else reads, and drops operands of length 0.
func mergeConcat(c *Context, n *ssa.Node) error {
	rank := n.Out[0].Type.Rank()
	if rank < 1 {
		return nil
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
	if !changed || len(in) == 0 || !c.patch(n, "one Concat of %d", len(in)) {
		return nil
	}
	m, err := c.copyNode(n, in)
	if err == nil {
		c.replace(n.Out[0], m.Out[0])
	}
	return err
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
func mergePad(c *Context, n *ssa.Node) error {
	m := def(n.In[0], "Pad")
	if m == nil || ops.Str(m, "mode") != "constant" || m.Input(3) != nil || !c.only(n.In[0], n) {
		return nil
	}
	pads, ok := ints(m, 1)
	rank := n.In[0].Type.Rank()
	auto := ops.Str(n, "auto_pad")
	if !ok || rank < 3 || len(pads) != 2*rank || auto != "NOTSET" && auto != "VALID" {
		return nil
	}
	if v := m.Input(2); v != nil {
		if f, ok := scalar(v); !ok || f != 0 {
			return nil
		}
	}
	sum := make([]int64, 2*(rank-2))
	copy(sum, ops.Ints(n, "pads"))
	for i, p := range pads {
		d := i%rank - 2
		if p < 0 || p > 0 && d < 0 {
			return nil
		}
		if d >= 0 {
			sum[i/rank*(rank-2)+d] += p
		}
	}
	if !c.patch(n, "takes the zeros of %s as its pads", m) {
		return nil
	}
	in := slices.Clone(n.In)
	in[0] = m.In[0]
	k, err := c.copyNodeWith(n, in, func(m *ssa.Node) {
		m.DropAttr("auto_pad")
		m.SetAttr(ssa.IntsAttr("pads", sum...))
	})
	if err != nil {
		return err
	}
	c.replace(n.Out[0], k.Out[0])
	return nil
}
