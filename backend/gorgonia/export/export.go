// Package export writes Gorgonia's expression graphs as ONNX models.
//
//	m, err := export.Model(g, export.Options{Outputs: gorgonia.Nodes{pred}, Weights: learned})
//	err = m.Save("model.onnx", berth.SaveOptions{})
//
// The nodes of the model are standard operators of ONNX. An op that has no meaning there, such as
// one of the user's own, is refused by name.
package export

import (
	"context"
	"errors"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/lower"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ssa"
)

// Error says which node of an expression graph can not be written, and why.
type Error = lower.Error

// ErrNoOperator is the cause of an [*Error] at an op without a meaning in ONNX.
var ErrNoOperator = errors.New("ONNX has no such operator; write the node with others, or list in export.Options.Outputs only nodes that do not need it")

// Options choose what is written.
type Options struct {
	// Outputs are the model's outputs, in this order; a node that is listed twice is one output. With none, the outputs are
	// the roots and costs of the graph, and the gradients of its inputs. [Model] refuses a node that is nil, a statement, or
	// of another graph.
	Outputs gorgonia.Nodes
	// Weights are inputs whose present values are stored in the model. Others are its inputs. [Model] refuses a node that is
	// nil, computed, of another graph, or without a value.
	Weights gorgonia.Nodes
	// Training writes dropout and batch normalization as they are while training. The
	// statistics that a batch normalization gathers are inputs and outputs then.
	Training bool
}

// Model writes a graph as a model. Inputs and outputs have the names that their nodes were given with gorgonia.WithName,
// letter for letter, gradients those of the inputs that they belong to, behind "gradient_of_". A node without a name is "input"
// or "output", statistics are "state". Where a name is taken already (an input is an output, too, say), a number is put behind
// it: "x_2". The same graph gives the same names.
func Model(g *gorgonia.ExprGraph, o Options) (_ *berth.Model, err error) {
	defer rescue.Into(&err)
	low, err := lower.Lower(g, lower.Options{Only: len(o.Outputs) > 0, Eval: !o.Training, Portable: true,
		Outputs: lower.List{Nodes: o.Outputs, As: "export.Options.Outputs"}, Freeze: lower.List{Nodes: o.Weights, As: "export.Options.Weights"}})
	if err != nil {
		return nil, err
	}
	if len(low.Outputs) == 0 {
		return nil, &Error{Err: errors.New("the expression graph computes nothing, so that the model would have no outputs; name nodes in export.Options.Outputs")}
	}
	if len(o.Outputs) == 0 {
		separate(low)
	}
	m := &ssa.Module{Graph: low.SSA, OutputNames: outputNames(low)}
	if _, err := rewrite.Run(context.Background(), m, rewrite.Options{Only: cleaning, MaxOpset: -1}); err != nil {
		return nil, err
	}
	for _, n := range m.Graph.Nodes {
		if n.Domain == lower.Stock.Domain {
			return nil, &Error{Node: n.Name, Op: lower.Called(n), Err: ErrNoOperator}
		}
	}
	return berth.FromModule(m), nil
}

// cleaning are the passes that drop what is not needed and fold what is constant.
var cleaning = []string{"shape-fold", "fold", "identity", "dead"}

// separate gives inputs with one gradient an output each.
func separate(low *lower.Graph) {
	for i, s := range low.Outputs {
		of := s.GradientOf()
		for _, n := range of[min(len(of), 1):] {
			low.SSA.Results = append(low.SSA.Results, low.SSA.Results[i])
			low.Outputs = append(low.Outputs, lower.Sink{Of: s.Of, Grads: []*gorgonia.Node{n}})
		}
	}
}

// outputNames names the results.
func outputNames(low *lower.Graph) []string {
	names, taken := make([]string, len(low.Outputs)), map[string]bool{}
	for _, p := range low.SSA.Params {
		taken[p.Name] = true
	}
	for i, s := range low.Outputs {
		names[i] = nameOf(s)
	}
	return lower.Distinct(names, taken)
}

func nameOf(s lower.Sink) string {
	switch of := s.GradientOf(); {
	case len(of) > 0:
		return "gradient_of_" + lower.PortName(of[0])
	case s.Of != nil:
		return lower.PortName(s.Of)
	}
	return "state"
}
