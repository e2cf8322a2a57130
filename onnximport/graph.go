package onnximport

import (
	"cmp"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// mainGraph builds the model's graph.
func (imp *importer) mainGraph() error {
	w := imp.model.Graph
	g := ssa.NewGraph(w.Name)
	g.Doc = w.DocString
	imp.module.Graph = g
	s := &scope{imp: imp, graph: g, names: make(map[string]*ssa.Value, len(w.Nodes)+len(w.Initializers)), opsets: imp.opsets}
	defaults, err := imp.mainInputs(s, w)
	if err = cmp.Or(err, imp.ctx.Err()); err != nil {
		return err
	}
	if err := s.initializers(w, defaults); err != nil {
		return err
	}
	if err := s.nodes(w); err != nil {
		return err
	}
	if g.Results, err = s.results(w); err != nil {
		return err
	}
	seen := make(map[string]bool, len(w.Outputs))
	for _, o := range w.Outputs {
		if err := imp.ctx.Err(); err != nil {
			return err
		}
		if seen[o.Name] {
			return fail("give each output a name of its own, by Identity nodes where they are the same value", "the output %q of the graph is listed twice", o.Name)
		}
		seen[o.Name] = true
		imp.module.OutputNames = append(imp.module.OutputNames, o.Name)
	}
	g.Walk(func(b *ssa.Graph) { uniqueNames(imp.ctx, b) })
	return nil
}

// mainInputs makes the parameters. The result holds the names of initializers
// that are defaults of parameters.
func (imp *importer) mainInputs(s *scope, w *onnxwire.Graph) (map[string]bool, error) {
	has := initialized(w)
	constant := imp.opts.Initializers == InitializersConstant || imp.opts.Initializers == InitializersAuto && imp.model.IRVersion < 4
	defaults := map[string]bool{}
	syms := newSymbols(imp.ctx, w.Inputs)
	for _, in := range w.Inputs {
		if err := imp.ctx.Err(); err != nil {
			return nil, err
		}
		if has[in.Name] && constant {
			continue
		}
		if in.Name == "" {
			return nil, fail("", "an input of the graph has no name")
		}
		t, err := typeOf(in.Type, syms.dimsOf(in.Name))
		if err != nil {
			return nil, err
		}
		v := s.graph.AddParam(in.Name, t)
		v.Doc = in.DocString
		if err := s.define(in.Name, v); err != nil {
			return nil, err
		}
		defaults[in.Name] = has[in.Name]
	}
	return defaults, nil
}

// initialized names the inputs of a graph that are initializers.
func initialized(w *onnxwire.Graph) map[string]bool {
	inputs, has := make(map[string]bool, len(w.Inputs)), map[string]bool{}
	for _, in := range w.Inputs {
		inputs[in.Name] = true
	}
	put := func(name string) {
		if inputs[name] {
			has[name] = true
		}
	}
	for _, t := range w.Initializers {
		put(t.Name)
	}
	for _, t := range w.SparseInitializers {
		if t.Values != nil {
			put(t.Values.Name)
		}
	}
	return has
}

// initializers makes constants of a graph's initializers.
func (s *scope) initializers(w *onnxwire.Graph, defaults map[string]bool) error {
	add := func(name string, c *ssa.Constant) error {
		if name == "" {
			return fail("", "an initializer has no name")
		}
		if defaults[name] {
			mod := s.imp.module
			if mod.Defaults == nil {
				mod.Defaults = map[string]*ssa.Constant{}
			}
			if mod.Defaults[name] != nil {
				return fail("", "the initializer %q is there twice", name)
			}
			mod.Defaults[name] = c
			return nil
		}
		return s.define(name, s.graph.AddConst(s.prefix+name, c))
	}
	for _, t := range w.Initializers {
		if err := s.imp.ctx.Err(); err != nil {
			return err
		}
		c, err := s.imp.constant(t)
		if err != nil {
			return err
		}
		if err := add(t.Name, c); err != nil {
			return err
		}
	}
	for _, t := range w.SparseInitializers {
		c, err := denseConstant(s.imp.ctx, t, s.imp.limits.Expanded)
		if err != nil {
			return err
		}
		if err := add(t.Values.Name, c); err != nil {
			return err
		}
	}
	return nil
}

// nodes builds a graph's nodes in a legal order.
func (s *scope) nodes(w *onnxwire.Graph) error {
	s.declare(w.ValueInfo, w.Outputs)
	order, err := sorted(s.imp.ctx, w.Nodes, s.names)
	if err != nil {
		return err
	}
	release := s.imp.own && w == s.imp.model.Graph // others may be built again
	if release {
		w.Nodes = nil
	}
	for i, n := range order {
		if err := s.node(n); err != nil {
			return err
		}
		if release {
			order[i] = nil // what is built and what was read of a large graph are not both in memory
		}
	}
	return nil
}

func (s *scope) results(w *onnxwire.Graph) ([]*ssa.Value, error) {
	out := make([]*ssa.Value, len(w.Outputs))
	for i, o := range w.Outputs {
		if err := s.imp.look(i); err != nil {
			return nil, err
		}
		v := s.lookup(o.Name)
		if v == nil {
			return nil, fail("", "output %q of graph %q is defined nowhere", o.Name, w.Name)
		}
		out[i] = v
	}
	return out, nil
}
