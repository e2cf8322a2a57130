package ssa

// Compact drops dead values (results of removed nodes, constants that are not read)
// from a graph and its bodies and renumbers values and nodes densely, in their
// present order of ids. Side tables made before are void. It reports whether memory that the graph
// keeps still has nodes or values that it made and has no more.
func (g *Graph) Compact() (keeps bool) {
	g.Walk(func(b *Graph) {
		b.compactValues()
		byID := make([]*Node, b.nextN)
		for _, n := range b.Nodes {
			byID[n.ID] = n
		}
		b.nextN = 0
		for _, n := range byID {
			if n != nil {
				n.ID = b.nextN
				b.nextN++
			}
		}
		keeps = keeps || b.made != len(b.Nodes)+len(b.values)
	})
	return keeps
}

func (g *Graph) compactValues() {
	live := make([]bool, len(g.values))
	mark := func(vs []*Value) {
		for _, v := range vs {
			if v != nil {
				live[v.ID] = true
			}
		}
	}
	mark(g.Params)
	mark(g.Results)
	for _, n := range g.Nodes {
		mark(n.In)
		mark(n.Out)
	}
	kept := make([]*Value, 0, len(g.values))
	for i, v := range g.values {
		if live[i] {
			v.ID = len(kept)
			kept = append(kept, v)
		} else {
			v.Const = nil // the value's memory may be part of a larger piece, which keeps what it points to alive
		}
	}
	g.values = kept
}
