package fuse

import (
	"context"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Attentions finds scaled dot-product attention as exporters write it out, and makes one node of it:
//
//	x ─ Reshape ─ Transpose ─┐
//	                       MatMul ─ scale ─ masks ─ Softmax ─┐
//	x ─ Reshape ─ Transpose ─┘                             MatMul ─ Transpose ─ y
//	x ─ Reshape ─ Transpose ─────────────────────────────────┘
//
//	y = berth.internal.Attention(x, x, x, masks)
//
// It starts at a Softmax along the last axis and follows single readers to both products. A scale may stand
// before or behind the first product, on either operand or both; masks are added, or choose between the score
// and a number. Operands are followed through transpositions, slices and changes of shape to where they are
// made (strided.go), so that nothing is copied to bring heads together or apart.
//
// Dimensions of the batch are factored: where scores are seen as [B, windows, heads, S, T] for one mask and as
// [B·windows, heads, S, T] for the products, all operands get a stride for each of the factors.
//
// Attentions of half types are those of float32 whose result is rounded once. Only static types are fused. Where the number of keys grows from run to run they lie in a cache (package
// program), whose slices products read in place.
//
// The pass runs on graphs that are compiled, before epilogues are made of what follows products.

// AttentionPass is the name by which it is switched off.
const AttentionPass = "attention"

// Attender says what a backend computes.
type Attender interface {
	// Attends reports whether there is a kernel for an attention, a node in no graph, and its bytes of workspace.
	Attends(n *ssa.Node) (workspace int64, ok bool)
}

// AttentionOptions say which attentions are fused: by default those that are faster as one node.
type AttentionOptions struct {
	All    bool // whatever it costs
	Memory bool // none whose workspace is larger than its scores
}

// Attentions rewrites a graph and its bodies, whose types are inferred, and returns how many nodes it made.
func Attentions(ctx context.Context, g *ssa.Graph, b Attender, o AttentionOptions) (made int, err error) {
	g.Walk(func(body *ssa.Graph) {
		gone := map[*ssa.Node]bool{}
		for _, n := range slices.Clone(body.Nodes) {
			if err != nil || gone[n] || n.Op != "Softmax" || n.Domain != "" || n.Opaque {
				continue
			}
			a := &attention{g: body, all: o.All}
			if a.match(n) && (o.All || a.pays()) && a.replace(b, o, gone) {
				made++
			}
			err = ctx.Err()
		}
		if len(gone) > 0 && err == nil {
			body.RemoveNodes(func(n *ssa.Node) bool { return gone[n] })
		}
	})
	return made, err
}

// The factors of dimensions, by number: rows and columns, then the batch in the order in which it was found.
const (
	queryRows = iota
	keyRows
	keySize
	valueSize
	batchDims
)

// attention is a match: where operands lie, with a stride for each factor.
type attention struct {
	g       *ssa.Graph
	all     bool          // the match is wanted whether it pays or not
	dt      ndarray.DType // of all operands but masks that choose: float32, or a half type
	sizes   []int64
	dims    [][]int // the batch of scores at the node that is looked at: factors of its dimensions
	scale   float64
	q, k, v *lies
	masks   []mask
	toZero  bool
	last    *ssa.Node // the second product
	y       *ssa.Value
	order   []int // factors of y as they follow each other in memory
}

// mask is a step of the scores.
type mask struct {
	kind   int
	number float32
	lies   *lies
}

// leastWork is from how many multiplications for a matrix of the batch on several queries pay: in whole models four queries of
// fourteen keys take 1.04 of the time of their nodes, eight of eight 1.00 to 1.03, sixteen of sixteen 1.00. One query reads its keys
// where they lie and is always faster.
const leastWork = 1 << 13

// pays reports that one node is faster than the products, the softmax and what is between them.
func (a *attention) pays() bool {
	s := a.sizes
	return s[queryRows] == 1 || s[queryRows]*s[keyRows]*(s[keySize]+s[valueSize]) >= leastWork
}

// match reads the nodes around a Softmax.
func (a *attention) match(n *ssa.Node) bool {
	shape, ok := n.Out[0].Type.Static()
	a.dt = n.Out[0].Type.DType
	if axis, err := ops.NormAxis(ops.Int(n, "axis"), len(shape)); !ok || err != nil || len(shape) < 2 || axis != len(shape)-1 || !a.dt.InFloat32() || !a.isFloat(n.Out[0]) || slices.Contains(shape, 0) {
		return false
	}
	chain := a.scores(n.In[0], n, ndarray.Product(shape), maxScoreNodes)
	if chain == nil || !a.all && !a.mayPay(n, chain[len(chain)-1].node) || !a.first(chain[len(chain)-1].node) {
		return false
	}
	for _, m := range slices.Backward(chain[:len(chain)-1]) {
		if !a.step(m) {
			return false
		}
	}
	return a.second(n.Out[0])
}

// mayPay reports that the nodes between a Softmax and the product of weights and values are no match, or that one node pays. Many
// attentions are small, and this is seen from the shapes of both products.
func (a *attention) mayPay(softmax, first *ssa.Node) bool {
	p := a.withoutNaN(softmax.Out[0])
	a.toZero = false
	for {
		if len(p.Uses()) != 1 {
			return true
		}
		n := p.Uses()[0].Node
		if n.Op == "MatMul" && n.Domain == "" && !n.Opaque {
			scores, _ := softmax.Out[0].Type.Static()
			q, okQ := first.In[0].Type.Static()
			v, okV := n.In[1].Type.Static()
			if !okQ || !okV || len(q) < 2 || len(v) < 2 {
				return true
			}
			a.sizes = []int64{int64(scores[len(scores)-2]), int64(scores[len(scores)-1]), int64(q[len(q)-1]), int64(v[len(v)-1])}
			return a.pays()
		}
		if !keepsElements(n) {
			return true
		}
		p = n.Out[0]
	}
}

func (a *attention) isFloat(v *ssa.Value) bool {
	return v.Type.Kind == ssa.KindTensor && v.Type.DType == a.dt && !v.Type.IsBlocked()
}

// link is a node between the products, and the operand by which scores come into it.
type link struct {
	node    *ssa.Node
	through int
}

// maxScoreNodes bounds how many nodes stand between the products.
const maxScoreNodes = 64

// scores lists the nodes from a value of so many elements back to the product that it is made of, which reader
// alone reads; nil if there is none within most nodes.
func (a *attention) scores(v *ssa.Value, reader *ssa.Node, elems, most int) []link {
	n := v.Def
	if n == nil || most == 0 || n.Opaque || n.Domain != "" || !a.only(v, reader) || !a.isFloat(v) {
		return nil
	}
	if shape, ok := v.Type.Static(); !ok || ndarray.Product(shape) != elems {
		return nil
	}
	from, to := 0, 1
	switch n.Op {
	case "MatMul":
		return []link{{node: n}}
	case "Mul", "Add":
		to = 2
	case "Where":
		from, to = 1, 3
	case "Div":
	default:
		if !keepsElements(n) {
			return nil
		}
	}
	for i := from; i < to; i++ {
		if i > from && n.In[i] == n.In[from] { // x·x, whose nodes were looked at: chains of squares would double at each
			break
		}
		if rest := a.scores(n.In[i], n, elems, most-1); rest != nil {
			return append([]link{{n, i}}, rest...)
		}
	}
	return nil
}

// only reports that reader alone reads v.
func (a *attention) only(v *ssa.Value, reader *ssa.Node) bool {
	return !a.g.IsResult(v) && !slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool { return u.Node != reader })
}

// first reads the product of queries and keys.
func (a *attention) first(n *ssa.Node) bool {
	shape, _ := n.Out[0].Type.Static()
	q, okQ := n.In[0].Type.Static()
	k, okK := n.In[1].Type.Static()
	rank := len(shape)
	if !okQ || !okK || len(q) < 2 || len(k) < 2 || rank < 2 {
		return false
	}
	a.sizes = []int64{int64(shape[rank-2]), int64(shape[rank-1]), int64(q[len(q)-1]), 0}
	for _, d := range shape[:rank-2] {
		a.dims = append(a.dims, a.newDim(d))
	}
	a.scale = 1
	a.q = a.operand(n.In[0], queryRows, keySize, (*lies).denseRows)
	a.k = a.operand(n.In[1], keySize, keyRows, func(l *lies) bool { return l.denseRows() || l.denseCols() })
	return a.q != nil && a.k != nil
}

// newDim is a dimension of one new factor, or of none.
func (a *attention) newDim(size int) []int {
	if size == 1 {
		return nil
	}
	a.sizes = append(a.sizes, int64(size))
	return []int{len(a.sizes) - 1}
}

// and is the dimensions of the batch, then rows and columns.
//
//go:noinline
func (a *attention) and(row, col int) [][]int {
	return append(slices.Clone(a.dims), []int{row}, []int{col})
}

// operand finds where an operand of a product lies, in a form that is wanted.
func (a *attention) operand(v *ssa.Value, row, col int, want func(*lies) bool) *lies {
	for _, l := range viewsOf(v) {
		if l.src.Const == nil && a.isFloat(l.src) && want(l) {
			a.scale *= l.scale
			return a.factored(l, a.and(row, col))
		}
	}
	return nil
}

// factored gives every factor of dimensions its stride, 0 where a dimension is broadcast; nil if one is neither.
func (a *attention) factored(l *lies, dims [][]int) *lies {
	out := &lies{src: l.src, at: l.at, strides: make([]int64, len(a.sizes))}
	skip := len(dims) - len(l.dims)
	if skip < 0 {
		return nil
	}
	for i, size := range l.dims {
		whole := int64(1)
		for _, f := range slices.Backward(dims[skip+i]) {
			if size > 1 {
				out.strides[f] = l.strides[i] * whole
			}
			whole *= a.sizes[f]
		}
		if size != 1 && size != whole {
			return nil
		}
	}
	return out
}

// step reads a node between the products.
func (a *attention) step(x link) bool {
	n := x.node
	shape, ok := n.Out[0].Type.Static()
	rank := len(shape)
	if !ok || rank < 2 || int64(shape[rank-2]) != a.sizes[queryRows] || int64(shape[rank-1]) != a.sizes[keyRows] || !a.regroup(shape[:rank-2]) {
		return false
	}
	switch n.Op {
	case "Mul", "Div":
		k, ok := numberIn(n.In[1-x.through])
		if n.Op == "Div" {
			k = 1 / k
		}
		a.scale *= k
		return ok && len(a.masks) == 0
	case "Add":
		return a.mask(n.In[1-x.through], fused.AddMask, 0)
	case "Where":
		number, ok := numberIn(n.In[3-x.through])
		return ok && a.mask(n.In[0], fused.KeepMask+x.through-1, float32(number))
	}
	return true
}

// numberIn is the number that a constant of one element holds.
func numberIn(v *ssa.Value) (float64, bool) {
	a := numberOf(v)
	if a == nil || !a.DType.InFloat32() {
		return 0, false
	}
	return a.Float(0), true
}

// mask adds a step with a mask over the scores as they are seen now.
func (a *attention) mask(v *ssa.Value, kind int, number float32) bool {
	dt := a.dt
	if kind != fused.AddMask {
		dt = ndarray.Bool
	}
	for _, l := range viewsOf(v) {
		if l.scale != 1 || l.src.Type.DType != dt || l.src.Type.IsBlocked() {
			continue
		}
		at := a.factored(l, a.and(queryRows, keyRows))
		if at == nil {
			return false
		}
		a.masks = append(a.masks, mask{kind, number, at})
		return len(a.masks) <= maxMasks
	}
	return false
}

// maxMasks is how many masks a kernel takes.
const maxMasks = 4

// regroup sees the batch in other dimensions, splitting factors where these ask for it; false if there is no
// such view.
func (a *attention) regroup(shape []int) bool {
	var flat []int
	for _, d := range a.dims {
		flat = append(flat, d...)
	}
	dims := make([][]int, len(shape))
	for i, size := range shape {
		for size > 1 {
			if len(flat) == 0 {
				return false
			}
			f := flat[0]
			n := int(a.sizes[f])
			switch {
			case size%n == 0:
				dims[i], flat, size = append(dims[i], f), flat[1:], size/n
			case n%size == 0:
				dims[i], flat[0], size = append(dims[i], f), a.split(f, int64(n/size)), 1
			default:
				return false
			}
		}
	}
	a.dims = dims
	return len(flat) == 0
}

// split makes two of a factor: the number stays with the outer one, the new one is the inner, of a size.
func (a *attention) split(f int, inner int64) int {
	a.sizes = append(a.sizes, inner)
	a.sizes[f] /= inner
	all := []*lies{a.q, a.k, a.v}
	for _, m := range a.masks {
		all = append(all, m.lies)
	}
	for _, l := range all {
		if l != nil {
			l.strides = append(l.strides, l.strides[f])
			l.strides[f] *= inner
		}
	}
	both := func(list []int) (out []int) {
		for _, g := range list {
			if out = append(out, g); g == f {
				out = append(out, len(a.sizes)-1)
			}
		}
		return out
	}
	a.order = both(a.order)
	for i := range a.dims { // the batch is of both factors, also where no view is found in the end
		a.dims[i] = both(a.dims[i])
	}
	return len(a.sizes) - 1
}

// second reads the product of weights p and values, and what brings the heads of its result together.
func (a *attention) second(p *ssa.Value) bool {
	p = a.withoutNaN(p)
	for {
		if len(p.Uses()) != 1 || a.g.IsResult(p) {
			return false
		}
		n := p.Uses()[0].Node
		if n.Opaque || n.Domain != "" {
			return false
		}
		switch {
		case keepsElements(n):
			if p != n.In[0] || !a.step(link{node: n}) {
				return false
			}
			p = n.Out[0]
		case n.Op == "MatMul":
			return p == n.In[0] && a.values(n)
		default:
			return false
		}
	}
}

// keepsElements reports a node whose result has the elements of operand 0 in their order.
func keepsElements(n *ssa.Node) bool {
	o := ops.Of(n)
	return o != nil && (o.Facts.Access == ops.Reshapes && ops.TargetKnown(n) || n.Op == "Identity")
}

// withoutNaN skips the choice of 0 for weights that are NaN.
func (a *attention) withoutNaN(p *ssa.Value) *ssa.Value {
	if len(p.Uses()) != 2 || a.g.IsResult(p) {
		return p
	}
	for i, u := range p.Uses() {
		is, where := u.Node, p.Uses()[1-i].Node
		if is.Op != "IsNaN" || where.Op != "Where" || is.Domain+where.Domain != "" || where.In[0] != is.Out[0] || where.In[2] != p || !a.only(is.Out[0], where) {
			continue
		}
		if number, ok := numberIn(where.In[1]); ok && number == 0 && ops.SameLayout(where.Out[0].Type, p.Type) {
			a.toZero = true
			return where.Out[0]
		}
	}
	return p
}

// values reads the second product.
func (a *attention) values(n *ssa.Node) bool {
	shape, ok := n.Out[0].Type.Static()
	p, okP := n.In[0].Type.Static()
	v, okV := n.In[1].Type.Static()
	if !ok || !okP || !okV || len(v) < 2 || len(p) != len(shape) || len(p) != len(a.dims)+2 || !slices.Equal(p[:len(p)-2], shape[:len(p)-2]) || v[len(v)-1] == 0 {
		return false
	}
	a.sizes[valueSize] = int64(v[len(v)-1])
	scale := a.scale
	a.v = a.operand(n.In[1], keyRows, valueSize, func(l *lies) bool { return l.scale == 1 && l.denseRows() })
	if a.scale = scale; a.v == nil {
		return false
	}
	a.last, a.y = n, n.Out[0]
	for _, d := range a.dims {
		a.order = append(a.order, d...)
	}
	a.order = append(a.order, queryRows, valueSize)
	a.follow()
	return math.Abs(a.scale) <= math.MaxFloat32
}

// follow goes on through transpositions of the result, and changes of shape between them.
func (a *attention) follow() {
	dims := a.and(queryRows, valueSize)
	for at := a.y; len(at.Uses()) == 1 && !a.g.IsResult(at); {
		n := at.Uses()[0].Node
		shape, ok := n.Out[0].Type.Static()
		if !ok || n.Opaque || n.Domain != "" {
			return
		}
		at = n.Out[0]
		switch {
		case keepsElements(n):
			rank := len(shape)
			if a.y != a.last.Out[0] || rank < 2 || int64(shape[rank-2]) != a.sizes[queryRows] || int64(shape[rank-1]) != a.sizes[valueSize] || !a.regroup(shape[:rank-2]) {
				return
			}
			dims = a.and(queryRows, valueSize)
		case n.Op == "Transpose":
			perm, err := kit.TransposePerm(n, len(dims))
			if err != nil || dims[perm[len(perm)-1]] == nil || !slices.Equal(dims[perm[len(perm)-1]], []int{valueSize}) {
				return
			}
			turned := make([][]int, len(dims))
			a.order = nil
			for i, p := range perm {
				turned[i] = dims[p]
				a.order = append(a.order, dims[p]...)
			}
			dims, a.y = turned, at
		default:
			return
		}
	}
}

// node is the fused node, in no graph.
func (a *attention) node() *ssa.Node {
	y := &lies{strides: make([]int64, len(a.sizes))}
	step := int64(1)
	for _, f := range slices.Backward(a.order) {
		y.strides[f] = step
		step *= a.sizes[f]
	}
	var batch []int
	for _, d := range a.dims {
		batch = append(batch, d...)
	}
	f := &fused.AttentionForm{Scale: float32(a.scale), NaNToZero: a.toZero}
	f.S, f.T, f.D, f.E = int(a.sizes[queryRows]), int(a.sizes[keyRows]), int(a.sizes[keySize]), int(a.sizes[valueSize])
	f.Q, f.K = a.q.form(batch, queryRows, keySize), a.k.form(batch, keyRows, keySize)
	f.V, f.Y = a.v.form(batch, keyRows, valueSize), y.form(batch, queryRows, valueSize)
	f.Result, _ = a.y.Type.Static()
	for _, d := range batch {
		f.Batch = append(f.Batch, int(a.sizes[d]))
	}
	in := []*ssa.Value{a.q.src, a.k.src, a.v.src}
	for _, m := range a.masks {
		in = append(in, m.lies.src)
		f.Masks = append(f.Masks, fused.AttentionMask{Kind: m.kind, Number: m.number, Lies: m.lies.form(batch, queryRows, keyRows)})
	}
	return &ssa.Node{Domain: fused.Domain, Op: fused.Attention.Name, Name: a.last.Name, Attrs: []ssa.Attr{fused.FormAttr(f)}, In: in, Out: []*ssa.Value{a.y}}
}

// replace puts the fused node in the place of the second product, if there is a kernel for it, and drops what
// nothing reads then.
func (a *attention) replace(b Attender, o AttentionOptions, gone map[*ssa.Node]bool) bool {
	m := a.node()
	workspace, ok := b.Attends(m)
	scores := 4 * a.sizes[queryRows] * a.sizes[keyRows]
	for _, d := range a.sizes[batchDims:] {
		scores *= d
	}
	if !ok || o.Memory && workspace > scores {
		return false
	}
	made := a.g.InsertBefore(a.last, m.Op, m.In, 1, m.Attrs...)
	made.Domain, made.Name, made.Doc = m.Domain, m.Name, a.last.Doc
	v, y := a.y, made.Out[0]
	y.Name, y.Type, y.Doc = v.Name, v.Type, v.Doc
	names := a.last.Names()
	v.Name = ""
	a.g.ReplaceUses(v, y)
	a.drop(v.Def, gone, &made.Sources)
	if slices.Reverse(made.Sources); len(made.Sources) > 0 { // of which a.last was dropped first
		made.Sources = append(made.Sources[:len(made.Sources)-len(names)], names...)
	}
	return true
}

// drop lists a node that nothing reads, and then those that only it read, with their names in dropped.
func (a *attention) drop(n *ssa.Node, gone map[*ssa.Node]bool, dropped *[]ssa.NodeName) {
	o := ops.Of(n)
	if n == nil || gone[n] || n.Opaque || len(n.Bodies) > 0 || o == nil || o.Facts.Randomness != ops.Deterministic ||
		slices.ContainsFunc(n.Out, func(v *ssa.Value) bool { return v != nil && (len(v.Uses()) > 0 || a.g.IsResult(v)) }) {
		return
	}
	gone[n] = true
	*dropped = append(*dropped, n.Names()...)
	read := slices.Clone(n.In)
	n.TruncateInputs(0)
	for _, v := range read {
		if v != nil && v.Def != nil {
			a.drop(v.Def, gone, dropped)
		}
	}
}
