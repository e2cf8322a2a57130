package berth

import (
	"context"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/program"
	"github.com/berth-onnx/berth/ssa"
)

// Trace is every value a run computed, in order.
type Trace struct {
	Steps   []TraceStep
	Outputs []TraceStep
}

// TraceStep is one value: its name, the node that made it, a copy of its data.
// Values inside loops and branches are not recorded.
type TraceStep struct {
	Value string
	Node  string
	Data  ndarray.Value
}

// Trace compiles the model for the shapes of the inputs and records what a run
// computes.
func (m *Model) Trace(ctx context.Context, inputs map[string]ndarray.Value, opts ...Option) (*Trace, error) {
	p, err := m.programFor(ctx, inputs, opts)
	if err != nil {
		return nil, err
	}
	s, err := p.NewSession()
	if err != nil {
		return nil, err
	}
	main := map[*ssa.Node]bool{}
	for _, n := range p.prog.Graph.Nodes {
		main[n] = true
	}
	t := &Trace{}
	s.s.Observe = func(in *program.Instr, out []ndarray.Value) {
		if !main[in.Node] {
			return
		}
		for i, v := range out {
			if v != nil && in.Node.Out[i] != nil {
				t.Steps = append(t.Steps, TraceStep{in.Node.Out[i].Name, in.Node.String(), ndarray.CloneValue(v)})
			}
		}
	}
	got, err := s.RunValues(ctx, inputs)
	if err != nil {
		return nil, err
	}
	for _, name := range p.outputs {
		t.Outputs = append(t.Outputs, TraceStep{name, "", ndarray.CloneValue(got[name])})
	}
	return t, nil
}

// Folded returns the graph with shapes bound and everything they determine
// folded: what planning sees.
func (m *Model) Folded(ctx context.Context, opts ...Option) (*ssa.Graph, error) {
	c := newConfig(opts)
	g, _, err := m.foldedGraph(ctx, &c, c.schedule)
	return g, err
}

// KeepPorts gives the model the input and output types that another one, from
// which it was made, declares: shapes fixed inside stay open outside.
func (m *Model) KeepPorts(from *Model) {
	for i, p := range from.module.Graph.Params {
		if i < len(m.module.Graph.Params) && m.module.Graph.Params[i].Name == p.Name {
			m.module.Graph.Params[i].Type = p.Type
		}
	}
	for i, r := range from.module.Graph.Results {
		if i < len(m.module.Graph.Results) && m.module.OutputName(i) == from.module.OutputName(i) {
			m.module.Graph.Results[i].Type = r.Type
		}
	}
}
