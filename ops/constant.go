package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Constant yields a value held in an attribute: https://onnx.ai/onnx/operators/onnx__Constant.html
var Constant = Op{
	Name: "Constant", Since: 25, Form: typeForm(1, viewVersions...), Doc: "output = the one attribute that is set",
	MinIn: 0, MaxIn: 0, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{tensorAttr("value").required().until(11), tensorAttr("value").since(11), AttrSpec{Name: "sparse_value", Kind: ssa.AttrOther}.since(11),
		floatAttr("value_float").since(12), floatsAttr("value_floats").since(12),
		intAttr("value_int").since(12), intsAttr("value_ints").since(12),
		strAttr("value_string").since(12), stringsAttr("value_strings").since(12)},
	Infer: rule(inferConstant), Eval: kernel(evalConstant),
	Facts: Facts{Traits: general, Cost: freeCost},
}

// ConstantValue returns the value a Constant node stands for. A sparse value is
// made dense.
func ConstantValue(n *ssa.Node) (*ssa.Constant, error) {
	if len(n.Attrs) != 1 {
		return nil, fmt.Errorf("Constant has %d attributes, it must have exactly one", len(n.Attrs))
	}
	a := &n.Attrs[0]
	switch a.Name {
	case "value":
		if a.Tensor == nil {
			return nil, fmt.Errorf("attribute value holds no tensor")
		}
		return a.Tensor, nil
	case "sparse_value":
		s, ok := a.Other.(*ndarray.Sparse)
		if !ok {
			return nil, fmt.Errorf("attribute sparse_value holds no sparse tensor")
		}
		d, err := DenseOf(s)
		if err != nil {
			return nil, err
		}
		return ssa.NewConstant(d), nil
	case "value_float":
		return ssa.ScalarConst(a.F), nil
	case "value_floats":
		return ssa.NewConstant(ndarray.Of(append([]float32{}, a.Floats...), len(a.Floats))), nil
	case "value_int":
		return ssa.ScalarConst(a.I), nil
	case "value_ints":
		return ssa.Int64s(a.Ints...), nil
	case "value_string":
		return ssa.NewConstant(ndarray.Strings([]string{a.S})), nil
	case "value_strings":
		return ssa.NewConstant(ndarray.Strings(append([]string{}, a.Strings...), len(a.Strings))), nil
	}
	return nil, fmt.Errorf("Constant does not know attribute %q", a.Name)
}

// DenseOf spreads a sparse tensor's values over a dense one: zeros (or empty
// strings) elsewhere. Indices out of the shape are errors.
func DenseOf(s *ndarray.Sparse) (*ndarray.Array, error) {
	if s.Values == nil || s.Indices == nil || !s.Indices.DType.IsInteger() {
		return nil, fmt.Errorf("sparse tensor lacks values or integer indices")
	}
	out, err := ndarray.New(s.Values.DType, s.Shape...)
	if err != nil {
		return nil, err
	}
	nnz, rank := s.Values.Len(), len(s.Shape)
	linear := s.Indices.Rank() < 2
	width := rank
	if linear {
		width = 1
	}
	if s.Indices.Len() != nnz*width {
		return nil, fmt.Errorf("sparse tensor has %d values and indices %v", nnz, s.Indices.Shape)
	}
	strides := Strides(s.Shape)
	for i := range nnz {
		at := int64(0)
		if linear {
			at = s.Indices.Int(i)
		}
		for k := range rank {
			if linear {
				break
			}
			x := s.Indices.Int(i*rank + k)
			if x < 0 || x >= int64(s.Shape[k]) {
				return nil, fmt.Errorf("sparse index %d is outside of dimension %d of %v", x, k, s.Shape)
			}
			at += x * int64(strides[k])
		}
		if at < 0 || at >= int64(out.Len()) {
			return nil, fmt.Errorf("sparse index %d is outside of shape %v", at, s.Shape)
		}
		copyElems(out, int(at), s.Values, i, 1)
	}
	return out, nil
}

func inferConstant(n *ssa.Node) []Inferred {
	v := try(ConstantValue(n))
	var content []ssa.Dim
	if v.DType() == ndarray.Int64 || v.DType() == ndarray.Int32 {
		for _, x := range v.Ints(ssa.MaxContent) {
			content = append(content, ssa.D(x))
		}
	}
	return factOf(v.Type(), content)
}

func evalConstant(c *Call) {
	v := try(ConstantValue(c.Node))
	a := try(v.Array())
	copyReshaped(c, a, a.Shape)
}
