package onnxexport

import (
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// A node of an unknown operator is written as it was read: the same attributes in the same order, in the form the file had,
// unknown fields included. Three things are written anew because they depend on what surrounds the node: names of values,
// graphs (they may read values that have other names now), and tensors whose elements lie in another file (its name and
// offsets hold for the file that was read only).

// opaqueAttrs gives w the attributes of a node as its record has them. It reports
// false, and does nothing, if the node and its record do not agree.
func (x *exporter) opaqueAttrs(n *ssa.Node, w, origin *onnxwire.Node, scope *names) (bool, error) {
	given := make([]bool, len(n.Attrs))
	missing := slices.Clone(n.BodyAttr)
	for _, o := range origin.Attributes {
		if i := attrIndex(n, o.Name); i >= 0 {
			given[i] = true
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return bodyOf(name, o.Name) })
	}
	if slices.Contains(given, false) || len(missing) > 0 {
		return false, nil
	}
	for _, o := range origin.Attributes {
		a, err := x.opaqueAttr(n, o, scope)
		if err != nil {
			return true, x.at(n, err)
		}
		if a != nil {
			w.Attributes = append(w.Attributes, a)
		}
	}
	return true, nil
}

// opaqueAttr writes one attribute of the record; nil if it referred to an attribute
// of a function that the call did not give.
func (x *exporter) opaqueAttr(n *ssa.Node, o *onnxwire.Attribute, scope *names) (*onnxwire.Attribute, error) {
	graph := slices.ContainsFunc(n.BodyAttr, func(name string) bool { return bodyOf(name, o.Name) })
	i := attrIndex(n, o.Name)
	switch {
	case graph:
		return x.opaqueBodies(n, o, scope)
	case i < 0 && o.RefAttrName != "":
		return nil, nil
	case i >= 0 && (o.RefAttrName != "" || o.HasExternal()):
		a, err := x.attr(&n.Attrs[i])
		if err == nil {
			a.DocString = o.DocString
		}
		return a, err
	}
	return o, nil
}

// opaqueBodies writes a graph or a list of graphs.
func (x *exporter) opaqueBodies(n *ssa.Node, o *onnxwire.Attribute, scope *names) (*onnxwire.Attribute, error) {
	a := *o
	a.RefAttrName, a.G, a.Graphs = "", nil, nil
	for i, name := range n.BodyAttr {
		if !bodyOf(name, o.Name) {
			continue
		}
		g, err := x.body(n, n.Bodies[i], scope)
		if err != nil {
			return nil, err
		}
		if name == o.Name {
			a.G = g
		} else {
			a.Graphs = append(a.Graphs, g)
		}
	}
	return &a, nil
}

// bodyOf reports whether a body belongs to an attribute: a body has the attribute's name, or "name[i]" in a list of graphs.
func bodyOf(body, attr string) bool { return body == attr || strings.HasPrefix(body, attr+"[") }

func attrIndex(n *ssa.Node, name string) int {
	return slices.IndexFunc(n.Attrs, func(a ssa.Attr) bool { return a.Name == name })
}
