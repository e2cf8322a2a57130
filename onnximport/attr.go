package onnximport

import (
	"cmp"
	"unsafe"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/ops/generator"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// boundAttr is an attribute together with the scope it was written in: a graph
// given to a function refers to names of the caller.
type boundAttr struct {
	attr  *onnxwire.Attribute
	scope *scope
}

// resolve replaces references to attributes of the enclosing function by what
// the call gave; an attribute whose reference got nothing is left out.
func (s *scope) resolve(list []*onnxwire.Attribute) ([]boundAttr, error) {
	out := make([]boundAttr, 0, len(list))
	for _, a := range list {
		if a.RefAttrName == "" {
			out = append(out, boundAttr{a, s})
			continue
		}
		if !s.inCall {
			return nil, fail("", "attribute %q refers to attribute %q of a function, but this is no function", a.Name, a.RefAttrName)
		}
		given, ok := s.attrs[a.RefAttrName]
		if !ok {
			continue
		}
		renamed := *given.attr
		renamed.Name = a.Name
		out = append(out, boundAttr{&renamed, given.scope})
	}
	return out, nil
}

// convert turns an attribute without graphs into one of the IR.
func (imp *importer) convert(a *onnxwire.Attribute) (ssa.Attr, error) {
	switch a.Kind() {
	case onnxwire.AttrInt:
		return ssa.IntAttr(a.Name, a.I), nil
	case onnxwire.AttrFloat:
		return ssa.FloatAttr(a.Name, a.F), nil
	case onnxwire.AttrString:
		return ssa.StringAttr(a.Name, text(a.S)), nil
	case onnxwire.AttrInts:
		return ssa.Attr{Name: a.Name, Kind: ssa.AttrInts, Ints: a.Ints}, nil
	case onnxwire.AttrFloats:
		return ssa.Attr{Name: a.Name, Kind: ssa.AttrFloats, Floats: a.Floats}, nil
	case onnxwire.AttrStrings:
		return ssa.Attr{Name: a.Name, Kind: ssa.AttrStrings, Strings: texts(a.Strings)}, nil
	case onnxwire.AttrTensor:
		if a.T == nil {
			return ssa.Attr{}, fail("", "attribute %q holds no tensor", a.Name)
		}
		c, err := imp.constant(a.T)
		return ssa.TensorAttr(a.Name, c), err
	case onnxwire.AttrTensors:
		out := ssa.Attr{Name: a.Name, Kind: ssa.AttrTensors}
		for _, t := range a.Tensors {
			c, err := imp.constant(t)
			if err != nil {
				return out, err
			}
			out.Tensors = append(out.Tensors, c)
		}
		return out, nil
	case onnxwire.AttrTypeProto:
		t, err := typeOf(a.TP, plainDim)
		return ssa.Attr{Name: a.Name, Kind: ssa.AttrType, Type: t}, err
	}
	return ssa.Attr{Name: a.Name, Kind: ssa.AttrOther, Other: a}, nil
}

// kindOf returns the kind that an attribute has in the IR.
func kindOf(a *onnxwire.Attribute) ssa.AttrKind {
	kinds := map[onnxwire.AttributeType]ssa.AttrKind{
		onnxwire.AttrInt: ssa.AttrInt, onnxwire.AttrFloat: ssa.AttrFloat, onnxwire.AttrString: ssa.AttrString,
		onnxwire.AttrInts: ssa.AttrInts, onnxwire.AttrFloats: ssa.AttrFloats, onnxwire.AttrStrings: ssa.AttrStrings,
		onnxwire.AttrTensor: ssa.AttrTensor, onnxwire.AttrTensors: ssa.AttrTensors, onnxwire.AttrTypeProto: ssa.AttrType,
		onnxwire.AttrGraph: ssa.AttrGraph, onnxwire.AttrGraphs: ssa.AttrGraph,
	}
	return cmp.Or(kinds[a.Kind()], ssa.AttrOther)
}

// text is bytes of a message as a string, which shares their memory.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = text(b)
	}
	return out
}

// constant makes a constant of a tensor, wherever its elements are.
func (imp *importer) constant(t *onnxwire.Tensor) (*ssa.Constant, error) {
	if t.DataLocation == onnxwire.DataExternal {
		return imp.external.constant(imp.ctx, t)
	}
	if t.DataLocation != onnxwire.DataDefault {
		return nil, fail("", "tensor %q keeps its elements at location %d, which is unknown", t.Name, t.DataLocation)
	}
	return constantOf(imp.ctx, t)
}

// constantNode reads the value of a Constant node: exactly one of its attributes.
//
// https://onnx.ai/onnx/operators/onnx__Constant.html
func (imp *importer) constantNode(list []boundAttr, version int) (*ssa.Constant, error) {
	var values []*onnxwire.Attribute
	for _, b := range list {
		if err := generator.Constant.CheckAttr(&ssa.Attr{Name: b.attr.Name, Kind: kindOf(b.attr)}, version); err != nil {
			return nil, err
		}
		switch b.attr.Name {
		case "value", "sparse_value", "value_int", "value_ints", "value_float", "value_floats", "value_string", "value_strings":
			values = append(values, b.attr)
		}
	}
	if len(values) != 1 {
		return nil, fail("a Constant holds one value", "it has %d value attributes", len(values))
	}
	a := values[0]
	wrong := func() (*ssa.Constant, error) {
		return nil, fail("", "attribute %q is of type %s", a.Name, a.Kind())
	}
	switch a.Name {
	case "value":
		if a.T == nil {
			return wrong()
		}
		return imp.constant(a.T)
	case "sparse_value":
		if a.SparseTensor == nil {
			return wrong()
		}
		return denseConstant(imp.ctx, a.SparseTensor, imp.limits.Expanded)
	case "value_int":
		return ssa.ScalarConst(a.I), nil
	case "value_ints":
		return ssa.NewConstant(ndarray.Of(a.Ints, len(a.Ints))), nil
	case "value_float":
		return ssa.ScalarConst(a.F), nil
	case "value_floats":
		return ssa.NewConstant(ndarray.Of(a.Floats, len(a.Floats))), nil
	case "value_string":
		return ssa.NewConstant(ndarray.Strings([]string{text(a.S)})), nil
	}
	return ssa.NewConstant(ndarray.Strings(texts(a.Strings), len(a.Strings))), nil
}
