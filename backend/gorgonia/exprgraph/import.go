package exprgraph

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Graph is a model as an expression graph.
type Graph struct {
	*gorgonia.ExprGraph
	Inputs  []*gorgonia.Node // in the model's order; bind values with gorgonia.Let
	Outputs []*gorgonia.Node // in the model's order
	// Weights are in the order of their first use; their values are copies. They are the constants of floats, of rank 1 and
	// more, that a derivative exists by. Scalars, statistics of batch normalizations and initial states are no weights.
	Weights gorgonia.Nodes
}

// Import builds the expression graph of a model. Shapes that the model leaves open are
// bound by options ([berth.WithDim], [berth.WithShape]). A node without a place in an
// expression graph is an [*Error]: control flow ([ErrControlFlow]), values that are no
// tensors of known shape, element types that Gorgonia lacks.
func Import(ctx context.Context, m *berth.Model, opts ...berth.Option) (_ *Graph, err error) {
	defer rescue.Into(&err)
	g, err := m.Folded(ctx, opts...)
	if err != nil {
		return nil, err
	}
	im := &importer{out: &Graph{ExprGraph: gorgonia.NewGraph()}, made: map[*ssa.Value]*gorgonia.Node{}}
	for _, p := range g.Params {
		n, err := im.input(p, nil)
		if err != nil {
			return nil, err
		}
		im.out.Inputs = append(im.out.Inputs, n)
	}
	if err := im.freeWeights(g); err != nil {
		return nil, err
	}
	for _, n := range g.Nodes {
		if err := im.node(n); err != nil {
			return nil, &Error{Node: n.String(), Err: err}
		}
	}
	for _, r := range g.Results {
		n, err := im.output(g, r)
		if err != nil {
			return nil, &Error{Node: fmt.Sprintf("output %q", r.Name), Err: err}
		}
		im.out.Outputs = append(im.out.Outputs, n)
	}
	return im.out, nil
}

// importer builds nodes of one expression graph.
type importer struct {
	out   *Graph
	made  map[*ssa.Value]*gorgonia.Node
	loops bool // are ops, too
}

// input makes an input node, with a value where there is one.
func (im *importer) input(v *ssa.Value, c *ssa.Constant) (*gorgonia.Node, error) {
	f, err := formOf(v)
	if err != nil {
		return nil, &Error{Node: fmt.Sprintf("input %q", v.Name), Err: err}
	}
	n := gorgonia.NewTensor(im.out.ExprGraph, f.of, len(f.shape), gorgonia.WithShape(f.shape...), gorgonia.WithName(v.Name))
	if c != nil {
		val, err := copyOf(c, f)
		if err == nil {
			err = gorgonia.Let(n, val) // gorgonia.WithValue takes a vector of one element for a scalar, and panics
		}
		if err != nil {
			return nil, &Error{Node: fmt.Sprintf("weight %q", v.Name), Err: err}
		}
	}
	im.made[v] = n
	return n, nil
}

// copyOf is a constant as a value of its own.
func copyOf(c *ssa.Constant, f form) (gorgonia.Value, error) {
	a, err := c.Array()
	if err != nil {
		return nil, err
	}
	return values.Of(a.Clone(), f.of, f.shape)
}

// freeWeights turns constants that can be learned into parameters, with input nodes that
// hold their values: tensors of floats of rank 1 and more among the operands of a node with a derivative, also of one
// element. Scalars stay constants, and so do the statistics of batch normalizations, the initial states of recurrent layers,
// and the scales of a Resize.
func (im *importer) freeWeights(g *ssa.Graph) error {
	for _, n := range g.Nodes {
		if !hasDerivative(n) || n.Op == "Resize" {
			continue
		}
		for i, v := range n.In {
			if v == nil || v.Const == nil || !v.Type.DType.IsFloat() || v.Const.Len() == 0 || len(v.Const.Shape()) == 0 || isState(n, i) {
				continue
			}
			if _, ok := values.Dtype(v.Type.DType); !ok {
				continue
			}
			c := v.Const
			p := g.AddParam(v.Name+" (weight)", v.Type)
			w, err := im.input(v, c)
			if err != nil {
				return err
			}
			im.out.Weights = append(im.out.Weights, w)
			im.made[p] = w
			g.ReplaceUses(v, p)
		}
	}
	return nil
}

// isState reports that an operand is a state with which a recurrent layer begins, or a statistic that a batch normalization
// has gathered.
func isState(n *ssa.Node, operand int) bool {
	switch {
	case n.Domain != "":
		return false
	case n.Op == "BatchNormalization":
		return operand == 3 || operand == 4
	}
	return (operand == 5 || operand == 6) && slices.Contains([]string{"RNN", "GRU", "LSTM"}, n.Op)
}

// node makes a node for every result of n.
func (im *importer) node(n *ssa.Node) error {
	return im.nodeOf(n, func(*ssa.Value) bool { return true })
}

// nodeOf makes a node for every result of n that is wanted.
func (im *importer) nodeOf(n *ssa.Node, wanted func(*ssa.Value) bool) error {
	switch {
	case ops.IsControl(n) && !im.loops:
		return ErrControlFlow
	case len(n.Bodies) > 0 && !ops.IsControl(n) || n.Opaque:
		return fmt.Errorf("the operator: %w", ops.ErrUnsupported)
	}
	t, err := newTemplate(n)
	if err != nil {
		return err
	}
	var in gorgonia.Nodes
	for _, v := range n.In {
		if v != nil && v.Const == nil {
			m := im.made[v]
			t.in[len(in)].of = m.Dtype() // tensor.Int where ONNX has int64
			in = append(in, m)
		}
	}
	for k, v := range n.Out {
		if v == nil || !wanted(v) {
			continue
		}
		if im.made[v], err = im.apply(&op{t, k}, v.Name, in); err != nil {
			return err
		}
	}
	return nil
}

// apply adds a node.
func (im *importer) apply(o *op, name string, in gorgonia.Nodes) (*gorgonia.Node, error) {
	if len(in) > 0 {
		return gorgonia.ApplyOpWithName(o, name, in...)
	}
	f := o.out[o.result]
	return gorgonia.NewUniqueNode(gorgonia.WithType(f.hm()), gorgonia.WithOp(o), gorgonia.In(im.out.ExprGraph),
		gorgonia.WithShape(f.shape...), gorgonia.WithName(name)), nil
}

// output is the node of a result; a result that is an input or a constant is copied.
func (im *importer) output(g *ssa.Graph, v *ssa.Value) (*gorgonia.Node, error) {
	if v.Def != nil {
		return im.made[v], nil
	}
	n := g.NewNode("Identity", []*ssa.Value{v}, 1)
	if err := ops.Infer(n); err != nil {
		return nil, err
	}
	n.Out[0].Name = v.Name
	return im.made[n.Out[0]], im.node(n)
}

// constantNode is a constant of Gorgonia.
func (im *importer) constantNode(c *ssa.Constant) (*gorgonia.Node, error) {
	a, err := c.Array()
	if err != nil {
		return nil, err
	}
	dt, ok := values.Dtype(a.DType)
	if !ok {
		return nil, fmt.Errorf("elements of type %s, which Gorgonia lacks", a.DType)
	}
	v, err := values.Of(aligned(&ndarray.Array{DType: a.DType, Shape: a.Shape, Data: a.Data, Str: a.Str}), dt, tensor.Shape(a.Shape))
	if err != nil {
		return nil, err
	}
	return gorgonia.NewConstant(v, gorgonia.WithName(fmt.Sprintf("constant %d", templates.Add(1)))), nil
}
