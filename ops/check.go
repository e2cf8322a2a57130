package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ssa"
)

// Check is [ssa.Check] plus types: every node of the graph and its bodies is
// inferred again on a copy, and what the rules say must not contradict the types
// and contents stored on the values. Stored facts may say more than the rules
// know (declarations in the file, facts kept from before a rewrite).
//
// An error is always a bug of the code that changed the graph last: an
// *[ssa.CheckError], or a *[NodeError] of stage "check".
func Check(g *ssa.Graph) (err error) {
	defer rescue.Into(&err)
	if err := ssa.Check(g); err != nil {
		return err
	}
	inferred, mapping := g.Clone()
	if err := inferAgain(inferred); err != nil {
		return err
	}
	return compareTypes(g, inferred, mapping)
}

func inferAgain(g *ssa.Graph) error {
	err := InferGraph(g)
	var ne *NodeError
	if errors.As(err, &ne) {
		ne.Stage = "check"
	}
	return err
}

// compareTypes compares a graph with its freshly inferred clone. The clone of a
// body is found at the same place of the cloned node, its values by id.
func compareTypes(g, inferred *ssa.Graph, mapping []*ssa.Value) error {
	for k, n := range g.Nodes {
		if err := checkLayout(n); err != nil {
			return err
		}
		for i, v := range n.Out {
			if v == nil {
				continue
			}
			if problem := contradiction(v, mapping[v.ID]); problem != "" {
				return AtNode("check", n, fmt.Errorf("result %d, %s: %s", i, ssa.ValueName(v), problem))
			}
		}
		for i, b := range n.Bodies {
			c := inferred.Nodes[k].Bodies[i]
			if err := compareTypes(b, c, c.Values()); err != nil {
				return AtNode("check", n, err)
			}
		}
	}
	return nil
}

// contradiction compares stored with inferred facts of one value.
func contradiction(stored, inferred *ssa.Value) string {
	if _, ok := stored.Type.Refine(inferred.Type); !ok {
		return fmt.Sprintf("is stored as %s, its rule says %s", stored.Type, inferred.Type)
	}
	if stored.Content == nil || inferred.Content == nil {
		return ""
	}
	if len(stored.Content) != len(inferred.Content) {
		return fmt.Sprintf("has %d stored and %d inferred elements", len(stored.Content), len(inferred.Content))
	}
	for i, d := range stored.Content {
		a, okA := d.Const()
		b, okB := inferred.Content[i].Const()
		if okA && okB && a != b {
			return fmt.Sprintf("element %d is stored as %d, its rule says %d", i, a, b)
		}
	}
	return ""
}

// CheckBranches reports the first node in a branch of an If whose operands the operator does not accept. berth tolerates such
// nodes, since a branch for other shapes may never run; other tools infer every branch and refuse the whole model. The
// types of the graph are not changed. An error is a [*NodeError] of stage "branches", that of the context, or that of its budget,
// which the copy that is inferred asks.
func CheckBranches(ctx context.Context, g *ssa.Graph) (err error) {
	defer rescue.Into(&err)
	c, _, err := g.CloneContext(ctx)
	if err == nil {
		err = InferGraphContext(ctx, c)
	}
	if err != nil {
		return err
	}
	c.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			if err = cmp.Or(err, ctx.Err()); err == nil {
				err = Incompatible(n)
			}
		}
	})
	var ne *NodeError
	if errors.As(err, &ne) {
		ne.Stage = "branches"
	}
	return err
}

// Incompatible is the error of a node in a branch whose operands the operator does not accept, nil for other nodes. After
// inference the results of such a node have no type.
func Incompatible(n *ssa.Node) (err error) {
	defer rescue.Into(&err)
	typed := func(v *ssa.Value) bool { return v != nil && v.Type.Kind != ssa.KindUnknown }
	if n.Opaque || len(n.Bodies) > 0 || slices.ContainsFunc(n.Out, typed) {
		return nil
	}
	return Infer(n)
}
