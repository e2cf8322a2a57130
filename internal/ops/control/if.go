package control

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// If runs one of two bodies: https://onnx.ai/onnx/operators/onnx__If.html
var If = ops.Op{
	Name: "If", Since: 25, Form: kit.Since(13), Doc: "out = cond ? then_branch() : else_branch()",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: -1,
	Attrs: []*ops.AttrSpec{ops.GraphAttr("then_branch").Mandatory(), ops.GraphAttr("else_branch").Mandatory()},
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.Branches)}, InferBodies: kit.BodyRule(inferIf), Eval: kit.Kernel(evalIf),

	Downgrades: []ops.Downgrade{{Below: 13, Form: func(n *ssa.Node) int {
		if form := tensorsOnly[0].Form(n); form > 11 || branchesAgree(n) {
			return form
		}
		return 11 // before that, branches gave results of one shape
	}}},
}

// branchesAgree reports that no result has ranks or lengths in the branches that exclude each other.
func branchesAgree(n *ssa.Node) bool {
	then, other := n.Body("then_branch"), n.Body("else_branch")
	if then == nil || other == nil {
		return true
	}
	for i := range min(len(then.Results), len(other.Results)) {
		a, b := then.Results[i].Type, other.Results[i].Type
		if !a.Ranked || !b.Ranked {
			continue
		}
		if a.Rank() != b.Rank() {
			return false
		}
		for k := range a.Shape {
			x, known := a.Shape[k].Const()
			if y, too := b.Shape[k].Const(); known && too && x != y {
				return false
			}
		}
	}
	return true
}

// tensorsOnly is the downgrade below operator set 13, which took sequences into control flow.
var tensorsOnly = []ops.Downgrade{{Below: 13, Form: func(n *ssa.Node) int {
	for _, v := range slices.Concat(n.In, n.Out) {
		if v != nil && (v.Type.Kind == ssa.KindSequence || v.Type.Kind == ssa.KindOptional) {
			return 13
		}
	}
	return kit.TypeForm(1, 13)(n)
}}}

// inferBranch infers a branch. Unless the branch surely runs, a node whose
// operands do not fit is no error: with shapes bound, branches for other shapes
// are left over in a model. Its results get the unknown type, and it fails if it
// is ever run. A node that lacks a part fits no shape and is an error everywhere.
func inferBranch(ctx context.Context, body *ssa.Graph, surelyRuns bool) {
	if surelyRuns {
		kit.Check(ops.InferGraphContext(ctx, body))
		return
	}
	for _, n := range body.Nodes {
		kit.Check(ctx.Err())
		err := ops.InferContext(ctx, n)
		if err == nil {
			continue
		}
		if broken := (*ops.StructureError)(nil); errors.As(err, &broken) {
			kit.Check(err)
		}
		kit.Check(ctx.Err())
		for _, v := range n.Out {
			if v != nil {
				v.Type, v.Content = ssa.Type{}, nil
			}
		}
	}
}

func inferIf(ctx context.Context, n *ssa.Node) []ops.Inferred {
	var branch [2][]*ssa.Value
	for k, name := range []string{"then_branch", "else_branch"} {
		body := n.Body(name)
		kit.Check(kit.BindCaptures(n, body))
		inferBranch(ctx, body, ops.ConstBool(n.In[0]) == 1-k)
		branch[k] = body.Results
	}
	out := make([]ops.Inferred, len(n.Out))
	for i := range out {
		if i%lookEvery == lookEvery-1 {
			kit.Check(ctx.Err())
		}
		a, b := branch[0][i], branch[1][i]
		switch taken := ops.ConstBool(n.In[0]); {
		case taken == 1:
			out[i] = ops.Inferred{Type: a.Type, Content: a.Content}
		case taken == 0:
			out[i] = ops.Inferred{Type: b.Type, Content: b.Content}
		default:
			out[i] = ops.Inferred{Type: kit.UnionType(a.Type, b.Type)}
		}
	}
	return out
}

func evalIf(c *ops.Call) {
	cond := c.Array(0)
	if cond == nil || cond.DType != ndarray.Bool || cond.Len() != 1 {
		kit.Failf("the condition is not one boolean")
	}
	name := "else_branch"
	if cond.Data[0] != 0 {
		name = "then_branch"
	}
	out := kit.Try(c.Body(slices.Index(c.Node.BodyAttr, name), c.In[1:]))
	for i, v := range out {
		kit.Check(c.SetOutput(i, v))
	}
}
