package berth

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
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
	Value    string
	Node     string
	Operands []string // names of the values that the node read, those of its bodies included
	Data     ndarray.Value
}

// Trace compiles the model for the shapes of the inputs and records what a run
// computes.
func (m *Model) Trace(ctx context.Context, inputs map[string]ndarray.Value, opts ...Option) (_ *Trace, err error) {
	defer func() { err = rescue.WithCause(ctx, err) }()
	defer rescue.Into(&err)
	p, err := m.programFor(ctx, inputs, opts)
	if err != nil {
		return nil, err
	}
	s, err := p.openSession(ctx)
	if err != nil {
		return nil, err
	}
	defer p.life.forget(s.use)
	main := map[*ssa.Node]bool{}
	for _, n := range p.prog.Graph.Nodes {
		main[n] = true
	}
	t, memory := &Trace{}, newConfig(opts).memory
	var full error // that there is no memory for a copy
	observe := func(in *program.Instr, out []ndarray.Value) {
		if !main[in.Node] {
			return
		}
		var operands []string
		for _, v := range in.Node.In {
			if v != nil {
				operands = append(operands, v.Name)
			}
		}
		for i, v := range out {
			if v == nil || in.Node.Out[i] == nil || full != nil {
				continue
			}
			var own ndarray.Value
			if own, full = ndarray.CloneIn(ctx, memory, v); full == nil {
				t.Steps = append(t.Steps, TraceStep{in.Node.Out[i].Name, in.Node.String(), operands, own})
			}
		}
	}
	s.observe.Store(&observe)
	got, err := s.runValues(ctx, inputs, s.s.RunFresh, false)
	if err == nil {
		err = full
	}
	if err != nil {
		return nil, err
	}
	for _, name := range p.outputs {
		t.Outputs = append(t.Outputs, TraceStep{name, "", nil, got[name]})
	}
	return t, nil
}

// Folded returns the graph with shapes bound and everything they determine
// folded: the graph that is planned.
func (m *Model) Folded(ctx context.Context, opts ...Option) (*ssa.Graph, error) {
	return usingContext(ctx, m.lifetime(), func() (*ssa.Graph, error) {
		c := newConfig(opts)
		c.dump = nil // the graph is shown, not rewritten
		g, _, err := m.foldedGraph(ctx, &c, c.schedule, nil)
		if err != nil {
			return nil, err
		}
		if err := ownPayloads(c.memory.In(ctx), g); err != nil {
			return nil, err
		}
		return m.life.isolated(g), nil
	})
}

// KeepPorts returns the model with the input and output types that another one, from which it was made, declares: shapes
// fixed inside stay open outside. Weights and files are shared, and the receiver is unchanged. Types that contradict those of
// the receiver give an [*OptionError]: the other model is not one from which it was made.
func (m *Model) KeepPorts(from *Model) (*Model, error) {
	if from == nil || from.module == nil {
		return nil, &OptionError{Option: "KeepPorts", Got: "nil", Want: "the model that declares the types"}
	}
	return using(m.lifetime(), func() (*Model, error) {
		to, old := *m.module, from.module
		to.Graph, _ = m.module.Graph.Clone()
		to.Holds, to.Operators = nil, nil
		for i, p := range old.Graph.Params {
			if i < len(to.Graph.Params) && to.Graph.Params[i].Name == p.Name {
				if err := keepPort(to.Graph.Params[i], p, p.Name); err != nil {
					return nil, err
				}
			}
		}
		for i, r := range old.Graph.Results {
			if i < len(to.Graph.Results) && to.OutputName(i) == old.OutputName(i) {
				if err := keepPort(to.Graph.Results[i], r, old.OutputName(i)); err != nil {
					return nil, err
				}
			}
		}
		return m.of(&to), nil
	})
}

// keepPort gives a value the type of an input or output of the model that declares the types.
func keepPort(v, declared *ssa.Value, name string) error {
	if _, ok := declared.Type.Refine(v.Type); !ok {
		return &OptionError{Option: "KeepPorts", Got: fmt.Sprintf("a model where %q is %s", name, declared.Type),
			Want: fmt.Sprintf("the one from which this model was made, where it is %s", v.Type)}
	}
	v.Type = declared.Type
	return nil
}
