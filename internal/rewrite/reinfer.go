package rewrite

import (
	"context"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// reinfer infers the types of a graph and keeps for every value the more precise of the
// inferred and the known type: inference lacks facts that only the file declared (shapes
// that depend on data), and a value never changes its meaning, so a known fact stays true.
func reinfer(ctx context.Context, g *ssa.Graph) error {
	for _, n := range g.Nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := reinferNode(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// factsPerLook is how many facts are merged between two looks at a context.
const factsPerLook = 4096

func reinferNode(ctx context.Context, n *ssa.Node) error {
	old := rememberFacts(ctx, nil, n)
	if err := ops.InferContext(ctx, n); err != nil {
		return err
	}
	for i, f := range old {
		if i%factsPerLook == factsPerLook-1 && ctx.Err() != nil {
			return ctx.Err()
		}
		f.restore()
	}
	return nil
}

// oldFact is what was known of a value.
type oldFact struct {
	v       *ssa.Value
	t       ssa.Type
	content []ssa.Dim
}

// rememberFacts lists the facts of a node's results and, inside its bodies, of
// every value a node defines. Parameters of bodies are not among them: a pass may have
// given the node another operand for them. Once the context has ended the list is of no use.
func rememberFacts(ctx context.Context, out []oldFact, n *ssa.Node) []oldFact {
	for i, v := range n.Out {
		if i%factsPerLook == factsPerLook-1 && ctx.Err() != nil {
			return out
		}
		if v != nil {
			out = append(out, oldFact{v, v.Type, v.Content})
		}
	}
	for _, b := range n.Bodies {
		for _, m := range b.Nodes {
			if ctx.Err() != nil {
				return out
			}
			out = rememberFacts(ctx, out, m)
		}
	}
	return out
}

// restore merges the remembered fact into what the rule says now.
func (f oldFact) restore() {
	if t, ok := f.v.Type.Refine(f.t); ok {
		f.v.Type = t
	}
	if f.v.Content == nil {
		f.v.Content = f.content
		return
	}
	if len(f.v.Content) != len(f.content) {
		return
	}
	merged := make([]ssa.Dim, len(f.content))
	for i, d := range f.v.Content {
		merged[i] = d
		_, inferred := d.Const()
		_, known := f.content[i].Const()
		if !inferred && (known || !d.Known()) {
			merged[i] = f.content[i]
		}
	}
	f.v.Content = merged
}
