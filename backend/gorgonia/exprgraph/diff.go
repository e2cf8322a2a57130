package exprgraph

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The derivative of an op is written as a graph of ONNX nodes by the rules of package
// gradient, folded, and made nodes of the expression graph:
//
//	inputs ──▶ %x ──┬─▶ op ─▶ %y ──┐
//	                └──────────────┼─▶ rule ─▶ adjoints of the operands
//	grad ────▶ %dy ────────────────┘
//
// %x, %y and %dy are the nodes that Gorgonia hands over, so that op itself is not repeated.

// The derivative of a recurrent layer has a loop over its steps, a Scan, which becomes an op like others. It has no derivative
// itself.

// hasDerivative reports whether a node's operator has a derivative.
func hasDerivative(n *ssa.Node) bool { return gradient.HasAdjoints(n) && !ops.IsControl(n) }

// derivative builds that graph for one op.
type derivative struct {
	*importer
	graph *ssa.Graph
	node  *ssa.Node
	op    *op
	in    gorgonia.Nodes
}

// SymDiff returns the gradients of the operands, nil for those that DiffWRT excludes.
func (o *op) SymDiff(inputs gorgonia.Nodes, output, grad *gorgonia.Node) (_ gorgonia.Nodes, err error) {
	defer rescue.Into(&err)
	if len(inputs) != len(o.in) {
		return nil, fmt.Errorf("%v takes %d operands, got %d", o, len(o.in), len(inputs))
	}
	im := &importer{out: &Graph{ExprGraph: output.Graph()}, made: map[*ssa.Value]*gorgonia.Node{}, loops: true}
	d := &derivative{importer: im, graph: ssa.NewGraph("derivative"), op: o, in: inputs}
	if err := d.forward(output); err != nil {
		return nil, err
	}
	if err := d.backward(grad); err != nil {
		return nil, err
	}
	return d.nodes()
}

// forward repeats the template; its operands and result stand for the given nodes.
func (d *derivative) forward(output *gorgonia.Node) error {
	of := d.op.node
	in, k := make([]*ssa.Value, len(of.In)), 0
	for i, v := range of.In {
		switch {
		case v == nil:
		case v.Const != nil:
			in[i] = d.graph.AddConst(fmt.Sprintf("c%d", i), v.Const)
		default:
			in[i] = d.graph.AddParam(fmt.Sprintf("x%d", i), v.Type)
			d.made[in[i]] = d.in[k]
			k++
		}
	}
	d.node = d.graph.NewNode(of.Op, in, len(of.Out), slices.Clone(of.Attrs)...)
	d.node.Domain = of.Domain
	for i, v := range d.node.Out {
		v.Name = fmt.Sprintf("y%d", i)
	}
	d.made[d.node.Out[d.op.result]] = output
	return ops.Infer(d.node)
}

// backward applies the rule and folds what it wrote. The adjoints become the graph's results.
func (d *derivative) backward(grad *gorgonia.Node) (err error) {
	y := d.node.Out[d.op.result]
	dy := d.graph.AddParam("dy", y.Type)
	if d.made[dy], err = shapedAs(grad, d.op.out[d.op.result].shape); err != nil {
		return err
	}
	adjoints, wants := make([]*ssa.Value, len(d.node.Out)), make([]bool, len(d.node.In))
	adjoints[d.op.result] = dy
	for i, v := range d.node.In {
		wants[i] = v != nil && v.Const == nil && v.Type.DType.IsFloat()
	}
	out, err := gradient.Adjoints(d.graph, d.node, adjoints, wants)
	if err != nil {
		return err
	}
	for i, v := range d.graph.Values() {
		v.Name = fmt.Sprintf("%d %s", i, v.Name)
	}
	for i, v := range d.node.In {
		if v == nil || v.Const != nil {
			continue
		}
		if out[i] == nil {
			out[i] = d.zeros(v)
		}
		d.graph.Results = append(d.graph.Results, out[i])
	}
	_, err = rewrite.Run(context.Background(), &ssa.Module{Graph: d.graph}, rewrite.Options{List: &rewrite.Runtime, Only: folding, MaxOpset: -1})
	return err
}

// folding are the passes that make shapes and constants known and change nothing else.
var folding = []string{"shape-fold", "fold", "dead"}

// zeros is the gradient by an operand on which the result does not depend, or not smoothly.
func (d *derivative) zeros(like *ssa.Value) *ssa.Value {
	shape, _ := like.Type.Static()
	return d.graph.AddConst("zeros of "+like.Name, ssa.NewSplat(ndarray.Must(like.Type.DType), shape...))
}

// nodes makes nodes of the expression graph.
func (d *derivative) nodes() (gorgonia.Nodes, error) {
	for _, n := range d.graph.Nodes {
		if n == d.node {
			if err := d.others(); err != nil {
				return nil, err
			}
		} else if err := d.nodeOf(n, d.isRead); err != nil {
			return nil, &Error{Node: "derivative of " + d.op.node.String() + ": " + n.String(), Err: err}
		}
	}
	out := make(gorgonia.Nodes, len(d.in))
	differentiable := d.op.DiffWRT(len(d.in))
	for i, v := range d.graph.Results {
		if !differentiable[i] {
			continue
		}
		n := d.made[v]
		if v.Const != nil {
			var err error
			if n, err = d.constantNode(v.Const); err != nil {
				return nil, err
			}
			n = d.out.AddNode(n)
		}
		out[i] = n
	}
	return out, nil
}

// isRead reports that a value is an operand or a gradient: other results of a node would be outputs of the expression graph.
func (d *derivative) isRead(v *ssa.Value) bool {
	return len(v.Uses()) > 0 || slices.Contains(d.graph.Results, v)
}

// others makes nodes of the op's other results that the rule reads.
func (d *derivative) others() (err error) {
	for k, v := range d.node.Out {
		if v == nil || k == d.op.result || len(v.Uses()) == 0 {
			continue
		}
		if d.made[v], err = d.apply(&op{d.op.template, k}, v.Name, d.in); err != nil {
			return err
		}
	}
	return nil
}

// shapedAs gives a gradient the shape of what it belongs to.
func shapedAs(n *gorgonia.Node, shape tensor.Shape) (*gorgonia.Node, error) {
	if slices.Equal(n.Shape(), shape) {
		return n, nil
	}
	return gorgonia.Reshape(n, shape)
}
