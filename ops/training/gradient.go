package training

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/gradient"
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
// The rules are those of package gradient.
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
	y, err := at(u.Graph, n, y, given)
	if err != nil {
		return err
	}
	ctx := u.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	r := gradient.Reversal{Graph: u.Graph, Y: y, By: n.In[:len(xs)], Held: n.In[len(xs):], Before: n}
	results, err := r.Append(ctx)
	if err != nil {
		return err
	}
	for i, v := range results {
		if v == nil {
			results[i] = zeros(u, n, n.In[i])
		}
	}
	giveResults(u.Graph, n, results[:len(n.Out)])
	return nil
}

// zeros is a tensor like v, ahead of n.
func zeros(u *ops.Upgrader, n *ssa.Node, v *ssa.Value) *ssa.Value {
	dt := v.Type.DType
	if dt == ndarray.Undefined {
		dt = ndarray.Float32
	}
	shape := u.Before(n, "Shape", []*ssa.Value{v}, 1).Out[0]
	return u.Before(n, "Expand", []*ssa.Value{u.Const("zero", ssa.NewConstant(ndarray.Must(dt))), shape}, 1).Out[0]
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

// at returns y as a function of the given values: where one of them stands for another value,
// the nodes that read it are copied ahead of mark, and given is completed with the copies' results.
func at(g *ssa.Graph, mark *ssa.Node, y *ssa.Value, given map[*ssa.Value]*ssa.Value) (*ssa.Value, error) {
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
	for _, n := range slices.Clone(g.Nodes) {
		if !needed[n] {
			continue
		}
		if err := substitute(g, mark, n, given); err != nil {
			return nil, err
		}
	}
	if v := given[y]; v != nil {
		y = v
	}
	return y, nil
}

// substitute copies a node that reads a value which another one stands for.
func substitute(g *ssa.Graph, mark, n *ssa.Node, given map[*ssa.Value]*ssa.Value) error {
	in, changed := make([]*ssa.Value, len(n.In)), false
	for i, v := range n.In {
		in[i] = v
		if w := given[v]; v != nil && w != nil && w != v {
			in[i], changed = w, true
		}
	}
	if !changed {
		return nil
	}
	m := g.InsertBefore(mark, n.Op, in, len(n.Out), n.Attrs...)
	copyRest(m, n)
	for i, v := range n.Out {
		if v != nil {
			given[v] = m.Out[i]
		}
	}
	return ops.Infer(m)
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
	kit.Check(expandGradient(&ops.Upgrader{Graph: g, Ctx: c.Ctx}, m))
	ctx := c.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	kit.Check(ops.InferGraphContext(ctx, g))
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
