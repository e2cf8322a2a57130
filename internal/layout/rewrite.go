package layout

import (
	"slices"

	"github.com/berth-onnx/berth/internal/names"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// rewriter makes the nodes of the chosen layouts.
type rewriter struct {
	*problem
	nodes   []*ssa.Node               // the new order
	dead    map[*ssa.Node]bool        // replaced
	lies    map[*ssa.Value]*ssa.Value // values of replaced nodes, blocked
	plain   map[*ssa.Value]*ssa.Value // the same, or results that stay plain, in the plain layout
	inBlock map[*ssa.Value]*ssa.Value // plain values, converted
	names   names.Set                 // of all values
	now     []ssa.NodeName            // of the node that is looked at
	made    int
}

// rewrite replaces the nodes and returns how many.
func (p *problem) rewrite() (int, error) {
	r := &rewriter{problem: p, dead: map[*ssa.Node]bool{}, lies: map[*ssa.Value]*ssa.Value{}, plain: map[*ssa.Value]*ssa.Value{}, inBlock: map[*ssa.Value]*ssa.Value{}, names: names.Set{}}
	for _, v := range p.g.Values() {
		r.names[v.Name] = 0
	}
	for _, n := range slices.Clone(p.g.Nodes) {
		r.now = n.Names()
		if err := r.node(n); err != nil {
			return 0, err
		}
	}
	for _, v := range slices.Clone(p.g.Results) {
		if v.Def == nil || !r.dead[v.Def] || !p.g.IsResult(v) {
			continue
		}
		r.now = v.Def.Names()
		w, err := r.plainOf(v)
		if err != nil {
			return 0, err
		}
		w.Name, v.Name = v.Name, w.Name
		p.g.ReplaceResult(v, w)
	}
	for n := range r.dead {
		n.TruncateInputs(0)
	}
	p.g.Nodes = r.nodes
	return r.made, nil
}

// node keeps a node or makes another in its place.
func (r *rewriter) node(n *ssa.Node) error {
	role := r.roles[n.ID]
	if role == nil || !r.isBlocked(role.in) && !r.isBlocked(role.out) {
		return r.keep(n)
	}
	r.made++
	if role.op == "" {
		return r.same(n, role)
	}
	return r.internal(n, role)
}

// keep lets a node read plain values.
func (r *rewriter) keep(n *ssa.Node) error {
	for i, v := range n.In {
		if v == nil || v.Def == nil || !r.dead[v.Def] {
			continue
		}
		w, err := r.plainOf(v)
		if err != nil {
			return err
		}
		n.SetInput(i, w)
	}
	r.nodes = append(r.nodes, n)
	return nil
}

// operand is an operand in the layout of a variable.
func (r *rewriter) operand(v *ssa.Value, layout int) (*ssa.Value, error) {
	if v != nil && r.isBlocked(layout) {
		return r.blockedOf(v)
	}
	return r.plainOf(v)
}

// same makes the same node with blocked operands.
func (r *rewriter) same(n *ssa.Node, role *role) error {
	in := slices.Clone(n.In)
	for _, i := range role.images {
		v, err := r.blockedOf(in[i])
		if err != nil {
			return err
		}
		in[i] = v
	}
	attrs := slices.Clone(n.Attrs)
	if n.Op == "Concat" {
		attrs = []ssa.Attr{ssa.IntAttr("axis", 1)}
	}
	return r.replace(n, n.Domain, n.Op, in, attrs, true)
}

// internal makes a node of the internal domain.
func (r *rewriter) internal(n *ssa.Node, role *role) error {
	in := slices.Clone(n.In)
	if (n.Op == "Mul" || n.Op == "Add") && role.images[0] == 1 {
		in[0], in[1] = in[1], in[0]
	}
	for i, v := range in {
		layout := plainSide
		switch {
		case i == 0:
			layout = role.in
		case i == 3 && role.residue:
			layout = role.out
		}
		w, err := r.operand(v, layout)
		if err != nil {
			return err
		}
		in[i] = w
	}
	attrs, out := slices.Clone(n.Attrs), r.isBlocked(role.out)
	if out {
		attrs = append(attrs, ssa.IntAttr("block", int64(r.blockOf(n.Out[0]))))
	}
	return r.replace(n, ops.Private, role.op, in, attrs, out)
}

// replace puts a node in the place of another. The result takes over the name.
func (r *rewriter) replace(n *ssa.Node, domain, op string, in []*ssa.Value, attrs []ssa.Attr, blocked bool) error {
	m, err := r.add(domain, op, in, attrs, n.Name, n.Out[0])
	if err != nil {
		return err
	}
	if m.Sources = n.Sources; domain == ops.Private {
		m.Sources = n.Names()
	}
	r.dead[n] = true
	y := m.Out[0]
	if !blocked {
		r.plain[n.Out[0]] = y
		y.Type, _ = y.Type.Refine(n.Out[0].Type)
		return nil
	}
	r.lies[n.Out[0]] = y
	if t, ok := n.Out[0].Type.Blocked(r.blockOf(n.Out[0])); ok {
		y.Type, _ = y.Type.Refine(t)
	}
	return nil
}

// add adds a node with one result, which is named after a value.
func (r *rewriter) add(domain, op string, in []*ssa.Value, attrs []ssa.Attr, name string, after *ssa.Value) (*ssa.Node, error) {
	m := r.g.NewNode(op, in, 1, attrs...)
	m.Domain, m.Name, m.Sources = domain, name, r.now
	m.Out[0].Name = r.names.Fresh(after.Name)
	r.nodes = append(r.nodes, m)
	return m, ops.Infer(m)
}

// blockedOf is a value in blocks.
func (r *rewriter) blockedOf(v *ssa.Value) (*ssa.Value, error) {
	if w := r.lies[v]; w != nil {
		return w, nil
	}
	if w := r.inBlock[v]; w != nil {
		return w, nil
	}
	x, err := r.plainOf(v)
	if err != nil {
		return nil, err
	}
	m, err := r.add(ops.Private, "ToBlocked", []*ssa.Value{x}, []ssa.Attr{ssa.IntAttr("block", int64(r.blockOf(v)))}, "", v)
	r.inBlock[v] = m.Out[0]
	return m.Out[0], err
}

// plainOf is a value in the plain layout.
func (r *rewriter) plainOf(v *ssa.Value) (*ssa.Value, error) {
	if w := r.plain[v]; w != nil || v == nil {
		return w, nil
	}
	if r.lies[v] == nil {
		return v, nil
	}
	m, err := r.add(ops.Private, "FromBlocked", []*ssa.Value{r.lies[v]}, nil, "", v)
	r.plain[v] = m.Out[0]
	m.Out[0].Type, _ = m.Out[0].Type.Refine(v.Type)
	return m.Out[0], err
}
