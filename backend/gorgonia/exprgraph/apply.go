package exprgraph

import (
	"errors"
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/lower"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// mostResults bounds the nodes that one call makes, where an operator has any number of results.
const mostResults = 1 << 16

// Apply adds an ONNX operator of the default domain, in its newest form, to an expression
// graph. Operands that are constants of Gorgonia, such as the axes of a reduction, become
// part of the op; a nil operand is absent. Shapes must follow from the operands' shapes and
// constants. The nodes are the operator's results, one unless results says more.
func Apply(operator string, results int, in []*gorgonia.Node, attrs ...ssa.Attr) (_ gorgonia.Nodes, err error) {
	defer rescue.Into(&err)
	o := ops.Lookup("", operator)
	if o == nil {
		return nil, &Error{Node: operator, Err: &ops.UnknownOperatorError{Domain: "ai.onnx", Op: operator, Package: ops.PackageFor("", operator)}}
	}
	most := mostResults
	if o.MaxOut >= 0 {
		most = o.MaxOut
	}
	if results < 0 || results > most {
		return nil, &Error{Node: operator, Err: fmt.Errorf("%d results, where 0 to %d are possible", results, most)}
	}
	g, im := ssa.NewGraph("apply"), &importer{out: &Graph{}, made: map[*ssa.Value]*gorgonia.Node{}}
	operands := make([]*ssa.Value, len(in))
	for i, n := range in {
		if n == nil {
			continue
		}
		if operands[i], err = im.operand(g, n, fmt.Sprintf("x%d", i)); err != nil {
			return nil, &Error{Node: operator, Err: fmt.Errorf("operand %d: %w", i, err)}
		}
	}
	if im.out.ExprGraph == nil {
		return nil, &Error{Node: operator, Err: errors.New("no operand says to which graph the node belongs: at least one must be an input or a result, not a constant of Gorgonia's or nil; gorgonia.NewTensor makes inputs")}
	}
	n := g.NewNode(operator, operands, max(results, 1), attrs...)
	for i, v := range n.Out {
		v.Name = fmt.Sprintf("%s %d.%d", operator, templates.Add(1), i)
	}
	if err = errors.Join(o.CheckArity(n), o.CheckAttrs(n)); err == nil {
		err = ops.Infer(n)
	}
	if err == nil {
		err = im.node(n)
	}
	if err != nil {
		return nil, &Error{Node: operator, Err: err}
	}
	out := make(gorgonia.Nodes, len(n.Out))
	for i, v := range n.Out {
		out[i] = im.made[v]
	}
	return out, nil
}

// operand adds a parameter that stands for a node, or a constant.
func (im *importer) operand(g *ssa.Graph, n *gorgonia.Node, name string) (*ssa.Value, error) {
	if n.Type() == nil {
		return nil, errors.New("a statement has no value; use the node that gorgonia.Read reads")
	}
	dt, ok := values.DType(n.Dtype())
	if !ok {
		return nil, lower.ErrElements(n.Dtype())
	}
	if _, constant := n.Op().(interface{ Value() gorgonia.Value }); constant && n.Value() != nil {
		a, err := lower.ValueOf(n, n.Value())
		if err != nil {
			return nil, err
		}
		return g.AddConst(name, ssa.NewConstant(a)), nil
	}
	switch {
	case n.Graph() == nil:
		return nil, fmt.Errorf("node %q is in no graph; give gorgonia.NewTensor one", lower.NameOf(n))
	case im.out.ExprGraph != nil && im.out.ExprGraph != n.Graph():
		return nil, fmt.Errorf("node %q is of another graph than the operands before; an operator takes nodes of one graph", lower.NameOf(n))
	}
	im.out.ExprGraph = n.Graph()
	v := g.AddParam(name, ssa.StaticTensor(dt, n.Shape()...))
	im.made[v] = n
	return v, nil
}
