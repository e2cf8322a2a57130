package onnxexport

import (
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// node writes one node with its attributes and bodies. Captured operands are not
// written: the bodies name them.
func (x *exporter) node(n *ssa.Node, scope *names) (*onnxwire.Node, error) {
	w := &onnxwire.Node{OpType: n.Op, Domain: n.Domain, Overload: n.Overload, DocString: n.Doc}
	if n.Name != "" {
		w.Name = x.nodes.fresh(n.Name)
	}
	w.Inputs, w.Outputs = x.namesOf(n.Formals()), x.namesOf(n.Out)
	if origin, _ := n.Origin.(*onnxwire.Node); n.Opaque && origin != nil {
		w.Domain, w.MetadataProps, w.Extra = origin.Domain, origin.MetadataProps, origin.Extra
		if done, err := x.opaqueAttrs(n, w, origin, scope); done || err != nil {
			return w, err
		}
	}
	return w, x.attrs(n, w, scope)
}

// attrs gives w the attributes and bodies of a node.
func (x *exporter) attrs(n *ssa.Node, w *onnxwire.Node, scope *names) error {
	for i := range n.Attrs {
		if ops.Omitted(n, &n.Attrs[i], x.opsets.version[n.Domain]) {
			continue
		}
		a, err := x.attr(&n.Attrs[i])
		if err != nil {
			return x.at(n, err)
		}
		w.Attributes = append(w.Attributes, a)
	}
	for i, g := range n.Bodies {
		b, err := x.body(n, g, scope)
		if err != nil {
			return err
		}
		w.Attributes = append(w.Attributes, &onnxwire.Attribute{Name: n.BodyAttr[i], Type: onnxwire.AttrGraph, G: b})
	}
	return nil
}

// namesOf returns the names of operands or results, not of all once the context has ended.
func (x *exporter) namesOf(values []*ssa.Value) []string {
	if len(values) == 0 {
		return nil
	}
	list := make([]string, 0, len(values))
	for i, v := range values {
		if i%1024 == 1023 && x.opts.Context.Err() != nil {
			break
		}
		list = append(list, x.nameOf(v))
	}
	return list
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

// attr writes one attribute.
func (x *exporter) attr(a *ssa.Attr) (*onnxwire.Attribute, error) {
	w := &onnxwire.Attribute{Name: a.Name}
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
