package onnxexport

import (
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ssa"
)

// node writes one node with its attributes and bodies. Captured operands are not
// written: the bodies name them.
func (x *exporter) node(n *ssa.Node, scope *names) (*onnxwire.Node, error) {
	w := &onnxwire.Node{OpType: n.Op, Domain: n.Domain, Overload: n.Overload, DocString: n.Doc}
	if n.Name != "" {
		w.Name = x.nodes.fresh(n.Name)
	}
	origin, _ := n.Origin.(*onnxwire.Node)
	if n.Opaque && origin != nil {
		w.MetadataProps, w.DeviceConfigurations, w.Extra = origin.MetadataProps, origin.DeviceConfigurations, origin.Extra
	} else {
		origin = nil
	}
	for _, v := range n.Formals() {
		w.Inputs = append(w.Inputs, x.nameOf(v))
	}
	for _, v := range n.Out {
		w.Outputs = append(w.Outputs, x.nameOf(v))
	}
	for i := range n.Attrs {
		a, err := x.attr(&n.Attrs[i], origin)
		if err != nil {
			return nil, x.at(n, err)
		}
		w.Attributes = append(w.Attributes, a)
	}
	x.path = append(x.path, n.String())
	defer func() { x.path = x.path[:len(x.path)-1] }()
	for i, g := range n.Bodies {
		b, err := x.body(n, g, scope)
		if err != nil {
			return nil, err
		}
		addBody(w, n.BodyAttr[i], b, origin)
	}
	return w, nil
}

// nameOf returns a value's name, "" for an absent one.
func (x *exporter) nameOf(v *ssa.Value) string {
	if v == nil {
		return ""
	}
	return x.names[v]
}

// at names the node an error happened at.
func (x *exporter) at(n *ssa.Node, err error) error {
	e, ok := err.(*ExportError)
	if !ok {
		e = &ExportError{Reason: err.Error(), Err: err}
	}
	if e.Node == "" {
		e.Node = strings.Join(append(x.path[:len(x.path):len(x.path)], n.String()), " / ")
	}
	return e
}

// addBody adds a graph attribute, or, for a body "name[i]" of a node whose record
// has a list of graphs, one more graph to that list.
func addBody(w *onnxwire.Node, name string, g *onnxwire.Graph, origin *onnxwire.Node) {
	list, _, _ := strings.Cut(name, "[")
	if o := originAttr(origin, list); o == nil || o.Kind() != onnxwire.AttrGraphs {
		w.Attributes = append(w.Attributes, &onnxwire.Attribute{Name: name, Type: onnxwire.AttrGraph, G: g})
		return
	}
	for _, a := range w.Attributes {
		if a.Name == list {
			a.Graphs = append(a.Graphs, g)
			return
		}
	}
	w.Attributes = append(w.Attributes, &onnxwire.Attribute{Name: list, Type: onnxwire.AttrGraphs, Graphs: []*onnxwire.Graph{g}})
}

func originAttr(origin *onnxwire.Node, name string) *onnxwire.Attribute {
	if origin == nil {
		return nil
	}
	for _, a := range origin.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// attr writes one attribute.
func (x *exporter) attr(a *ssa.Attr, origin *onnxwire.Node) (*onnxwire.Attribute, error) {
	w := &onnxwire.Attribute{Name: a.Name}
	if o := originAttr(origin, a.Name); o != nil {
		w.DocString = o.DocString
	}
	switch a.Kind {
	case ssa.AttrInt:
		w.Type, w.I = onnxwire.AttrInt, a.I
	case ssa.AttrFloat:
		w.Type, w.F = onnxwire.AttrFloat, a.F
	case ssa.AttrString:
		w.Type, w.S = onnxwire.AttrString, []byte(a.S)
	case ssa.AttrInts:
		w.Type, w.Ints = onnxwire.AttrInts, a.Ints
	case ssa.AttrFloats:
		w.Type, w.Floats = onnxwire.AttrFloats, a.Floats
	case ssa.AttrStrings:
		w.Type = onnxwire.AttrStrings
		for _, s := range a.Strings {
			w.Strings = append(w.Strings, []byte(s))
		}
	case ssa.AttrType:
		w.Type, w.TP = onnxwire.AttrTypeProto, typeProto(a.Type)
	case ssa.AttrTensor:
		w.Type = onnxwire.AttrTensor
		t, err := x.tensor("", a.Tensor)
		w.T = t
		return w, err
	case ssa.AttrTensors:
		w.Type = onnxwire.AttrTensors
		for _, c := range a.Tensors {
			t, err := x.tensor("", c)
			if err != nil {
				return nil, err
			}
			w.Tensors = append(w.Tensors, t)
		}
	case ssa.AttrOther:
		other, ok := a.Other.(*onnxwire.Attribute)
		if !ok {
			return nil, &ExportError{Reason: "attribute " + a.Name + " has a form that ONNX does not know"}
		}
		named := *other
		named.Name, named.RefAttrName = a.Name, ""
		return &named, nil
	default:
		return nil, &ExportError{Reason: "attribute " + a.Name + " has no value"}
	}
	return w, nil
}
