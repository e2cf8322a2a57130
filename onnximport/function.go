package onnximport

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

type functionKey struct{ domain, name, overload string }

func (imp *importer) indexFunctions() error {
	imp.functions = make(map[functionKey]*onnxwire.Function, len(imp.model.Functions))
	for _, f := range imp.model.Functions {
		k := functionKey{cleanDomain(f.Domain), f.Name, f.Overload}
		if imp.functions[k] != nil {
			return fail("", "function %s of domain %q is defined twice", f.Name, displayDomain(k.domain))
		}
		imp.functions[k] = f
	}
	return nil
}

// call puts the nodes of a function in the place of a node that calls it.
//
// The function's names live in a scope of their own; in the graph they get the
// call's name as a prefix. Its operator sets are its own imports.
func (s *scope) call(w *onnxwire.Node, f *onnxwire.Function) error {
	if s.calls+1 > s.imp.limits.CallDepth {
		return s.imp.tooDeep()
	}
	inner, err := s.callScope(w, f)
	if err != nil {
		return err
	}
	if err := s.passArguments(inner, w, f); err != nil {
		return err
	}
	if err := inner.nodes(&onnxwire.Graph{Nodes: f.Nodes, ValueInfo: f.ValueInfo}); err != nil {
		return err
	}
	if len(w.Outputs) > len(f.Outputs) {
		return fail("", "the call has %d outputs, the function %d", len(w.Outputs), len(f.Outputs))
	}
	for i, name := range w.Outputs {
		if name == "" {
			continue
		}
		v := inner.names[f.Outputs[i]]
		if v == nil {
			return fail("", "output %q of the function is defined nowhere", f.Outputs[i])
		}
		if err := s.define(name, v); err != nil {
			return err
		}
		if v.Def != nil && v.Def.Output(v.DefIndex) == v {
			v.Name = s.prefix + name
		}
	}
	return nil
}

// callScope opens the scope of a function body.
func (s *scope) callScope(w *onnxwire.Node, f *onnxwire.Function) (*scope, error) {
	name := w.Name
	if name == "" {
		name = fmt.Sprintf("%s_%d", f.Name, s.imp.nodes)
	}
	inner := &scope{imp: s.imp, graph: s.graph, names: map[string]*ssa.Value{}, inCall: true,
		attrs: map[string]boundAttr{}, opsets: map[string]int{}, prefix: s.prefix + name + "/",
		path: append(s.path[:len(s.path):len(s.path)], label(w)), depth: s.depth, calls: s.calls + 1}
	if len(inner.prefix) > s.imp.limits.NameBytes {
		return nil, fail(raise("NameBytes", "name-bytes"), "names of nested calls are longer than %d bytes", s.imp.limits.NameBytes)
	}
	for _, o := range f.OpsetImports {
		inner.opsets[cleanDomain(o.Domain)] = int(min(max(o.Version, 1), 1<<30))
	}
	given, err := s.resolve(w.Attributes)
	if err != nil {
		return nil, err
	}
	for _, a := range f.AttributeProtos {
		inner.attrs[a.Name] = boundAttr{a, inner}
	}
	for _, b := range given {
		known := slices.Contains(f.Attributes, b.attr.Name) || inner.attrs[b.attr.Name].attr != nil
		if !known {
			return nil, fail("", "the function has no attribute %q", b.attr.Name)
		}
		inner.attrs[b.attr.Name] = b
	}
	return inner, nil
}

// passArguments binds the function's inputs to the operands of the call. An
// input that gets nothing is absent wherever the function reads it.
func (s *scope) passArguments(inner *scope, w *onnxwire.Node, f *onnxwire.Function) error {
	if len(w.Inputs) > len(f.Inputs) {
		return fail("", "the call has %d inputs, the function %d", len(w.Inputs), len(f.Inputs))
	}
	in, err := s.operands(w.Inputs, nil)
	if err != nil {
		return err
	}
	inner.absent = map[string]bool{}
	for i, name := range f.Inputs {
		if i >= len(in) || in[i] == nil {
			inner.absent[name] = true
			continue
		}
		if err := inner.define(name, in[i]); err != nil {
			return err
		}
	}
	return nil
}
