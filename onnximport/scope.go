package onnximport

import (
	"context"

	"github.com/berth-onnx/berth/internal/names"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// scope resolves names while a list of nodes is built into a graph. There is one
// for the main graph, one for every body and one for every function call:
//
//	main graph ◀─parent── body of If ◀─parent── body of Loop in it
//	     ▲ same graph, other names
//	function call (no parent: a function sees its arguments only)
//
// A name that a body does not define is looked up in the scope around it. If it
// is a constant there, the body gets a constant that shares the elements; else
// the body gets one more parameter, and the node that owns the body one more
// operand (captured).
type scope struct {
	imp    *importer
	graph  *ssa.Graph
	names  map[string]*ssa.Value
	parent *scope

	hints    map[string]*onnxwire.Type // declared types, for results of opaque nodes
	attrs    map[string]boundAttr      // attributes of the function call, for references to them
	inCall   bool                      // in a function: references are allowed
	opsets   map[string]int
	path     []string        // enclosing nodes and calls, for messages
	prefix   string          // put before names of values and nodes that come from a function
	depth    int             // of bodies
	calls    int             // of function calls
	absent   map[string]bool // inputs of the function that the call does not give
	captured []*ssa.Value
	capParam map[*ssa.Value]*ssa.Value // the parameter of each captured value
	room     []*ssa.Value              // memory for the operands of a node
	plain    []ssa.Attr                // memory for its attributes
}

// body opens the scope of a body that node owns.
func (s *scope) body(node string, g *ssa.Graph) *scope {
	return &scope{imp: s.imp, graph: g, names: map[string]*ssa.Value{}, parent: s, attrs: s.attrs, inCall: s.inCall, opsets: s.opsets,
		path: append(s.path[:len(s.path):len(s.path)], node), prefix: s.prefix, depth: s.depth + 1, calls: s.calls}
}

// lookup returns the value of a name, nil if there is none.
func (s *scope) lookup(name string) *ssa.Value {
	if v := s.names[name]; v != nil || s.parent == nil {
		return v
	}
	outer := s.parent.lookup(name)
	if outer == nil {
		return nil
	}
	v := s.capture(outer)
	s.names[name] = v
	return v
}

// capture makes an outer value readable in this scope's graph.
func (s *scope) capture(outer *ssa.Value) *ssa.Value {
	if outer.Const != nil {
		return s.graph.AddConst(outer.Name, outer.Const)
	}
	if v := s.capParam[outer]; v != nil {
		return v
	}
	v := s.graph.AddParam(outer.Name, outer.Type)
	v.Content = outer.Content
	if s.capParam == nil {
		s.capParam = map[*ssa.Value]*ssa.Value{}
	}
	s.captured, s.capParam[outer] = append(s.captured, outer), v
	return v
}

// define gives a value a name. A name is defined once.
func (s *scope) define(name string, v *ssa.Value) error {
	if len(name) > s.imp.limits.NameBytes {
		return fail(raise("NameBytes", "name-bytes"), "the name %q… of a value is longer than %d bytes", name[:min(len(name), 64)], s.imp.limits.NameBytes)
	}
	if s.names[name] != nil {
		return fail("every value must be given its name once", "the value %q is defined twice", name)
	}
	s.names[name] = v
	return nil
}

// operands appends the inputs of a node to a list; an empty name is an absent operand.
func (s *scope) operands(names []string, out []*ssa.Value) ([]*ssa.Value, error) {
	for i, name := range names {
		if err := s.imp.look(i); err != nil {
			return nil, err
		}
		var v *ssa.Value
		if name != "" {
			if v = s.lookup(name); v == nil && !s.isAbsent(name) {
				return nil, fail("", "input %d, %q, is defined nowhere", i, name)
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// isAbsent reports whether a name is an input of the enclosing function that the
// call left out.
func (s *scope) isAbsent(name string) bool {
	for ; s != nil; s = s.parent {
		if s.absent[name] {
			return true
		}
	}
	return false
}

// version returns the operator-set version of a domain in this scope: what the
// function imports, else what the model imports, else 1.
func (s *scope) version(domain string) int {
	if v := s.opsets[domain]; v > 0 {
		return v
	}
	return max(s.imp.opsets[domain], 1)
}

// hint returns the declared element type of a value, without shape.
func (s *scope) hint(name string) ssa.Type {
	t, err := typeOf(s.hints[name], nil)
	if err != nil {
		return ssa.Type{}
	}
	return t
}

// declare remembers declared types of values.
func (s *scope) declare(lists ...[]*onnxwire.ValueInfo) {
	if s.hints == nil {
		s.hints = map[string]*onnxwire.Type{}
	}
	for _, list := range lists {
		for _, v := range list {
			s.hints[v.Name] = v.Type
		}
	}
}

// uniqueNames renames values so that no two of a graph share a name. Parameters
// and results of the main graph keep theirs, because callers know them. The end of the context ends it early.
func uniqueNames(ctx context.Context, g *ssa.Graph) {
	taken := make(names.Set, g.NumValues())
	done := make([]bool, g.NumValues())
	rename := func(v *ssa.Value) {
		if v == nil || done[v.ID] {
			return
		}
		done[v.ID] = true
		v.Name = taken.Fresh(v.Name)
	}
	for _, list := range [][]*ssa.Value{g.Params, g.Results, g.Values()} {
		for _, v := range list {
			if ctx.Err() != nil {
				return
			}
			rename(v)
		}
	}
}
