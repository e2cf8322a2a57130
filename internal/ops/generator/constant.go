package generator

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Constant yields a value held in an attribute: https://onnx.ai/onnx/operators/onnx__Constant.html
var Constant = ops.Op{
	Name: "Constant", Since: 25, Form: kit.TypeForm(1, kit.ViewVersions...), Doc: "output = the one attribute that is set",
	MinIn: 0, MaxIn: 0, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.TensorAttr("value").Mandatory().Before(11), ops.TensorAttr("value").From(11), (&ops.AttrSpec{Name: "sparse_value", Kind: ssa.AttrOther}).From(11),
		ops.FloatAttr("value_float").From(12), ops.FloatsAttr("value_floats").From(12),
		ops.IntAttr("value_int").From(12), ops.IntsAttr("value_ints").From(12),
		ops.StrAttr("value_string").From(12), ops.StringsAttr("value_strings").From(12)},
	Infer: kit.Rule(inferConstant), Eval: kit.Kernel(evalConstant),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.FreeCost},
}

// ConstantValue returns the value of a Constant node. A sparse value is made dense.
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
	strides := ops.Strides(s.Shape)
	bounds := s.Shape
	if s.Indices.Rank() < 2 { // positions in row-major order
		strides, bounds = []int{1}, []int{out.Len()}
	}
	if s.Indices.Len() != s.Values.Len()*len(bounds) {
		return nil, fmt.Errorf("sparse tensor has %d values and indices %v", s.Values.Len(), s.Indices.Shape)
	}
	var w kit.Watch
	for i := range s.Values.Len() {
		at := 0
		for k, bound := range bounds {
			x := s.Indices.Int(i*len(bounds) + k)
			if x < 0 || x >= int64(bound) {
				return nil, fmt.Errorf("sparse index %d is outside of dimension %d of %v", x, k, bounds)
			}
			at += int(x) * strides[k]
		}
		kit.CopyElems(&w, out, at, s.Values, i, 1)
	}
	return out, nil
}

func inferConstant(n *ssa.Node) []ops.Inferred {
	v := kit.Try(ConstantValue(n))
	var content []ssa.Dim
	if v.DType() == ndarray.Int64 || v.DType() == ndarray.Int32 {
		for _, x := range v.Ints(ssa.MaxContent) {
			content = append(content, ssa.D(x))
		}
	}
	return kit.FactOf(v.Type(), content)
}

func evalConstant(c *ops.Call) {
	a := kit.Try(kit.Try(ConstantValue(c.Node)).ArrayContext(c.Ctx, c.Memory))
	kit.CopyReshaped(c, a, a.Shape)
}
