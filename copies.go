package berth

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// Copies of graphs share the shapes of types and the lists of attributes, which nothing in berth changes. Callers may change what they
// get, a dimension of an input, say: they get copies of these, too.

// ownPayloads replaces what the copy of a graph shares with the original, constants aside.
func ownPayloads(g *ssa.Graph) {
	g.Walk(func(b *ssa.Graph) {
		for _, v := range b.Values() {
			if v != nil {
				v.Type = ownType(v.Type)
			}
		}
		for _, n := range b.Nodes {
			for i := range n.Attrs {
				a := &n.Attrs[i]
				a.Ints, a.Floats, a.Strings = slices.Clone(a.Ints), slices.Clone(a.Floats), slices.Clone(a.Strings)
				a.Tensors, a.Type = slices.Clone(a.Tensors), ownType(a.Type)
			}
		}
	})
}

// ownType copies a type with its shapes.
func ownType(t ssa.Type) ssa.Type {
	t.Shape = slices.Clone(t.Shape)
	if t.Elem != nil {
		elem := ownType(*t.Elem)
		t.Elem = &elem
	}
	return t
}
