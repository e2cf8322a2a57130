package ops

import (
	"errors"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// If runs one of two bodies: https://onnx.ai/onnx/operators/onnx__If.html
var If = Op{
	Name: "If", Since: 25, Form: since(13), Doc: "out = cond ? then_branch() : else_branch()",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: -1,
	Attrs: []AttrSpec{graphAttr("then_branch").required(), graphAttr("else_branch").required()},
	Facts: Facts{Traits: general}, Infer: rule(inferIf), Eval: kernel(evalIf),
}

// inferBranch infers a branch. Unless the branch surely runs, a node whose
// operands do not fit is no error: with shapes bound, branches for other shapes
// are left over in a model. Its results get the unknown type, and it fails if it
// is ever run. A node that lacks a part fits no shape and is an error everywhere.
func inferBranch(body *ssa.Graph, surelyRuns bool) {
	if surelyRuns {
		check(InferGraph(body))
		return
	}
	for _, n := range body.Nodes {
		err := Infer(n)
		if err == nil {
			continue
		}
		if broken := (*structureError)(nil); errors.As(err, &broken) {
			check(err)
		}
		for _, v := range n.Out {
			if v != nil {
				v.Type, v.Content = ssa.Type{}, nil
			}
		}
	}
}

func inferIf(n *ssa.Node) []Inferred {
	var branch [2][]*ssa.Value
	for k, name := range []string{"then_branch", "else_branch"} {
		body := n.Body(name)
		check(bindCaptures(n, body))
		inferBranch(body, constBool(n.In[0]) == 1-k)
		branch[k] = body.Results
	}
	out := make([]Inferred, len(n.Out))
	for i := range out {
		a, b := branch[0][i], branch[1][i]
		switch taken := constBool(n.In[0]); {
		case taken == 1:
			out[i] = Inferred{a.Type, a.Content}
		case taken == 0:
			out[i] = Inferred{b.Type, b.Content}
		default:
			out[i] = Inferred{Type: UnionType(a.Type, b.Type)}
		}
	}
	return out
}

func evalIf(c *Call) {
	cond := c.Array(0)
	if cond == nil || cond.DType != ndarray.Bool || cond.Len() != 1 {
		failf("the condition is not one boolean")
	}
	k := 1
	if cond.Data[0] != 0 {
		k = 0
	}
	name := [2]string{"then_branch", "else_branch"}[k]
	for i, a := range c.Node.BodyAttr {
		if a == name {
			k = i
		}
	}
	out := try(c.Body(k, c.In[1:]))
	for i, v := range out {
		check(c.SetOutput(i, v))
	}
}
