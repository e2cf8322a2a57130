package training

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Gradient is the derivative of one tensor of the graph by others:
// https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Gradient.html
//
//	outputs[i] = d sum(y) / d xs[i]
//
// where attributes xs, zs and y name tensors of the graph around the node and
// the operands are the values that xs and zs take. It never survives the import:
// reverse-mode differentiation replaces it by ordinary nodes, so everything that
// holds for those (planning, fusing, exporting, differentiating again) holds for
// derivatives.
//
//	x ──▶ f ──▶ h ──▶ g ──▶ y          values, in order
//	dx ◀─ f' ◀─ dh ◀─ g' ◀─ dy = 1     their adjoints, in reverse order
//
// A value read by several nodes gets the sum of what each sends back. The rules
// of the operators are in the files gradient_*.go.
//
// Source: "Evaluating Derivatives" (SIAM 2008), section 3.2.
var Gradient = ops.Op{
	Domain: trainingDomain, Name: "Gradient", Since: 1, Doc: "outputs[i] = d sum(y) / d xs[i]",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: -1,
	Attrs: []*ops.AttrSpec{ops.StringsAttr("xs").Mandatory(), ops.StringsAttr("zs"), ops.StrAttr("y").Mandatory()},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		out := make([]ops.Inferred, len(n.Out))
		for i := range out {
			out[i].Type = ops.InType(n, i)
		}
		return out
	}),
	Eval:     kit.Kernel(evalGradient),
	Upgrades: []ops.Upgrade{{Below: kit.Always, Source: "https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Gradient.html", Apply: expandGradient}},
}

// gradient builds the derivative of one Gradient node.
type gradient struct {
	graph  *ssa.Graph
	before *ssa.Node                 // new nodes go ahead of this one; nil: to the end
	adj    map[*ssa.Value]*ssa.Value // adjoints found so far
	active map[*ssa.Value]bool       // values that depend on xs
	err    error                     // the first failure while building
}

// gradientRule returns the adjoints of a node's operands (nil for none) from
// those of its results (nil where a result does not reach y).
type gradientRule func(g *gradient, n *ssa.Node, dy []*ssa.Value) []*ssa.Value

// expandGradient replaces a Gradient node by the nodes that compute it.
func expandGradient(u *ops.Upgrader, n *ssa.Node) error {
	xs, zs := ops.Strings(n, "xs"), ops.Strings(n, "zs")
	if len(n.In) != len(xs)+len(zs) || len(n.Out) > len(xs) {
		return fmt.Errorf("%d operands and %d results for %d xs and %d zs", len(n.In), len(n.Out), len(xs), len(zs))
	}
	given := map[*ssa.Value]*ssa.Value{}
	for i, name := range slices.Concat(xs, zs) {
		v := valueNamed(u.Graph, name)
		if v == nil || n.In[i] == nil {
			return fmt.Errorf("no tensor %q around the node", name)
		}
		given[v] = n.In[i]
	}
	y := valueNamed(u.Graph, ops.Str(n, "y"))
	if y == nil {
		return fmt.Errorf("no tensor %q around the node", ops.Str(n, "y"))
	}
	g := &gradient{graph: u.Graph, before: n, adj: map[*ssa.Value]*ssa.Value{}, active: map[*ssa.Value]bool{}}
	path := g.forward(y, given)
	if v, ok := given[y]; ok {
		y = v
	}
	for _, v := range n.In[:len(xs)] {
		g.active[v] = true
	}
	g.markActive(path)
	g.adj[y] = g.filled(y, 1)
	g.reverse(path)
	results := make([]*ssa.Value, len(n.Out))
	for i := range results {
		if results[i] = g.adj[n.In[i]]; results[i] == nil {
			results[i] = g.filled(n.In[i], 0)
		}
	}
	if g.err != nil {
		return g.err
	}
	giveResults(u.Graph, n, results)
	return nil
}

// valueNamed finds a value of the graph by its name.
func valueNamed(g *ssa.Graph, name string) *ssa.Value {
	values := g.Values()
	if i := slices.IndexFunc(values, func(v *ssa.Value) bool { return v.Name == name }); i >= 0 {
		return values[i]
	}
	return nil
}

// giveResults makes the results of n those of Identity nodes on the given values;
// n itself becomes the last of them.
func giveResults(g *ssa.Graph, n *ssa.Node, values []*ssa.Value) {
	last := len(n.Out) - 1
	for last > 0 && n.Out[last] == nil {
		last--
	}
	for i, v := range n.Out {
		if v == nil || i == last {
			continue
		}
		m := g.InsertBefore(n, "Identity", []*ssa.Value{values[i]}, 0)
		m.Out = []*ssa.Value{v}
		v.Def, v.DefIndex = m, 0
	}
	out := n.Out[last]
	n.Domain, n.Op, n.Attrs, n.Out = "", "Identity", nil, []*ssa.Value{out}
	if out != nil {
		out.DefIndex = 0
	}
	n.SetInputs(values[last : last+1])
}

// forward returns the nodes between the given values and y in order. Where a
// given value stands for another one, the nodes that read it are copied, and
// given is completed with the copies of their results.
func (g *gradient) forward(y *ssa.Value, given map[*ssa.Value]*ssa.Value) []*ssa.Node {
	needed := map[*ssa.Node]bool{}
	var visit func(v *ssa.Value)
	visit = func(v *ssa.Value) {
		if v == nil || v.Def == nil || given[v] != nil || needed[v.Def] {
			return
		}
		needed[v.Def] = true
		for _, in := range v.Def.In {
			visit(in)
		}
	}
	visit(y)
	var path []*ssa.Node
	for _, n := range slices.Clone(g.graph.Nodes) {
		if needed[n] {
			path = append(path, g.substituted(n, given))
		}
	}
	return path
}

// substituted returns the node itself, or a copy if it reads a value that another
// one stands for.
func (g *gradient) substituted(n *ssa.Node, given map[*ssa.Value]*ssa.Value) *ssa.Node {
	in, changed := make([]*ssa.Value, len(n.In)), false
	for i, v := range n.In {
		in[i] = v
		if w := given[v]; v != nil && w != nil && w != v {
			in[i], changed = w, true
		}
	}
	if !changed {
		return n
	}
	m := g.graph.InsertBefore(g.before, n.Op, in, len(n.Out), n.Attrs...)
	copyRest(m, n)
	g.infer(m)
	for i, v := range n.Out {
		if v != nil {
			given[v] = m.Out[i]
		}
	}
	return m
}

// copyRest copies to m what a node holds besides operator, operands, results and
// attributes.
func copyRest(m, n *ssa.Node) {
	m.Domain, m.Opaque, m.Captures, m.BodyAttr = n.Domain, n.Opaque, n.Captures, n.BodyAttr
	for _, b := range n.Bodies {
		c, _ := b.Clone()
		m.Bodies = append(m.Bodies, c)
	}
}

// markActive marks what depends on xs through values that can vary smoothly.
func (g *gradient) markActive(path []*ssa.Node) {
	for _, n := range path {
		depends := g.wantsAny(n)
		for _, v := range n.Out {
			if v != nil && depends && (v.Type.DType.IsFloat() || v.Type.DType == ndarray.Undefined) {
				g.active[v] = true
			}
		}
	}
}

// reverse walks the nodes backwards and sends adjoints to their operands.
func (g *gradient) reverse(path []*ssa.Node) {
	for i := len(path) - 1; i >= 0 && g.err == nil; i-- {
		n := path[i]
		dy, reached := make([]*ssa.Value, len(n.Out)), false
		for k, v := range n.Out {
			if v != nil && g.active[v] && g.adj[v] != nil {
				dy[k], reached = g.adj[v], true
			}
		}
		if !reached || !g.wantsAny(n) {
			continue
		}
		rule := gradientRuleOf(n)
		if rule == nil {
			g.fail(n, ops.ErrUnsupported)
			return
		}
		for k, d := range rule(g, n, dy) {
			if d != nil && g.wants(n, k) {
				g.send(n.In[k], d)
			}
		}
	}
}

// wants reports whether operand i of n needs an adjoint.
func (g *gradient) wants(n *ssa.Node, i int) bool {
	v := n.Input(i)
	return v != nil && g.active[v]
}

func (g *gradient) wantsAny(n *ssa.Node) bool {
	return slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return v != nil && g.active[v] })
}

// send adds d to the adjoint of v.
func (g *gradient) send(v, d *ssa.Value) {
	if old := g.adj[v]; old != nil {
		d = g.op("Add", old, d)
	}
	g.adj[v] = d
}

// fail keeps the first failure.
func (g *gradient) fail(n *ssa.Node, err error) {
	if g.err == nil {
		g.err = fmt.Errorf("derivative of %s: %w", n, err)
	}
}

func (g *gradient) infer(n *ssa.Node) {
	if err := ops.Infer(n); err != nil && g.err == nil {
		g.err = err
	}
}

// node adds a node and infers its types.
func (g *gradient) node(op string, in []*ssa.Value, numOut int, attrs ...ssa.Attr) *ssa.Node {
	var n *ssa.Node
	if g.before == nil {
		n = g.graph.NewNode(op, in, numOut, attrs...)
	} else {
		n = g.graph.InsertBefore(g.before, op, in, numOut, attrs...)
	}
	g.infer(n)
	return n
}

// op adds a node of one result without attributes.
func (g *gradient) op(op string, in ...*ssa.Value) *ssa.Value { return g.node(op, in, 1).Out[0] }

// with adds a node of one result with attributes.
func (g *gradient) with(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return g.node(op, in, 1, attrs...).Out[0]
}

func (g *gradient) constant(c *ssa.Constant) *ssa.Value {
	return g.graph.AddConst(fmt.Sprintf("gradient_const_%d", g.graph.NumValues()), c)
}

// ints adds a list of integers.
func (g *gradient) ints(v ...int64) *ssa.Value { return g.constant(ssa.Int64s(v...)) }

// number adds a scalar of the element type of like.
func (g *gradient) number(like *ssa.Value, v float64) *ssa.Value {
	dt := like.Type.DType
	if dt == ndarray.Undefined {
		dt = ndarray.Float32
	}
	a := ndarray.Must(dt)
	a.SetFloat(0, v)
	return g.constant(ssa.NewConstant(a))
}

// shape is the dimensions of v as a list.
func (g *gradient) shape(v *ssa.Value) *ssa.Value {
	if s, ok := v.Type.Static(); ok {
		d := make([]int64, len(s))
		kit.Convert(nil, d, s, func(n int) int64 { return int64(n) })
		return g.ints(d...)
	}
	return g.op("Shape", v)
}

// filled is a tensor like v with one number everywhere.
func (g *gradient) filled(like *ssa.Value, v float64) *ssa.Value {
	return g.op("Expand", g.number(like, v), g.shape(like))
}

// scaled is v times a number.
func (g *gradient) scaled(v *ssa.Value, by float64) *ssa.Value {
	return g.op("Mul", v, g.number(v, by))
}

// rank is the rank of v; it must be known.
func (g *gradient) rank(v *ssa.Value) int {
	r := v.Type.Rank()
	if r < 0 && g.err == nil {
		g.err = fmt.Errorf("the rank of %q must be known for its derivative", v.Name)
	}
	return max(r, 0)
}

// evalGradient differentiates and runs a node that was not expanded: the nodes
// between its operands and y are copied to a graph of their own.
func evalGradient(c *ops.Call) {
	n, names := c.Node, slices.Concat(ops.Strings(c.Node, "xs"), ops.Strings(c.Node, "zs"))
	if len(names) != len(n.In) {
		kit.Failf("%d operands for %d xs and zs", len(n.In), len(names))
	}
	g := ssa.NewGraph("gradient")
	made := map[*ssa.Value]*ssa.Value{}
	for i, v := range n.In {
		if v == nil || v.Name != names[i] {
			kit.Failf("operand %d is not %q itself: the node must be expanded before it runs", i, names[i])
		}
		made[v] = g.AddParam(v.Name, v.Type)
	}
	y := downstream(n.In, ops.Str(n, "y"))
	if y == nil {
		kit.Failf("%q does not depend on the operands", ops.Str(n, "y"))
	}
	copyUpstream(g, y, made)
	m := g.NewNode(n.Op, g.Params, len(n.Out), n.Attrs...)
	m.Domain = n.Domain
	g.Results = append(g.Results, m.Out...)
	kit.Check(expandGradient(&ops.Upgrader{Graph: g}, m))
	kit.Check(ops.InferGraph(g))
	ctx := c.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	out := kit.Try(ops.Interpret(ctx, g, c.In, nil))
	for i, v := range out {
		kit.GiveOut(c, i, v)
	}
}

// downstream finds a value by name among those that depend on from.
func downstream(from []*ssa.Value, name string) *ssa.Value {
	seen := map[*ssa.Value]bool{}
	queue := slices.Clone(from)
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		if v == nil || seen[v] {
			continue
		}
		seen[v] = true
		if v.Name == name {
			return v
		}
		for _, u := range v.Uses() {
			queue = append(queue, u.Node.Out...)
		}
	}
	return nil
}

// copyUpstream copies what computes v into g; made holds the values that exist
// there already.
func copyUpstream(g *ssa.Graph, v *ssa.Value, made map[*ssa.Value]*ssa.Value) {
	if v == nil || made[v] != nil {
		return
	}
	if v.Const != nil {
		made[v] = g.AddConst(v.Name, v.Const)
		return
	}
	if v.Def == nil {
		kit.Failf("%q is neither in xs nor in zs", v.Name)
	}
	n := v.Def
	in := make([]*ssa.Value, len(n.In))
	for i, x := range n.In {
		copyUpstream(g, x, made)
		if x != nil {
			in[i] = made[x]
		}
	}
	m := g.NewNode(n.Op, in, 0, n.Attrs...)
	copyRest(m, n)
	for _, o := range n.Out {
		if o == nil {
			g.AddOutput(m, "")
			continue
		}
		made[o] = g.AddOutput(m, o.Name)
		made[o].Type = o.Type
	}
}
