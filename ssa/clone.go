package ssa

import "slices"

// Clone copies a graph and its bodies. Constants and attribute payloads are
// shared. mapping[id] is the copy of the value with that id.
func (g *Graph) Clone() (copied *Graph, mapping []*Value) {
	c := &Graph{Name: g.Name, Doc: g.Doc, nextN: g.nextN}
	mapping = make([]*Value, len(g.values))
	c.values = make([]*Value, len(g.values))
	for i, v := range g.values {
		w := &Value{ID: i, Name: v.Name, Type: v.Type, Const: v.Const, Content: v.Content, DefIndex: v.DefIndex, Doc: v.Doc}
		c.values[i], mapping[i] = w, w
	}
	get := func(v *Value) *Value {
		if v == nil {
			return nil
		}
		return mapping[v.ID]
	}
	for _, p := range g.Params {
		c.Params = append(c.Params, get(p))
	}
	for _, n := range g.Nodes {
		m := *n
		m.Attrs, m.BodyAttr, m.In, m.Out, m.Bodies = slices.Clone(n.Attrs), slices.Clone(n.BodyAttr), nil, nil, nil
		for _, v := range n.In {
			(&m).In = append(m.In, get(v))
		}
		for _, v := range n.Out {
			m.Out = append(m.Out, get(v))
		}
		for _, b := range n.Bodies {
			body, _ := b.Clone()
			m.Bodies = append(m.Bodies, body)
		}
		cn := &m
		for i, v := range cn.In {
			if v != nil {
				v.uses = append(v.uses, Use{cn, i})
			}
		}
		for _, v := range cn.Out {
			if v != nil {
				v.Def = cn
			}
		}
		c.Nodes = append(c.Nodes, cn)
	}
	for _, r := range g.Results {
		c.Results = append(c.Results, get(r))
	}
	return c, mapping
}
