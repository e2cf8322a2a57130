package onnximport

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// node builds one node of the file: a constant, the body of a function, or a
// node of the graph lifted to its newest form.
func (s *scope) node(w *onnxwire.Node) error {
	if err := s.imp.ctx.Err(); err != nil {
		return err
	}
	if s.imp.nodes%checkedNodes == checkedNodes-1 {
		if err := ndarray.BudgetOf(s.imp.ctx).CheckContext(s.imp.ctx, "the nodes of the graph"); err != nil {
			return err
		}
	}
	if err := s.buildNode(w); err != nil {
		return s.atNode(w, err)
	}
	return nil
}

// checkedNodes is after how many nodes memory is measured: a node takes some hundred bytes.
const checkedNodes = 1024

func (s *scope) buildNode(w *onnxwire.Node) error {
	if s.imp.nodes++; s.imp.nodes > s.imp.limits.Nodes {
		return fail(raise("Nodes", "nodes"), "the model has more than %d nodes", s.imp.limits.Nodes)
	}
	if max(len(w.Name), len(w.OpType), len(w.Domain), len(w.Overload)) > s.imp.limits.NameBytes {
		return fail(raise("NameBytes", "name-bytes"), "the name of the node, its operator or domain is longer than %d bytes", s.imp.limits.NameBytes)
	}
	domain := cleanDomain(w.Domain)
	if f := s.imp.functions[functionKey{domain, w.OpType, w.Overload}]; f != nil {
		return s.call(w, f)
	}
	attrs, err := s.resolve(w.Attributes)
	if err != nil {
		return err
	}
	if domain == "" && w.OpType == "Constant" {
		return s.addConstant(w, attrs)
	}
	n, err := s.newNode(w, domain, attrs)
	if err != nil {
		return err
	}
	if n.Opaque {
		for i, name := range w.Outputs {
			if v := n.Out[i]; v != nil {
				v.Type = s.hint(name)
			}
		}
		return nil
	}
	if err := ops.Of(n).CheckAttrs(n); err != nil {
		return s.tolerate(n, err, true)
	}
	return s.modernize(n)
}

func (s *scope) addConstant(w *onnxwire.Node, attrs []boundAttr) error {
	if len(w.Outputs) != 1 || w.Outputs[0] == "" {
		return fail("", "it has %d outputs and must have one", len(w.Outputs))
	}
	c, err := s.imp.constantNode(attrs, s.version(""))
	if err != nil {
		return err
	}
	c.SetLiteral()
	return s.define(w.Outputs[0], s.graph.AddConst(s.prefix+w.Outputs[0], c))
}

// newNode appends a node as the file has it: operands, attributes, bodies, results.
func (s *scope) newNode(w *onnxwire.Node, domain string, attrs []boundAttr) (*ssa.Node, error) {
	in, err := s.operands(w.Inputs, s.room[:0])
	if err != nil {
		return nil, err
	}
	s.room = in
	name, opaque := w.OpType, true
	if o := ops.Lookup(domain, name); o != nil && domain != ops.Private {
		domain, name, opaque = o.Domain, o.Name, false // the same strings in all nodes
	}
	plain, bodies, err := s.imp.sortAttrs(s.plain[:0], attrs, opaque)
	if err != nil {
		return nil, err
	}
	s.plain = plain
	built := &noBodies
	if len(bodies) > 0 {
		sketch := &ssa.Node{Domain: domain, Op: name, Overload: w.Overload, Version: s.version(domain), In: in, Attrs: plain}
		if built, err = s.bodies(w, sketch, bodies); err != nil {
			return nil, err
		}
	}
	n := s.graph.NewNode(name, in, 0, plain...)
	n.Domain, n.Overload, n.Doc, n.Version = domain, w.Overload, w.DocString, s.version(domain)
	if w.Name != "" {
		n.Name = s.prefix + w.Name
	}
	built.attach(n)
	if opaque {
		n.Opaque, n.Origin = true, w
	}
	return n, s.addOutputs(n, w.Outputs)
}

// noBodies are those of most nodes.
var noBodies bodySet

// sortAttrs converts the attributes without graphs, appended to plain, and returns those with graphs separately.
func (imp *importer) sortAttrs(plain []ssa.Attr, attrs []boundAttr, opaque bool) (_ []ssa.Attr, bodies []boundAttr, err error) {
	for _, b := range attrs {
		k := b.attr.Kind()
		if k == onnxwire.AttrGraph || k == onnxwire.AttrGraphs {
			bodies = append(bodies, b)
			continue
		}
		if k == onnxwire.AttrUndefined && !opaque {
			continue // the empty list of an old file
		}
		a, err := imp.convert(b.attr)
		if err != nil && (!opaque || b.attr.HasExternal()) {
			return nil, nil, err
		}
		if err != nil { // kept as it is for readers that know the operator
			a = ssa.Attr{Name: b.attr.Name, Kind: ssa.AttrOther, Other: b.attr}
		}
		plain = append(plain, a)
	}
	return plain, bodies, nil
}

func (s *scope) addOutputs(n *ssa.Node, names []string) error {
	for i, name := range names {
		if err := s.imp.look(i); err != nil {
			return err
		}
		if name == "" {
			s.graph.AddOutput(n, "")
			continue
		}
		if err := s.define(name, s.graph.AddOutput(n, s.prefix+name)); err != nil {
			return err
		}
	}
	return nil
}

// modernize rewrites a node to the newest version of its operator and infers the types of its results.
func (s *scope) modernize(n *ssa.Node) error {
	if err := ops.Modernize(s.imp.ctx, s.graph, n); err != nil {
		return s.tolerate(n, err, true)
	}
	if ops.Of(n) == nil {
		return s.tolerate(n, fmt.Errorf("there is no operator %s to replace it", n.Op), true)
	}
	if err := ops.InferContext(s.imp.ctx, n); err != nil {
		if ended := s.imp.ctx.Err(); ended != nil {
			return ended
		}
		return s.tolerate(n, err, false)
	}
	return nil
}

// tolerate turns a failure at a node into a warning if the import is lenient.
// opaque says that the node could not be lifted and is kept as it is.
func (s *scope) tolerate(n *ssa.Node, err error, opaque bool) error {
	if !s.imp.opts.Lenient {
		return err
	}
	n.Opaque = n.Opaque || opaque
	s.imp.warn("node %s: %v", strings.Join(append(s.path[:len(s.path):len(s.path)], n.String()), " / "), err)
	return nil
}

// atNode completes an error with the node it happened at, unless it names one.
func (s *scope) atNode(w *onnxwire.Node, err error) error {
	var e *ImportError
	if ie, ok := err.(*ImportError); ok {
		if ie.Node != "" {
			return ie
		}
		e = ie
	} else {
		e = &ImportError{Reason: err.Error(), Err: err}
		var ne *ops.NodeError
		var ae *ops.AttrError
		switch {
		case errors.As(err, &ne):
			e.Reason = nodeReason(ne)
		case errors.As(err, &ae):
			e.Reason, e.Remedy = ae.Reason, ae.Remedy
		}
	}
	e.Node = strings.Join(append(s.path[:len(s.path):len(s.path)], label(w)), " / ")
	e.Op = w.OpType
	if d := cleanDomain(w.Domain); d != "" {
		e.Op = d + "." + e.Op
	}
	return e
}

// nodeReason describes a failure of type inference in a message that already names the node: stage, operand types and cause, and the inner node if the cause
// lies in a body.
func nodeReason(e *ops.NodeError) string {
	inside := ""
	if len(e.Path) > 0 {
		inside = " at inner node " + strings.Join(append(append([]string(nil), e.Path[1:]...), e.Node), " / ")
	}
	return fmt.Sprintf("%s failed%s for operands (%s): %v", e.Stage, inside, strings.Join(e.Types, ", "), e.Err)
}

// label names a node in messages: its name, or its first output.
func label(w *onnxwire.Node) string {
	if w.Name != "" {
		return fmt.Sprintf("%q", w.Name)
	}
	for _, o := range w.Outputs {
		if o != "" {
			return fmt.Sprintf("→%q", o)
		}
	}
	return w.OpType
}
