package berth

import (
	"context"
	"maps"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Extend returns a model of a changed graph: edit gets a copy, with inferred types and dimensions fixed as
// options say, and may add nodes in any order. Its context carries the limit of memory, which [ndarray.BudgetOf] tells. Weights and files are shared, the receiver is unchanged, and saving
// writes what edit has added. A graph that is not sound afterwards is an error. Package expr writes such changes as
// expressions.
func (m *Model) Extend(ctx context.Context, edit func(context.Context, *ssa.Graph) error, opts ...Option) (*Model, error) {
	if edit == nil {
		return nil, &OptionError{Option: "Extend", Got: "nil", Want: "a function that changes the graph"}
	}
	return usingContext(ctx, m.lifetime(), func() (*Model, error) {
		c := newConfig(opts)
		ctx := c.memory.In(ctx)
		bound, err := m.bind(ctx, &c)
		if err != nil {
			return nil, err
		}
		bound.OutputNames = nil
		if err := nameResults(bound.Graph, m.module.OutputName); err != nil {
			return nil, err
		}
		out := m.of(bound)
		if err := out.life.edited(ctx, bound, edit); err != nil {
			_ = out.life.close()
			return nil, err
		}
		return out, nil
	})
}

// edited has a function of the caller's change the graph of a new model. Constants that it keeps can be read while that is open.
func (l *lifetime) edited(ctx context.Context, m *ssa.Module, edit func(context.Context, *ssa.Graph) error) (err error) {
	defer rescue.Into(&err)
	if err := ownPayloads(ctx, m.Graph); err != nil {
		return err
	}
	back := l.lend(m.Graph)
	rescue.Call("the function given to Extend", func() { err = edit(ctx, m.Graph) })
	if err != nil {
		return err
	}
	m.Defaults = maps.Clone(m.Defaults)
	maps.DeleteFunc(m.Defaults, func(name string, _ *ssa.Constant) bool {
		return !slices.ContainsFunc(m.Graph.Params, func(v *ssa.Value) bool { return v.Name == name })
	})
	if err := m.Graph.Sort(); err != nil {
		return err
	}
	if err := ssa.Check(m.Graph); err != nil {
		return err
	}
	back()
	return nil
}

// nameResults makes each result a value of its own that has the name of the output.
func nameResults(g *ssa.Graph, name func(i int) string) error {
	for i, r := range g.Results {
		if r.Name == name(i) && !slices.Contains(g.Results[:i], r) {
			continue
		}
		n := g.NewNode("Identity", []*ssa.Value{r}, 1)
		if err := ops.Infer(n); err != nil {
			return err
		}
		for _, v := range g.Values() {
			if v.Name == name(i) && !v.IsParam() {
				v.Name += "_inside"
			}
		}
		n.Out[0].Name, g.Results[i] = name(i), n.Out[0]
	}
	return nil
}

// Copies of graphs share the shapes of types, known elements and the lists of attributes, which nothing in berth changes. Callers may change what they
// get, a dimension of an input, say: they get copies of these, too.

// ownPayloads replaces what the copy of a graph shares with the original, constants aside, until a context ends.
func ownPayloads(ctx context.Context, g *ssa.Graph) error {
	g.Walk(func(b *ssa.Graph) {
		for i, v := range b.Values() {
			if i%lookEvery == 0 && ctx.Err() != nil {
				return
			}
			if v != nil {
				v.Type, v.Content = ownType(v.Type), slices.Clone(v.Content)
			}
		}
		for _, n := range b.Nodes {
			if ctx.Err() != nil {
				return
			}
			for i := range n.Attrs {
				a := &n.Attrs[i]
				a.Ints, a.Floats, a.Strings = slices.Clone(a.Ints), slices.Clone(a.Floats), slices.Clone(a.Strings)
				a.Tensors, a.Type = slices.Clone(a.Tensors), ownType(a.Type)
			}
		}
	})
	return ctx.Err()
}

// ownType copies a type with its shapes.
func ownType(t ssa.Type) ssa.Type {
	t.Shape = slices.Clone(t.Shape)
	if t.Elem != nil {
		elem := ownType(*t.Elem)
		t.Elem = &elem
	}
	return t
}
