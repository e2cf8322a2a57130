package layout

import (
	"slices"

	_ "github.com/berth-onnx/berth/internal/ops/blocked" // what images in blocks are in graphs
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// role is what a node is to the layouts. Nodes without a role take and give plain tensors.
type role struct {
	images []int // operands that are images; the residual of a convolution is none of them
	// op is the private operator over blocked images, "" for operators that take
	// blocked operands as they are.
	op  string
	in  int // variable of the images
	out int // variable of the result, 0 if it is always plain

	isConv  bool
	residue bool // operand 3 is a residual, which lies like the result
}

// nominal is what open dimensions count as.
const nominal = 48

// isImage reports a tensor of a type that is computed in float32, or of bytes in whole words, of one or two spatial dimensions with
// known channels.
func isImage(v *ssa.Value) bool {
	if v == nil || v.Type.Kind != ssa.KindTensor || !v.Type.DType.InFloat32() && !v.Type.DType.IsByte() || v.Type.Rank() < 3 || v.Type.Rank() > 4 {
		return false
	}
	c, ok := v.Type.Shape[1].Const()
	return ok && c > 0 && (c%4 == 0 || !v.Type.DType.IsByte()) && !v.Type.IsBlocked() && hasOrdinarySize(v)
}

// mostPixels bounds the images that layouts are chosen for. Kernels are prepared to ask what they can do, which takes
// time in proportion to the image; larger ones come from no camera.
const mostPixels = 1 << 24

// hasOrdinarySize reports that the known spatial dimensions of an image are not larger than that.
func hasOrdinarySize(v *ssa.Value) bool {
	pixels := int64(1)
	for _, d := range v.Type.Shape[2:] {
		if k, ok := d.Const(); ok {
			if k > mostPixels || pixels*max(k, 1) > mostPixels {
				return false
			}
			pixels *= max(k, 1)
		}
	}
	return true
}

// channels is the number of channels of an image.
func channels(v *ssa.Value) int {
	c, _ := v.Type.Shape[1].Const()
	return int(c)
}

// elements is how many elements a value has, open dimensions taken as nominal; ok is false
// where not even that is known.
func elements(v *ssa.Value) (float64, bool) {
	t, ok := nominalType(v.Type)
	if !ok {
		return 0, false
	}
	n, known := t.NumElems().Const()
	return float64(n), known
}

// nominalType is a type with its open dimensions taken as nominal.
func nominalType(t ssa.Type) (ssa.Type, bool) {
	if t.IsStatic() {
		return t, true
	}
	if t.Kind != ssa.KindTensor || !t.Ranked {
		return t, false
	}
	bind := map[string]int64{}
	for _, d := range t.Shape {
		for _, s := range d.Symbols(nil) {
			bind[s] = nominal
		}
	}
	t = t.Bind(bind)
	return t, t.IsStatic()
}

// nominalNode is a node with static types: the node itself, or one in no graph whose open
// dimensions are taken as nominal.
func nominalNode(n *ssa.Node) (*ssa.Node, bool) {
	if n.IsStatic() {
		return n, true
	}
	m := &ssa.Node{Domain: n.Domain, Op: n.Op, Overload: n.Overload, Version: n.Version, Name: n.Name, Attrs: n.Attrs}
	for _, list := range []struct {
		from []*ssa.Value
		to   *[]*ssa.Value
	}{{n.In, &m.In}, {n.Out, &m.Out}} {
		for _, v := range list.from {
			if v == nil || v.Const != nil {
				*list.to = append(*list.to, v)
				continue
			}
			t, ok := nominalType(v.Type)
			if !ok {
				return nil, false
			}
			*list.to = append(*list.to, &ssa.Value{Name: v.Name, Type: t, Content: v.Content})
		}
	}
	return m, true
}

// roleOf finds the role of a node, nil if it has none.
func (p *problem) roleOf(n *ssa.Node) *role {
	o := ops.Of(n)
	if o == nil || len(n.Bodies) > 0 || len(n.In) == 0 || len(n.Out) != 1 {
		return nil
	}
	switch (ops.Key{Domain: o.Domain, Name: o.Name}) {
	case ops.Key{Name: "QLinearConv"}:
		return p.quantizedConv(n)
	case ops.Key{Domain: "com.microsoft", Name: "QLinearAdd"}:
		return p.quantizedSum(n)
	}
	if !isImage(n.Out[0]) || n.Out[0].Type.DType.IsByte() && n.Op != "MaxPool" || !isImage(n.In[0]) && !p.isFactor(n, 0) {
		return nil
	}
	switch (ops.Key{Domain: o.Domain, Name: o.Name}) {
	case ops.Key{Name: "Conv"}, ops.Key{Domain: ops.Private, Name: "Conv"}, ops.Key{Domain: "com.microsoft", Name: "FusedConv"}:
		return p.conv(n)
	case ops.Key{Name: "MaxPool"}, ops.Key{Name: "AveragePool"}:
		return p.window(n)
	case ops.Key{Name: "GlobalAveragePool"}, ops.Key{Name: "GlobalMaxPool"}:
		return p.global(n)
	case ops.Key{Name: "BatchNormalization"}, ops.Key{Domain: ops.Private, Name: "BatchNormalization"}:
		if m, ok := nominalNode(n); ok && p.costs.Fits(m) {
			return p.keeper(n, "Blocked"+n.Op, []int{0}, 0)
		}
		return nil
	case ops.Key{Name: "Resize"}:
		return p.resize(n)
	case ops.Key{Name: "Concat"}:
		return p.concat(n)
	}
	if o.Domain == "" && o.Facts.Access == ops.Elementwise && o.Facts.Randomness == ops.Deterministic {
		return p.elementwise(n)
	}
	return nil
}

// conv is the role of a convolution: image and result have layouts of their own.
func (p *problem) conv(n *ssa.Node) *role {
	m, ok := nominalNode(n)
	if !ok || n.Input(1) == nil || n.In[1].Const == nil || fused.Shuffles(n) {
		return nil
	}
	cost, ok := p.convCosts(m)
	if !ok {
		return nil
	}
	r := &role{op: "Blocked" + n.Op, isConv: true, images: []int{0}, in: p.variable(), out: p.variable(), residue: n.Input(3) != nil}
	p.total += cost[0][0]
	p.charge(r.in, cost[1][0]-cost[0][0])
	p.charge(r.out, cost[1][1]-cost[1][0])
	if mixed := cost[0][1] - cost[0][0] - (cost[1][1] - cost[1][0]); mixed > 0 {
		p.flow.edge(r.out, r.in, mixed)
	}
	return r
}

// quantizedConv is the role of a convolution of bytes. An image of a few channels is plain.
func (p *problem) quantizedConv(n *ssa.Node) *role {
	m, ok := nominalNode(n)
	if !ok {
		return nil
	}
	plain, ok := p.costs.Conv(m, false, false)
	if !ok {
		return nil
	}
	r := &role{op: "BlockedQLinearConv", isConv: true}
	p.total += plain
	if cost, ok := p.costs.Conv(m, true, false); ok && isImage(n.In[0]) {
		r.images, r.in = []int{0}, p.variable()
		p.charge(r.in, cost-plain)
	}
	if cost, ok := p.costs.Conv(m, false, true); ok && isImage(n.Out[0]) {
		r.out = p.variable()
		p.charge(r.out, cost-plain)
	}
	return r
}

// quantizedSum is the role of a sum of quantized images of one shape.
func (p *problem) quantizedSum(n *ssa.Node) *role {
	y := n.Out[0]
	if !isImage(y) || !sameShape(n.In[0].Type, y.Type) || !sameShape(n.In[3].Type, y.Type) {
		return nil
	}
	r := p.keeper(n, "BlockedQLinearAdd", []int{0}, 0)
	r.residue = true
	return r
}

// convCosts are the costs of a convolution by the layouts of its image and its result. Neighbours are often alike, and so are those
// of the block before.
func (p *problem) convCosts(n *ssa.Node) (cost [2][2]float64, ok bool) {
	for i := range p.last {
		if l := &p.last[i]; l.node != nil && costAlike(l.node, n) {
			return l.cost, true
		}
	}
	for in := range 2 {
		for out := range 2 {
			if cost[in][out], ok = p.costs.Conv(n, in == 1, out == 1); !ok {
				return cost, false
			}
		}
	}
	p.last[p.oldest] = estimate{n, cost}
	p.oldest = (p.oldest + 1) % len(p.last)
	return cost, true
}

// costAlike reports convolutions of the same attributes, programs behind them among these, and types. Costs do not depend on elements.
func costAlike(m, n *ssa.Node) bool {
	alike := func(v, w *ssa.Value) bool {
		return v == nil && w == nil || v != nil && w != nil && (v.Const == nil) == (w.Const == nil) && v.Type.Equal(w.Type)
	}
	return m.Op == n.Op && m.Domain == n.Domain && slices.EqualFunc(m.In, n.In, alike) && slices.EqualFunc(m.Out, n.Out, alike) &&
		(m.Domain == ops.Private && sameTexts(m.Attrs, n.Attrs) || m.Domain != ops.Private && ops.SameAttrs(m, n))
}

// sameTexts compares attributes, programs by their text.
func sameTexts(as, bs []ssa.Attr) bool {
	return slices.EqualFunc(as, bs, func(a, b ssa.Attr) bool {
		a.Other, b.Other = nil, nil
		return a.Equal(b)
	})
}

// keeper is the role of an operator whose result lies like its images.
func (p *problem) keeper(n *ssa.Node, op string, images []int, cost float64) *role {
	v := p.variable()
	real := float64(channels(n.Out[0]))
	if e, ok := elements(n.Out[0]); ok {
		b := float64(p.blockOf(n.Out[0]))
		padded := float64(int((real+b-1)/b)) * b
		cost += e * (padded/real - 1) * p.costs.Change()
	}
	p.charge(v, cost)
	return &role{op: op, images: images, in: v, out: v}
}

// window is the role of pooling.
func (p *problem) window(n *ssa.Node) *role {
	m, ok := nominalNode(n)
	if !ok || !p.costs.Fits(m) {
		return nil
	}
	in, _ := elements(n.In[0])
	out, _ := elements(n.Out[0])
	return p.keeper(n, "Blocked"+n.Op, []int{0}, -(in+out)*p.costs.Change()/2)
}

// global is the role of pooling over whole images, whose result is plain.
func (p *problem) global(n *ssa.Node) *role {
	return &role{op: "Blocked" + n.Op, images: []int{0}, in: p.variable()}
}

// resize is the role of a Resize of known factors that leaves batch and channels alone.
func (p *problem) resize(n *ssa.Node) *role {
	x, y := n.In[0].Type, n.Out[0].Type
	linear := ops.Str(n, "mode") == "linear"
	if !linear && ops.Str(n, "mode") != "nearest" || n.Has("axes") || ops.Str(n, "keep_aspect_ratio_policy") != "stretch" ||
		ops.Str(n, "coordinate_transformation_mode") == "tf_crop_and_resize" || !x.Shape[0].Equal(y.Shape[0]) || !x.Shape[1].Equal(y.Shape[1]) {
		return nil
	}
	for _, v := range n.In[1:] {
		if v != nil && v.Const == nil {
			return nil
		}
	}
	if v := n.Input(2); v != nil && v.Const.Len() > 0 {
		a, err := v.Const.Array()
		if err != nil || a.Len() != x.Rank() || a.Float(0) != 1 || a.Float(1) != 1 {
			return nil
		}
	}
	cost := 0.0
	if e, ok := elements(n.Out[0]); ok && linear {
		cost = e * p.costs.Change() // rows of a block are short
	}
	return p.keeper(n, "Blocked"+n.Op, []int{0}, cost)
}

// concat is the role of a concatenation of whole blocks.
func (p *problem) concat(n *ssa.Node) *role {
	if axis := ops.Int(n, "axis"); axis != 1 && axis != 1-int64(n.Out[0].Type.Rank()) {
		return nil
	}
	var images []int
	for i, v := range n.In {
		if !isImage(v) || channels(v)%p.block != 0 {
			return nil
		}
		images = append(images, i)
	}
	return p.keeper(n, "", images, 0)
}

// isFactor reports that operand i of a Mul or Add is a factor for each channel of the result.
func (p *problem) isFactor(n *ssa.Node, i int) bool {
	if n.Domain != "" || n.Op != "Mul" && n.Op != "Add" || len(n.In) != 2 || n.In[i] == nil || n.In[1-i] == nil {
		return false
	}
	f, y := n.In[i].Type, n.Out[0].Type
	if !f.DType.InFloat32() || f.DType != y.DType || !f.Ranked || f.Rank() > y.Rank() || f.Rank() < y.Rank()-1 || !sameShape(n.In[1-i].Type, y) {
		return false
	}
	shape := f.Shape
	if f.Rank() == y.Rank() {
		if !shape[0].Is(1) && !shape[0].Equal(y.Shape[0]) {
			return false
		}
		shape = shape[1:]
	}
	return shape[0].Equal(y.Shape[1]) && !slices.ContainsFunc(shape[1:], func(d ssa.Dim) bool { return !d.Is(1) })
}

// elementwise is the role of an elementwise operator over images of one shape and single
// numbers, or of a factor or offset for each channel.
func (p *problem) elementwise(n *ssa.Node) *role {
	y := n.Out[0].Type
	padded := channels(n.Out[0])%p.block != 0
	var images []int
	for i, v := range n.In {
		switch {
		case v == nil:
		case isImage(v) && sameShape(v.Type, y):
			images = append(images, i)
		case v.Const != nil && v.Const.Len() == 1 && y.DType.InFloat32() && v.Type.DType == y.DType:
		case p.isFactor(n, i) && n.In[1-i].Const == nil:
			return p.keeper(n, "Blocked"+n.Op, []int{1 - i}, 0)
		default:
			return nil
		}
	}
	if len(images) == 0 || padded && !keepsZero(n, images) {
		return nil
	}
	return p.keeper(n, "", images, 0)
}

func sameShape(t, u ssa.Type) bool {
	return t.DType == u.DType && t.Rank() == u.Rank() && t.Ranked && slices.EqualFunc(t.Shape, u.Shape, ssa.Dim.Equal)
}

// keepsZero reports that an elementwise node maps zeros to zero.
func keepsZero(n *ssa.Node, images []int) bool {
	c := &ops.Call{Node: n, In: make([]ndarray.Value, len(n.In)), Out: make([]ndarray.Value, 1), Threads: 1}
	for i, v := range n.In {
		switch {
		case v == nil:
		case slices.Contains(images, i):
			zero, err := ndarray.New(v.Type.DType, 1)
			if err != nil {
				return false
			}
			c.In[i] = zero
		default:
			a, err := v.Const.Array()
			if err != nil {
				return false
			}
			c.In[i] = a
		}
	}
	if ops.Eval(c) != nil {
		return false
	}
	a, ok := c.Out[0].(*ndarray.Array)
	return ok && a.Len() == 1 && a.Float(0) == 0
}
