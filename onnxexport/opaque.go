package onnxexport

import (
	"slices"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// A node of an operator berth does not know is written as it was read: the same
// attributes in the same order, in the form the file had, down to fields this
// version of berth has no name for. Only three things are made anew, because they
// speak of what is around the node: names of values, graphs (they may read values
// that have other names now), and tensors whose elements lie in another file.

// opaqueAttrs gives w the attributes of a node as its record has them. It reports
// false, and does nothing, if the node and its record do not go together.
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
	case i >= 0 && (o.RefAttrName != "" || isExternal(o)):
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

// bodyOf reports that a body is that of an attribute: of a graph, whose name it
// bears, or "name[i]" of a list.
func bodyOf(body, attr string) bool {
	return body == attr || len(body) > len(attr) && body[:len(attr)] == attr && body[len(attr)] == '['
}

func attrIndex(n *ssa.Node, name string) int {
	return slices.IndexFunc(n.Attrs, func(a ssa.Attr) bool { return a.Name == name })
}

// isExternal reports that elements of an attribute's tensors lie in another file,
// whose name and offsets hold for the file that was read only.
func isExternal(a *onnxwire.Attribute) bool {
	outside := func(t *onnxwire.Tensor) bool { return t.DataLocation == onnxwire.DataExternal }
	return a.T != nil && outside(a.T) || slices.ContainsFunc(a.Tensors, outside)
}

func originAttr(origin *onnxwire.Node, name string) *onnxwire.Attribute {
	for _, a := range origin.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}
