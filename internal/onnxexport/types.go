package onnxexport

import (
	"fmt"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// typeProto writes a type; nil if nothing is known.
func typeProto(t ssa.Type) *onnxwire.Type {
	elem := func() *onnxwire.Type {
		if t.Elem == nil {
			return nil
		}
		return typeProto(*t.Elem)
	}
	switch t.Kind {
	case ssa.KindTensor:
		return &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.DataType(t.DType), Shape: shapeProto(t)}}
	case ssa.KindSparse:
		return &onnxwire.Type{SparseTensor: &onnxwire.TensorType{ElemType: onnxwire.DataType(t.DType), Shape: shapeProto(t)}}
	case ssa.KindSequence:
		return &onnxwire.Type{Sequence: &onnxwire.SequenceType{ElemType: elem()}}
	case ssa.KindOptional:
		return &onnxwire.Type{Optional: &onnxwire.OptionalType{ElemType: elem()}}
	case ssa.KindMap:
		return &onnxwire.Type{Map: &onnxwire.MapType{KeyType: onnxwire.DataType(t.DType), ValueType: elem()}}
	}
	return nil
}

func shapeProto(t ssa.Type) *onnxwire.Shape {
	if !t.Ranked {
		return nil
	}
	s := &onnxwire.Shape{Dims: make([]*onnxwire.Dim, len(t.Shape))}
	for i, d := range t.Shape {
		s.Dims[i] = dimProto(d)
	}
	return s
}

// dimProto writes a dimension: a number, the name of a symbol, the canonical
// text of an expression, or nothing.
func dimProto(d ssa.Dim) *onnxwire.Dim {
	if n, ok := d.Const(); ok {
		return &onnxwire.Dim{Kind: onnxwire.DimValue, Value: n}
	}
	if name, ok := d.SymbolName(); ok {
		return &onnxwire.Dim{Kind: onnxwire.DimParam, Param: name}
	}
	if d.Known() {
		return &onnxwire.Dim{Kind: onnxwire.DimParam, Param: d.String()}
	}
	return &onnxwire.Dim{}
}

// info writes a value; a type whose element type is unknown is left out.
func info(name string, t ssa.Type, doc string) *onnxwire.ValueInfo {
	v := &onnxwire.ValueInfo{Name: name, DocString: doc}
	if isTyped(t) {
		v.Type = typeProto(t)
	}
	return v
}

// withoutShape keeps kind and element type.
func withoutShape(t ssa.Type) ssa.Type {
	t.Ranked, t.Shape = false, nil
	if t.Elem != nil {
		e := withoutShape(*t.Elem)
		t.Elem = &e
	}
	return t
}

// isTyped reports whether kind and element type are known, those of members included.
func isTyped(t ssa.Type) bool {
	switch t.Kind {
	case ssa.KindTensor, ssa.KindSparse:
		return t.DType != ndarray.Undefined
	case ssa.KindSequence, ssa.KindOptional, ssa.KindMap:
		return t.Elem != nil && isTyped(*t.Elem)
	}
	return false
}

// inputInfo writes an input of the model as the file declared it, with what has
// been learned since.
func (x *exporter) inputInfo(p *ssa.Value, declared *onnxwire.ValueInfo) *onnxwire.ValueInfo {
	return x.ioInfo(x.names[p], p, declared, func(axis int, d ssa.Dim, was *onnxwire.Dim) *onnxwire.Dim {
		if name, ok := d.SymbolName(); ok && !named(was) && strings.HasPrefix(name, fmt.Sprintf("%s.%d", p.Name, axis)) {
			return &onnxwire.Dim{} // the importer's own name for a length the file left open
		}
		return dimProto(d)
	})
}

// outputInfo writes output i of the model. The inferred shape wins over the
// declared one; the declared one fills in what inference left open.
func (x *exporter) outputInfo(i int, name string, r *ssa.Value) *onnxwire.ValueInfo {
	var declared *onnxwire.ValueInfo
	if list := x.carried.Graph.Outputs; len(list) == len(x.mod.Graph.Results) {
		declared = list[i]
	}
	return x.ioInfo(name, r, declared, func(_ int, d ssa.Dim, was *onnxwire.Dim) *onnxwire.Dim {
		if !d.Known() && named(was) {
			return &onnxwire.Dim{Kind: was.Kind, Value: was.Value, Param: was.Param}
		}
		return dimProto(d)
	})
}

// named reports that a declared dimension says something.
func named(d *onnxwire.Dim) bool {
	return d != nil && (d.Kind == onnxwire.DimValue && d.Value > 0 || d.Kind == onnxwire.DimParam && d.Param != "" && d.Param != "?")
}

// ioInfo merges the type of a value with its declaration. dim decides about
// each axis.
func (x *exporter) ioInfo(name string, v *ssa.Value, declared *onnxwire.ValueInfo, dim func(int, ssa.Dim, *onnxwire.Dim) *onnxwire.Dim) *onnxwire.ValueInfo {
	t := x.typeOf(v)
	out := info(name, t, v.Doc)
	if declared == nil {
		return out
	}
	out.DocString, out.MetadataProps, out.Extra = declared.DocString, declared.MetadataProps, declared.Extra
	was := declared.Type
	if out.Type == nil {
		out.Type = was
		return out
	}
	if was == nil {
		return out
	}
	out.Type.Denotation = was.Denotation
	if out.Type.Tensor == nil || was.Tensor == nil || was.Tensor.Shape == nil {
		return out
	}
	if out.Type.Tensor.Shape == nil {
		out.Type.Tensor.Shape = was.Tensor.Shape
		return out
	}
	dims := was.Tensor.Shape.Dims
	for i, d := range t.Shape {
		var old *onnxwire.Dim
		if i < len(dims) && len(dims) == len(t.Shape) {
			old = dims[i]
		}
		w := dim(i, d, old)
		if old != nil {
			w.Denotation = old.Denotation
		}
		out.Type.Tensor.Shape.Dims[i] = w
	}
	return out
}

// valueInfo writes the types of a node's results where a reader can not infer
// them, or all if the options ask for that.
func (x *exporter) valueInfo(g *ssa.Graph, n *ssa.Node) []*onnxwire.ValueInfo {
	if !n.Opaque && !x.opts.ValueInfo {
		return nil
	}
	var out []*onnxwire.ValueInfo
	for i, v := range n.Out {
		if i%1024 == 1023 && x.opts.Context.Err() != nil {
			break
		}
		if v != nil && isTyped(v.Type) && !g.IsResult(v) {
			out = append(out, info(x.names[v], x.typeOf(v), v.Doc))
		}
	}
	return out
}
