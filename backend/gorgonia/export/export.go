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
	"fmt"

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
var ErrNoOperator = errors.New("ONNX has no such operator")

// Options choose what is written.
type Options struct {
	// Outputs are the model's outputs; nil: the roots and costs of the graph, and the
	// gradients of its inputs.
	Outputs gorgonia.Nodes
	// Weights are inputs whose present values are stored in the model. Others are its inputs.
	Weights gorgonia.Nodes
	// Training writes dropout and batch normalization as they are while training. The
	// statistics that a batch normalization gathers are inputs and outputs then.
	Training bool
}

// Model writes a graph as a model. Outputs have the names of their nodes, gradients those of
// the inputs that they belong to, behind "gradient of".
func Model(g *gorgonia.ExprGraph, o Options) (_ *berth.Model, err error) {
	defer rescue.Into(&err)
	stored := map[*gorgonia.Node]bool{}
	for _, n := range o.Weights {
		stored[n] = true
	}
	low, err := lower.Lower(g, lower.Options{Outputs: o.Outputs, Only: o.Outputs != nil, Eval: !o.Training, Portable: true,
		Freeze: func(n *gorgonia.Node) bool { return stored[n] }})
	if err != nil {
		return nil, err
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

// outputNames names the results.
func outputNames(low *lower.Graph) []string {
	var list []string
	used := map[string]bool{}
	for _, p := range low.SSA.Params {
		used[p.Name] = true
	}
	for _, s := range low.Outputs {
		name := nameOf(s)
		for k := 2; used[name]; k++ {
			name = fmt.Sprintf("%s (%d)", nameOf(s), k)
		}
		used[name] = true
		list = append(list, name)
	}
	return list
}

func nameOf(s lower.Sink) string {
	switch of := s.GradientOf(); {
	case len(of) > 0:
		return "gradient of " + lower.NameOf(of[0])
	case s.Of != nil:
		return lower.NameOf(s.Of)
	}
	return "state"
}
