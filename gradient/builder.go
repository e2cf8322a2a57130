package gradient

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// builder writes the derivatives of nodes of one graph.
type builder struct {
	ctx    context.Context
	graph  *ssa.Graph
	before *ssa.Node                 // new nodes go ahead of this one; nil: to the end
	adj    map[*ssa.Value]*ssa.Value // adjoints found so far
	active map[*ssa.Value]bool       // values that depend smoothly on those that are differentiated by
	made   []*ssa.Node               // nodes added, in order
	last   bool                      // see [Reversal]
	err    error                     // the first failure while building

	entered map[*ssa.Node]func(*builder) []*ssa.Value // writes the carried values that entered each iteration of a Scan, where no stack is needed
}

func newBuilder(ctx context.Context, g *ssa.Graph, before *ssa.Node) *builder {
	return &builder{ctx: ctx, graph: g, before: before, adj: map[*ssa.Value]*ssa.Value{}, active: map[*ssa.Value]bool{}, entered: map[*ssa.Node]func(*builder) []*ssa.Value{}}
}

// lookEvery is how many nodes or values a loop passes between two looks at the context.
const lookEvery = 1024

// ended reports whether a context has ended, as far as it is looked at in a step of a loop.
func ended(ctx context.Context, step int) bool { return step%lookEvery == 0 && ctx.Err() != nil }

// wants reports whether operand i of n needs an adjoint.
func (g *builder) wants(n *ssa.Node, i int) bool {
	v := n.Input(i)
	return v != nil && g.active[v]
}

func (g *builder) wantsAny(n *ssa.Node) bool {
	return slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return v != nil && g.active[v] })
}

// markActive marks what depends on active values and can vary smoothly.
func (g *builder) markActive(path []*ssa.Node) {
	for i, n := range path {
		if ended(g.ctx, i) {
			return // as reverse does
		}
		depends := g.wantsAny(n)
		for _, v := range n.Out {
			if v != nil && depends && isSmooth(v) {
				g.active[v] = true
			}
		}
	}
}

// isSmooth reports whether values of a type can vary smoothly; unknown ones may.
func isSmooth(v *ssa.Value) bool {
	return v.Type.DType.IsFloat() || v.Type.DType == ndarray.Undefined
}

// reverse walks the nodes backwards and sends adjoints to their operands, until the context ends.
func (g *builder) reverse(path []*ssa.Node) {
	for i := len(path) - 1; i >= 0 && g.err == nil; i-- {
		if g.err = g.ctx.Err(); g.err != nil {
			return
		}
		n := path[i]
		dy, reached := make([]*ssa.Value, len(n.Out)), false
		for k, v := range n.Out {
			if v != nil && g.active[v] && g.adj[v] != nil {
				dy[k], reached = g.adj[v], true
			}
		}
		if reached && g.wantsAny(n) {
			g.node1(n, dy)
		}
	}
}

// node1 applies the rule of one node.
func (g *builder) node1(n *ssa.Node, dy []*ssa.Value) {
	rule := ruleOf(n)
	if rule == nil {
		g.refuse(n, "the operator has no derivative", "differentiate by values behind it, or replace it")
		return
	}
	for k, d := range rule(g, n, dy) {
		if d != nil && g.wants(n, k) {
			g.send(n.In[k], d)
		}
	}
}

// send adds d to the adjoint of v.
func (g *builder) send(v, d *ssa.Value) {
	if old := g.adj[v]; old != nil {
		d = g.sum(old, d)
	}
	g.adj[v] = d
}

// sum adds two adjoints. One that a scatter adds up in zeros is added up in the other: parts of one tensor, as the queries, keys and
// values of a product, then share one sum.
func (g *builder) sum(x, y *ssa.Value) *ssa.Value {
	for _, p := range [2][2]*ssa.Value{{x, y}, {y, x}} {
		n := p[1].Def
		if n != nil && n.Op == "ScatterND" && ops.Str(n, "reduction") == "add" && isZeros(n.In[0]) {
			return g.with("ScatterND", []*ssa.Value{p[0], n.In[1], n.In[2]}, n.Attrs...)
		}
	}
	return g.op("Add", x, y)
}

// isZeros reports what [builder.filled] makes of 0.
func isZeros(v *ssa.Value) bool {
	n := v.Def
	if n == nil || n.Op != "Expand" || n.In[0].Const == nil || n.In[0].Const.Len() != 1 {
		return false
	}
	zero, err := n.In[0].Const.Array()
	return err == nil && zero.Float(0) == 0
}

// adjointOr0 is the adjoint of v, zeros if it has none.
func (g *builder) adjointOr0(v *ssa.Value) *ssa.Value {
	if d := g.adj[v]; d != nil {
		return d
	}
	return g.filled(v, 0)
}

// fail keeps the first failure.
func (g *builder) fail(n *ssa.Node, err error) {
	if g.err == nil {
		g.err = &Error{Node: n.String(), Reason: err.Error(), Err: err}
	}
}

// refuse keeps the first failure, which is a derivative that does not exist or that no rule writes.
func (g *builder) refuse(n *ssa.Node, reason, remedy string) {
	if g.err == nil {
		g.err = &Error{Node: n.String(), Reason: reason, Remedy: remedy, Err: ops.ErrUnsupported}
	}
}

func (g *builder) infer(n *ssa.Node) {
	if err := ops.InferContext(g.ctx, n); err != nil && g.err == nil {
		g.err = err
	}
}

// node adds a node and infers its types.
func (g *builder) node(op string, in []*ssa.Value, numOut int, attrs ...ssa.Attr) *ssa.Node {
	n := g.add(op, in, numOut, attrs...)
	g.infer(n)
	return n
}

// add adds a node whose types are inferred later.
func (g *builder) add(op string, in []*ssa.Value, numOut int, attrs ...ssa.Attr) *ssa.Node {
	var n *ssa.Node
	if g.before == nil {
		n = g.graph.NewNode(op, in, numOut, attrs...)
	} else {
		n = g.graph.InsertBefore(g.before, op, in, numOut, attrs...)
	}
	g.made = append(g.made, n)
	return n
}

// op adds a node of one result without attributes.
func (g *builder) op(op string, in ...*ssa.Value) *ssa.Value { return g.node(op, in, 1).Out[0] }

// with adds a node of one result with attributes.
func (g *builder) with(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return g.node(op, in, 1, attrs...).Out[0]
}

// hasKernels reports that nodes of package backward may be made, for the type of x.
func (g *builder) hasKernels(x *ssa.Value) bool { return g.last && x.Type.DType.IsFloat() }

// private adds a node of package backward.
func (g *builder) private(op string, w *windowAttrs, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	kernel := make([]int64, len(w.kernel))
	kit.Convert(nil, kernel, w.kernel, func(k int) int64 { return int64(k) })
	n := g.add(op, in, 1, append(attrs, ssa.IntsAttr("kernel_shape", kernel...), ssa.IntsAttr("strides", w.strides...),
		ssa.IntsAttr("dilations", w.dilations...), ssa.IntsAttr("pads", w.pads...))...)
	n.Domain = ops.Private
	g.infer(n)
	return n.Out[0]
}

func (g *builder) constant(c *ssa.Constant) *ssa.Value {
	return g.graph.AddConst(fmt.Sprintf("gradient_const_%d", g.graph.NumValues()), c)
}

// ints adds a list of integers.
func (g *builder) ints(v ...int64) *ssa.Value { return g.constant(ssa.Int64s(v...)) }

// number adds a scalar of the element type of like.
func (g *builder) number(like *ssa.Value, v float64) *ssa.Value {
	dt := like.Type.DType
	if dt == ndarray.Undefined {
		dt = ndarray.Float32
	}
	a := ndarray.Must(dt)
	a.SetFloat(0, v)
	return g.constant(ssa.NewConstant(a))
}

// shape is the dimensions of v as a list.
func (g *builder) shape(v *ssa.Value) *ssa.Value {
	if s, ok := v.Type.Static(); ok {
		d := make([]int64, len(s))
		kit.Convert(nil, d, s, func(n int) int64 { return int64(n) })
		return g.ints(d...)
	}
	return g.op("Shape", v)
}

// filled is a tensor like v with one number everywhere.
func (g *builder) filled(like *ssa.Value, v float64) *ssa.Value {
	return g.op("Expand", g.number(like, v), g.shape(like))
}

// scaled is v times a number.
func (g *builder) scaled(v *ssa.Value, by float64) *ssa.Value {
	return g.op("Mul", v, g.number(v, by))
}

// rank is the rank of v; it must be known.
func (g *builder) rank(v *ssa.Value) int {
	r := v.Type.Rank()
	if r < 0 && g.err == nil {
		g.err = &Error{Node: fmt.Sprintf("value %q", v.Name), Reason: "its rank is not known", Remedy: "bind the shapes of the inputs", Err: ops.ErrUnsupported}
	}
	return max(r, 0)
}
