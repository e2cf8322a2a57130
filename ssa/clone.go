package ssa

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
	all := func(vs []*Value) (out []*Value) {
		for _, v := range vs {
			out = append(out, get(v))
		}
		return out
	}
	c.Params, c.Results = all(g.Params), all(g.Results)
	for _, n := range g.Nodes {
		m := n.copy()
		for _, v := range n.In {
			m.AddInput(get(v))
		}
		m.Out = all(n.Out)
		for _, b := range n.Bodies {
			body, _ := b.Clone()
			m.Bodies = append(m.Bodies, body)
		}
		for _, v := range m.Out {
			if v != nil {
				v.Def = m
			}
		}
		c.Nodes = append(c.Nodes, m)
	}
	return c, mapping
}
