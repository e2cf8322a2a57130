package ops

import (
	"errors"
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// If runs one of two bodies: https://onnx.ai/onnx/operators/onnx__If.html
var If = Op{
	Name: "If", Since: 25, Form: since(13), Doc: "out = cond ? then_branch() : else_branch()",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: -1,
	Attrs: []AttrSpec{{Name: "then_branch", Graph: true, Required: true}, {Name: "else_branch", Graph: true, Required: true}},
	Infer: rule(inferIf), Eval: kernel(evalIf),
}

// since returns a constant Form.
func since(v int) func(*ssa.Node) int { return func(*ssa.Node) int { return v } }

// bindCaptures gives the last parameters of a body the types and contents of
// the captured operands.
func bindCaptures(n *ssa.Node, body *ssa.Graph) error {
	caps := n.Captured()
	if len(body.Params) < len(caps) {
		return fmt.Errorf("body %q has %d parameters for %d captured values", body.Name, len(body.Params), len(caps))
	}
	for i, p := range body.Params[len(body.Params)-len(caps):] {
		if caps[i] == nil {
			return fmt.Errorf("captured operand %d is absent", i)
		}
		p.Type, p.Content = caps[i].Type, caps[i].Content
	}
	return nil
}

// UnionType is the most precise type that both describe: dimensions that
// differ become unknown.
func UnionType(a, b ssa.Type) ssa.Type {
	if a.Kind == ssa.KindUnknown || a.Kind != b.Kind || a.DType != b.DType {
		if a.Kind == b.Kind && a.Kind == ssa.KindTensor {
			a.DType = ndarray.Undefined
			return ssa.Type{Kind: ssa.KindTensor}
		}
		return ssa.Type{}
	}
	if a.Elem != nil && b.Elem != nil {
		e := UnionType(*a.Elem, *b.Elem)
		a.Elem = &e
	}
	if !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		a.Ranked, a.Shape = false, nil
		return a
	}
	shape := make([]ssa.Dim, len(a.Shape))
	for i := range shape {
		if a.Shape[i].Equal(b.Shape[i]) {
			shape[i] = a.Shape[i]
		}
	}
	a.Shape = shape
	return a
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

// checkBodies checks that the bodies of control flow have as many parameters and
// results as the node's operands and results ask for.
func checkBodies(n *ssa.Node) (err error) {
	switch {
	case n.Domain != "":
	case n.Op == "If":
		for i, body := range n.Bodies {
			if len(body.Results) != len(n.Out) {
				return fmt.Errorf("%s gives %d results, the node has %d", n.BodyAttr[i], len(body.Results), len(n.Out))
			}
			if len(body.Params) != n.Captures {
				return fmt.Errorf("%s has %d parameters for %d captured values", n.BodyAttr[i], len(body.Params), n.Captures)
			}
		}
	case n.Op == "Loop":
		_, err = LoopOf(n)
	case n.Op == "Scan":
		_, err = ScanOf(n)
	}
	return err
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

// constBool returns 1 or 0 for a constant boolean, -1 if it is not known.
func constBool(v *ssa.Value) int {
	if v == nil || v.Const == nil || v.Const.Len() != 1 || v.Const.DType() != ndarray.Bool {
		return -1
	}
	a, err := v.Const.Array()
	if err != nil {
		return -1
	}
	return int(a.Int(0))
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
