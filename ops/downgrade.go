package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ssa"
)

// A file keeps the operator set of its model, so a node is written in the form of that set: the
// operator's rules above that version are applied to it, the highest first.
//
//	newest = 13  ──rule Below 13──▶  12  ──rule Below 9──▶  8  ──▶ version 7
//
// Not every node has every form: rules say what is missing.

// Downgrade turns a node into the form that operator sets below a version have: the
// inverse of the [Upgrade] with the same Below.
type Downgrade struct {
	Below int
	// Form returns the oldest operator-set version that takes the node in the form that
	// the rule made; nil means version 1. It accounts for element types, as [Op.Form] does.
	Form func(n *ssa.Node) int
	// Apply changes the node, or says why no older operator set can write it. Rules may put
	// nodes before it. nil: only Form differs.
	Apply func(u *Upgrader, n *ssa.Node) error
}

// DowngradeTo brings a node in newest form to the form of an operator-set version, which
// [ssa.Node.Version] then says; a node that the version takes as it is stays. Types of
// values do not change. After an error, which says why there is no such form, the graph
// may hold a part of the changes.
func DowngradeTo(g *ssa.Graph, n *ssa.Node, version int) (err error) {
	defer rescue.Into(&err)
	o := Of(n)
	if o == nil || n.Version > 0 || o.Oldest(n) <= version {
		return nil
	}
	n.Attrs = slices.DeleteFunc(n.Attrs, func(a ssa.Attr) bool { return Omitted(n, &a, version) })
	form := o.Oldest(n)
	for below := int(^uint(0) >> 1); ; {
		rule := nextDowngrade(n, below, version)
		if rule == nil {
			break
		}
		n.Version = rule.Below
		if err := applyDowngrade(rule, g, n, version); err != nil {
			return err
		}
		below, form, n.Version = rule.Below, 1, rule.Below-1
		if rule.Form != nil {
			form = rule.Form(n)
		}
	}
	if n.Version = version; form > version {
		return fmt.Errorf("operator set %d has no form of it", version)
	}
	setNewDefaults(n, version)
	return Of(n).CheckAttrs(n)
}

func applyDowngrade(rule *Downgrade, g *ssa.Graph, n *ssa.Node, version int) error {
	if rule.Apply == nil {
		return nil
	}
	before := len(g.Nodes)
	if err := rule.Apply(&Upgrader{Graph: g, Version: version}, n); err != nil {
		return fmt.Errorf("the form of operator sets below %d: %w", rule.Below, err)
	}
	return inferInserted(g, n, max(len(g.Nodes)-before, 0))
}

// nextDowngrade returns the highest rule of a node's operator between a version and the rule applied last.
func nextDowngrade(n *ssa.Node, below, version int) (best *Downgrade) {
	list := Of(n).Downgrades
	for i := range list {
		if r := &list[i]; r.Below < below && r.Below > version && (best == nil || r.Below > best.Below) {
			best = r
		}
	}
	return best
}

// setNewDefaults sets absent attributes whose default was another one in an older version.
func setNewDefaults(n *ssa.Node, version int) {
	o := Of(n)
	for i := range o.Attrs {
		now := o.Attrs[i]
		if !now.at(0) || now.Default.Kind == ssa.AttrNone || n.Has(now.Name) {
			continue
		}
		old := o.Attr(now.Name, version)
		if old != nil && old.Kind == now.Kind && !old.Default.EqualValue(now.Default) {
			n.SetAttr(now.Default)
		}
	}
}

// FitsIn reports whether a node in newest form, of any graph or none, can be written in
// an operator-set version.
func FitsIn(n *ssa.Node, version int) (fits bool) {
	o := Of(n)
	if o == nil || o.Oldest(n) <= version {
		return true
	}
	if len(o.Downgrades) == 0 {
		return false
	}
	g := ssa.NewGraph("")
	in := make([]*ssa.Value, len(n.In))
	for i, v := range n.In {
		switch {
		case v == nil:
		case v.Const != nil:
			in[i] = g.AddConst(v.Name, v.Const)
		default:
			in[i] = g.AddParam(v.Name, v.Type)
			in[i].Content = v.Content
		}
	}
	m := g.NewNode(n.Op, in, len(n.Out), n.Attrs...)
	m.Domain, m.Bodies, m.BodyAttr, m.Captures = n.Domain, n.Bodies, n.BodyAttr, n.Captures
	for i, v := range n.Out {
		if v != nil {
			m.Out[i].Type = v.Type
		}
	}
	g.Results = m.Out
	return DowngradeTo(g, m, version) == nil
}
