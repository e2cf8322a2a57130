package ops

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ssa"
)

// Operators exist in one form, the newest. A node read from an older operator set is
// brought to it step by step: every rule of the operator that lies above the node's
// version takes it to the version the rule leads to.
//
//	version 7  ──rule Below 9──▶  9  ──rule Below 13──▶  13  = newest (Version 0)
//
// Until then the node keeps its version, so that reads of absent attributes give the
// defaults of that version.

// Upgrade turns a node written for an operator set below a version into the
// form of that version.
type Upgrade struct {
	Below  int
	Source string // the operator's changelog entry the rule comes from
	Apply  func(u *Upgrader, n *ssa.Node) error
}

// Modernize brings a node of a graph, which its version says the operator set of, to
// the newest form; a node that is there already stays as it is. Rules may put nodes
// before it (their types are inferred) and may change the operator. Where a rule
// fails, also since the context has ended, the node keeps its version.
func Modernize(ctx context.Context, g *ssa.Graph, n *ssa.Node) (err error) {
	defer rescue.Into(&err)
	written := n.Version
	dropIgnored(n)
	setOldDefaults(n)
	for rule := nextUpgrade(n); rule != nil; rule = nextUpgrade(n) {
		before := len(g.Nodes)
		err := rule.Apply(&Upgrader{Graph: g, Ctx: ctx}, n)
		if err == nil {
			err = inferInserted(g, n, len(g.Nodes)-before)
		}
		if err != nil {
			version := n.Version
			n.Version = written
			return fmt.Errorf("the form of operator set %d: %w", version, err)
		}
		n.Version = rule.Below
	}
	n.Version = 0
	return nil
}

// Oldest returns the oldest operator-set version in which a node in newest form can be
// written: that of its form, and of every attribute that says something else than
// its absence.
func (o *Op) Oldest(n *ssa.Node) int {
	version := o.Since
	if o.Form != nil {
		version = o.Form(n)
	}
	for i := range n.Attrs {
		if a := &n.Attrs[i]; given(n, a.Name) {
			version = max(version, o.attrSince(a))
		}
	}
	return version
}

// attrSince returns the first version whose schema, as all later ones, takes an
// attribute.
func (o *Op) attrSince(a *ssa.Attr) (first int) {
	for s := o.Attr(a.Name, 0); s != nil && o.CheckAttr(a, max(s.Since, 1)) == nil; s = o.Attr(a.Name, first-1) {
		if first = s.Since; first <= 1 {
			break
		}
	}
	return first
}

// Omitted reports whether a node is written without one of its attributes in an
// operator-set version: the version does not take it, and its absence says the same.
func Omitted(n *ssa.Node, a *ssa.Attr, version int) bool {
	o := Of(n)
	return o != nil && n.Version == 0 && !given(n, a.Name) && o.CheckAttr(a, version) != nil
}

// nextUpgrade returns the first rule that concerns a node, nil if there is none.
func nextUpgrade(n *ssa.Node) *Upgrade {
	o := Of(n)
	if o == nil || n.Version == 0 {
		return nil
	}
	for i := range o.Upgrades {
		if o.Upgrades[i].Below > n.Version {
			return &o.Upgrades[i]
		}
	}
	return nil
}

// inferInserted infers the nodes that a rule put before n, added in all.
func inferInserted(g *ssa.Graph, n *ssa.Node, added int) error {
	at := slices.Index(g.Nodes, n)
	for _, m := range g.Nodes[max(at-added, 0):max(at, 0)] {
		if err := Infer(m); err != nil {
			return err
		}
	}
	return nil
}

// dropIgnored removes attributes that have no effect, and those that are tolerated.
func dropIgnored(n *ssa.Node) {
	o := Of(n)
	n.Attrs = slices.DeleteFunc(n.Attrs, func(a ssa.Attr) bool {
		s := o.Attr(a.Name, n.Version)
		return s != nil && s.Ignored || s == nil && tolerated(a.Name)
	})
}

// setOldDefaults sets absent attributes whose default has changed since.
func setOldDefaults(n *ssa.Node) {
	o := Of(n)
	for i := range o.Attrs {
		old := o.Attrs[i]
		if old.Until == 0 || !old.at(n.Version) || old.Default.Kind == ssa.AttrNone || n.Has(old.Name) {
			continue
		}
		if s := o.Attr(old.Name, 0); s != nil && s.Default.Kind == old.Default.Kind {
			n.SetAttr(old.Default)
		}
	}
}

// Upgrader gives the rules of [Upgrade] and [Downgrade] what they may do to the graph
// around a node.
type Upgrader struct {
	Graph   *ssa.Graph
	Version int             // of the operator set that a downgrade is for; 0 for upgrades
	Ctx     context.Context // ends a rule that takes long; nil: never
}

// Const adds a constant operand source.
func (u *Upgrader) Const(hint string, c *ssa.Constant) *ssa.Value {
	return u.Graph.AddConst(fmt.Sprintf("%s_const_%d", hint, u.Graph.NumValues()), c)
}

// Before inserts a node in newest form ahead of n.
func (u *Upgrader) Before(n *ssa.Node, op string, in []*ssa.Value, numOut int, attrs ...ssa.Attr) *ssa.Node {
	return u.Graph.InsertBefore(n, op, in, numOut, attrs...)
}

// AttrToInput moves an integer-list (or single integer) attribute into operand i
// as an int64 constant of rank 1. Without the attribute nothing changes.
func (u *Upgrader) AttrToInput(n *ssa.Node, attr string, i int) {
	a := n.Attr(attr)
	if a == nil {
		return
	}
	ints := a.Ints
	if a.Kind == ssa.AttrInt {
		ints = []int64{a.I}
	}
	n.DropAttr(attr)
	u.SetOperand(n, i, u.Const(attr, ssa.Int64s(ints...)))
}

// SetOperand makes v operand i of a node, with absent operands before it if it has
// fewer.
func (u *Upgrader) SetOperand(n *ssa.Node, i int, v *ssa.Value) {
	for len(n.In) <= i {
		n.AddInput(nil)
	}
	n.SetInput(i, v)
}

// InputToAttr moves operand i, a constant list of integers (or one), into an attribute, and drops
// the operands from i on. Without the operand nothing changes.
func (u *Upgrader) InputToAttr(n *ssa.Node, i int, attr string) (err error) {
	defer rescue.Into(&err)
	if n.Input(i) == nil {
		n.TruncateInputs(min(i, len(n.In)))
		return nil
	}
	v, ok := ConstInts(n, i)
	if !ok {
		return fmt.Errorf("operand %d is no constant, as attribute %s must be", i, attr)
	}
	if s := Of(n).Attr(attr, u.Version); s == nil || s.Kind != ssa.AttrInt {
		n.SetAttr(ssa.IntsAttr(attr, v...))
	} else if len(v) == 1 {
		n.SetAttr(ssa.IntAttr(attr, v[0]))
	} else {
		return fmt.Errorf("operand %d has %d elements, attribute %s holds one", i, len(v), attr)
	}
	n.TruncateInputs(i)
	return nil
}

// Sweep removes those of some nodes whose results nothing reads.
func (u *Upgrader) Sweep(nodes ...*ssa.Node) {
	for _, n := range nodes {
		read := func(v *ssa.Value) bool { return v != nil && (len(v.Uses()) > 0 || u.Graph.IsResult(v)) }
		if n != nil && !slices.ContainsFunc(n.Out, read) {
			u.Graph.RemoveNodes(func(m *ssa.Node) bool { return m == n })
		}
	}
}
