package onnximport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// namesOf splits "a b - c"; "-" is an absent name.
func namesOf(s string) []string {
	list := strings.Fields(s)
	for i, n := range list {
		if n == "-" {
			list[i] = ""
		}
	}
	return list
}

func wnode(op, in, out string, attrs ...*onnxwire.Attribute) *onnxwire.Node {
	return &onnxwire.Node{OpType: op, Inputs: namesOf(in), Outputs: namesOf(out), Attributes: attrs}
}

func in(domain string, n *onnxwire.Node) *onnxwire.Node {
	n.Domain = domain
	return n
}

func intAttr(name string, v int64) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrInt, I: v}
}

func refAttr(name, ref string, typ onnxwire.AttributeType) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: typ, RefAttrName: ref}
}

func graphAttr(name string, g *onnxwire.Graph) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrGraph, G: g}
}

func tensorAttr(name string, t *onnxwire.Tensor) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrTensor, T: t}
}

// value declares "x" of an element type with dimensions: int, string, or nil.
func value(name string, dt ndarray.DType, dims ...any) *onnxwire.ValueInfo {
	shape := &onnxwire.Shape{}
	for _, d := range dims {
		w := &onnxwire.Dim{}
		switch d := d.(type) {
		case int:
			w.Kind, w.Value = onnxwire.DimValue, int64(d)
		case string:
			w.Kind, w.Param = onnxwire.DimParam, d
		}
		shape.Dims = append(shape.Dims, w)
	}
	return &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.DataType(dt), Shape: shape}}}
}

func floats(name string, v ...float32) *onnxwire.Tensor {
	return &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeFloat, Dims: []int64{int64(len(v))}, RawData: append([]byte{}, ndarray.Bytes(v)...)}
}

func ints(name string, v ...int64) *onnxwire.Tensor {
	return &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeInt64, Dims: []int64{int64(len(v))}, Int64Data: v}
}

// outputs declares results without any type.
func outputs(list string) []*onnxwire.ValueInfo {
	var out []*onnxwire.ValueInfo
	for _, n := range namesOf(list) {
		out = append(out, &onnxwire.ValueInfo{Name: n})
	}
	return out
}

// wmodel is a model of operator set 13 with inputs x and y, float32[2,3], and
// the condition c.
func wmodel(outs string, nodes ...*onnxwire.Node) *onnxwire.Model {
	return &onnxwire.Model{IRVersion: 8, OpsetImports: []*onnxwire.OperatorSetID{{Version: 13}}, Graph: &onnxwire.Graph{
		Name: "g", Nodes: nodes, Outputs: outputs(outs),
		Inputs: []*onnxwire.ValueInfo{value("x", ndarray.Float32, 2, 3), value("y", ndarray.Float32, 2, 3), value("c", ndarray.Bool)},
	}}
}

// load imports a model that must be good, and checks the graph.
func load(t *testing.T, m *onnxwire.Model) *ssa.Module {
	t.Helper()
	mod, err := FromModel(m, "", Options{})
	require.NoError(t, err)
	require.NoError(t, ssa.Check(mod.Graph))
	return mod
}

// refused imports a model that must be bad and returns the error.
func refused(t *testing.T, m *onnxwire.Model, opts Options) *ImportError {
	t.Helper()
	mod, err := FromModel(m, "", opts)
	require.Error(t, err)
	require.Nil(t, mod)
	var e *ImportError
	require.ErrorAs(t, err, &e)
	return e
}

func opNames(g *ssa.Graph) string {
	var list []string
	for _, n := range g.Nodes {
		list = append(list, n.Op)
	}
	return strings.Join(list, " ")
}

func valueNames(list []*ssa.Value) string {
	var out []string
	for _, v := range list {
		if v == nil {
			out = append(out, "-")
			continue
		}
		out = append(out, v.Name)
	}
	return strings.Join(out, " ")
}
