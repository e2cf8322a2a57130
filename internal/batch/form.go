package batch

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// kind is how a value lies in the parts.
type kind uint8

const (
	whole kind = iota // no part computes it, or each would compute the same
	split             // each part has its own elements
	sum               // it is the sum of what the parts have
	same              // each part has all of it
)

// form is the kind and, for split values, where: dimension axis is outer × parts × the rest, and a part has those elements whose middle index is its
// number. Row-major order stays in a part.
type form struct {
	kind  kind
	axis  int
	outer int
}

// recipe says how a node is computed in parts.
type recipe struct {
	out   []form
	cut   map[int]form    // whole operands of which a part reads what is its own
	ints  map[int][]int64 // operands that hold shapes, as a part has them
	attrs []ssa.Attr      // that a part has instead
	mean  bool            // sums are divided by the number of parts
	onto  map[int]int     // operands that sums begin with, by result; others are added
	body  *bodyRecipe
	first func(part int) ssa.Attr // nil: none
}

// rule gives the recipe of a node, nil where it has none.
type rule func(a *analysis, n *ssa.Node, in []form) *recipe

// analysis is the forms of the values of a graph.
type analysis struct {
	graph   *ssa.Graph
	parts   int
	inBody  bool
	lenient bool // whole values may be sums: the forms that a body carries are not known yet
	forms   map[*ssa.Value]form
	recipes map[*ssa.Node]*recipe // of nodes in parts
	err     error
}

func newAnalysis(g *ssa.Graph, axes *Axes, parts int) *analysis {
	a := &analysis{graph: g, parts: parts, forms: map[*ssa.Value]form{}, recipes: map[*ssa.Node]*recipe{}}
	for _, p := range g.Params {
		if axis, ok := axes.of[p.Name]; ok {
			a.forms[p] = form{split, axis, 1}
		}
	}
	return a
}

// run finds the form of every value.
func (a *analysis) run() {
	for _, n := range a.graph.Nodes {
		in, is := make([]form, len(n.In)), false
		for i, v := range n.In {
			if v != nil {
				in[i] = a.forms[v]
			}
			is = is || in[i].kind != whole
		}
		if !is {
			continue
		}
		r := a.recipe(n, in)
		if r == nil {
			a.refuse(n)
			continue
		}
		a.recipes[n] = r
		for i, v := range n.Out {
			if v != nil {
				a.forms[v] = r.out[i]
				if r.out[i].kind == sum && !a.inBody {
					a.forms[v] = form{} // complete before it is read
				}
			}
		}
	}
	for _, v := range a.graph.Results {
		if f := a.forms[v]; f.kind == split && f.outer != 1 && !a.inBody {
			a.err = ErrWhole
		}
	}
}

// refuse makes a node read whole operands, which bodies can not.
func (a *analysis) refuse(n *ssa.Node) {
	for _, v := range n.In {
		if v == nil {
			continue
		}
		if f := a.forms[v]; a.inBody && f.kind != whole || f.kind == split && f.outer != 1 {
			a.err = ErrWhole
		}
	}
}

// recipe asks the rule of the operator.
func (a *analysis) recipe(n *ssa.Node, in []form) *recipe {
	o := ops.Of(n)
	if o == nil || o.Facts.Traits.Randomness != ops.Deterministic || slices.ContainsFunc(n.In, isUnknown) || slices.ContainsFunc(n.Out, isUnknown) {
		return nil
	}
	var r *recipe
	switch f := rules[n.Domain+"."+n.Op]; {
	case f != nil:
		r = f(a, n, in)
	case o.Facts.Access == ops.Elementwise || n.Domain == "" && n.Op == "Relu":
		r = a.elementwise(n, in)
	}
	if r == nil {
		return nil
	}
	for i, v := range n.Out {
		if v != nil && !a.fits(v, r.out[i]) {
			return nil
		}
	}
	return r
}

// isUnknown reports values whose sizes are not known or whose channels are in blocks.
func isUnknown(v *ssa.Value) bool {
	return v != nil && (!v.Type.IsStatic() || v.Type.IsBlocked())
}

// fits reports whether a value can have a form.
func (a *analysis) fits(v *ssa.Value, f form) bool {
	shape, _ := v.Type.Static()
	return f.kind != split || f.axis >= 0 && f.axis < len(shape) && f.outer > 0 && shape[f.axis]%(f.outer*a.parts) == 0 && shape[f.axis] > 0
}

// part is the shape of a value in a part.
func (a *analysis) part(v *ssa.Value, f form) []int {
	shape, _ := v.Type.Static()
	if f.kind == split {
		shape[f.axis] /= a.parts
	}
	return shape
}

// cost is a measure of what the graph holds in many parts: the bytes of results of nodes that are whole. Operands that are joined count, too.
func (a *analysis) cost() (sum int64) {
	a.run()
	if a.err != nil {
		return math.MaxInt64
	}
	for _, n := range a.graph.Nodes {
		for _, v := range n.Out {
			if v != nil && a.forms[v].kind != split {
				sum += bytesOf(v)
			}
		}
		if a.recipes[n] != nil {
			continue
		}
		for _, v := range n.In {
			if v != nil && a.forms[v].kind == split && v.Def != nil {
				sum += bytesOf(v)
			}
		}
	}
	return sum
}

// one is the recipe of a node whose result has a form.
func one(f form) *recipe { return &recipe{out: []form{f}} }

// withCut adds a whole operand that is cut.
func (r *recipe) withCut(i int, f form) {
	if r.cut == nil {
		r.cut = map[int]form{}
	}
	r.cut[i] = f
}

// withInts adds an operand that a part has another constant for.
func (r *recipe) withInts(i int, shape []int) *recipe {
	list := make([]int64, len(shape))
	for k, d := range shape {
		list[k] = int64(d)
	}
	r.ints = map[int][]int64{i: list}
	return r
}

// isSplit reports the kind.
func (f form) isSplit() bool { return f.kind == split }

// isAll reports values that a part has all of.
func (f form) isAll() bool { return f.kind == whole || f.kind == same }

// allBut reports whether every operand but some is in each part as a whole.
func allBut(in []form, but ...int) bool {
	for i, f := range in {
		if !f.isAll() && !slices.Contains(but, i) {
			return false
		}
	}
	return true
}

// dims is the shape of operand i.
func dims(n *ssa.Node, i int) []int {
	v := n.Input(i)
	if v == nil {
		return nil
	}
	shape, _ := v.Type.Static()
	return shape
}

// result is the shape of result i.
func result(n *ssa.Node, i int) []int {
	v := n.Output(i)
	if v == nil {
		return nil
	}
	shape, _ := v.Type.Static()
	return shape
}

// aligned finds the form of a result over operands that are broadcast to it: operands of which each dimension is the result's, 1 or missing. Positions
// are counted from the back, skip of them are of no concern. Whole operands of the dimension's size are cut.
func (a *analysis) aligned(n *ssa.Node, in []form, operands []int, rank, skip int) (f form, r *recipe) {
	r = &recipe{}
	f = form{kind: same}
	for _, i := range operands {
		if i >= len(n.In) || n.In[i] == nil || in[i].isAll() {
			continue
		}
		if !in[i].isSplit() {
			return form{}, nil
		}
		shape := dims(n, i)
		at := form{split, in[i].axis + rank - len(shape), in[i].outer}
		if f.isSplit() && f != at || len(shape)-in[i].axis <= skip {
			return form{}, nil
		}
		f = at
	}
	if !f.isSplit() {
		return f, r
	}
	for _, i := range operands {
		if i >= len(n.In) || n.In[i] == nil || in[i].isSplit() {
			continue
		}
		shape := dims(n, i)
		axis := f.axis - rank + len(shape)
		if axis >= 0 && shape[axis] != 1 {
			r.withCut(i, form{split, axis, f.outer})
		}
	}
	return f, r
}

// all lists the positions of operands.
func all(n *ssa.Node) []int {
	list := make([]int, len(n.In))
	for i := range list {
		list[i] = i
	}
	return list
}

// elementwise nodes over parts are parts; sums stay sums where the node is linear in them.
func (a *analysis) elementwise(n *ssa.Node, in []form) *recipe {
	if slices.ContainsFunc(in, func(f form) bool { return f.kind == sum }) {
		return a.linear(n, in)
	}
	if len(n.Out) != 1 {
		return nil
	}
	f, r := a.aligned(n, in, all(n), len(result(n, 0)), 0)
	if r == nil {
		return nil
	}
	r.out = []form{f}
	return r
}

// linear lets a node be one of sums.
func (a *analysis) linear(n *ssa.Node, in []form) *recipe {
	isSum := func(i int) bool { return i < len(in) && in[i].kind == sum }
	isNone := func(f form) bool { return f.kind != sum && !(a.lenient && f.kind == whole) }
	switch {
	case n.Domain != "":
		return nil
	case (n.Op == "Add" || n.Op == "Sub" || n.Op == "Sum") && !slices.ContainsFunc(in, isNone):
	case n.Op == "Mul" && isSum(0) && in[1].isAll(), n.Op == "Mul" && isSum(1) && in[0].isAll():
	case n.Op == "Div" && isSum(0) && in[1].isAll() && n.Out[0].Type.DType.IsFloat():
	case (n.Op == "Neg" || n.Op == "Identity") && isSum(0):
	default:
		return nil
	}
	return one(form{kind: sum})
}

// inShape maps a form to another shape of the same elements in the same order.
func inShape(f form, from, to []int, parts int) (form, bool) {
	if !f.isSplit() {
		return f, true
	}
	before := ndarray.Product(from[:f.axis]) * f.outer
	if ndarray.Product(from) == 0 {
		return form{}, false
	}
	size := 1
	for axis, d := range to {
		if before%size != 0 {
			return form{}, false
		}
		if outer := before / size; d%(outer*parts) == 0 {
			return form{split, axis, outer}, true
		}
		size *= d
	}
	return form{}, false
}
