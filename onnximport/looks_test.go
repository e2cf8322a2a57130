package onnximport

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/looktest"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestWideNodesLook: the steps of the import look at their context within one node of many operands, results, captured values or
// nodes in its bodies, too.
func TestWideNodesLook(t *testing.T) {
	const many = lookEvery + 1
	all := make([]string, many)
	g := &onnxwire.Graph{}
	for i := range all {
		all[i] = fmt.Sprintf("v%d", i)
		g.Inputs = append(g.Inputs, value(all[i], ndarray.Float32))
		g.Outputs = append(g.Outputs, &onnxwire.ValueInfo{Name: all[i]})
		g.Nodes = append(g.Nodes, wnode("Relu", "x", "r"))
	}
	ignore := func(string) {}
	looked := func(s *scope) error {
		if s.imp.ctx.(*looktest.Context).Left < 0 {
			return context.Canceled
		}
		return nil
	}
	for name, f := range map[string]func(s *scope) error{
		"operands":           func(s *scope) error { _, err := s.operands(all, nil); return err },
		"results of a node":  func(s *scope) error { return s.addOutputs(s.graph.NewNode("Split", nil, 0), make([]string, many)) },
		"results of a graph": func(s *scope) error { _, err := s.results(g); return err },
		"types of parameters": func(s *scope) error {
			_, err := s.paramTypes(&ssa.Node{Op: "Scan", Domain: "other"}, g)
			return err
		},
		"parameters": func(s *scope) error {
			_, err := s.tryBody(&onnxwire.Node{}, boundAttr{scope: s}, &onnxwire.Graph{Inputs: g.Inputs}, make([]ssa.Type, many))
			return err
		},
		"captured values": func(s *scope) error {
			b := s.body("", ssa.NewGraph("body"))
			for _, v := range s.graph.Params {
				b.capture(v)
			}
			return (&bodySet{}).unify(s.imp, []*scope{b})
		},
		"names that a node reads": func(s *scope) error {
			freeNames(s.imp.ctx, &onnxwire.Node{Inputs: all}, ignore)
			return looked(s)
		},
		"names that a body reads": func(s *scope) error {
			freeOfGraph(s.imp.ctx, &onnxwire.Graph{Nodes: g.Nodes}, ignore)
			return looked(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{imp: newImporter(&onnxwire.Model{}, "", Options{}), graph: ssa.NewGraph("g"), names: map[string]*ssa.Value{}}
			for _, name := range all {
				s.names[name] = s.graph.AddParam(name, ssa.Type{})
			}
			s.imp.ctx = &looktest.Context{}
			require.Equal(t, context.Canceled, f(s))
		})
	}
}
