package onnxgo_test

import (
	"strings"
	"testing"

	"github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/internal/onnxwire"
	_ "github.com/berth-onnx/berth/ops/all"
)

// file is a model to serialize: inputs and outputs as "x[2,N] y[3]", nodes made by op.
type file struct {
	opset           int64
	inputs, outputs string
	infos           string // value_info
	weights         []*onnxwire.Tensor
	sparse          []*onnxwire.SparseTensor
	nodes           []*onnxwire.Node
	domain          string                // imported besides the default one
	ports           []*onnxwire.ValueInfo // in place of inputs
	functions       []*onnxwire.Function
}

func (f file) bytes(t testing.TB) []byte {
	t.Helper()
	g := &onnxwire.Graph{Name: "g", Nodes: f.nodes, Initializers: f.weights, SparseInitializers: f.sparse,
		Inputs: ports(f.inputs), Outputs: ports(f.outputs), ValueInfo: ports(f.infos)}
	if f.ports != nil {
		g.Inputs = f.ports
	}
	m := &onnxwire.Model{IRVersion: 4, Graph: g, Functions: f.functions, OpsetImports: []*onnxwire.OperatorSetID{{Version: f.opset}}}
	if f.domain != "" {
		m.OpsetImports = append(m.OpsetImports, &onnxwire.OperatorSetID{Domain: f.domain, Version: 1})
	}
	data, err := onnxwire.Marshal(m)
	require.NoError(t, err)
	return data
}

// ports declares float32 tensors: "x[2,N]"; without brackets the type is left out.
func ports(list string) (out []*onnxwire.ValueInfo) {
	for _, p := range strings.Fields(list) {
		name, dims, typed := strings.Cut(strings.TrimSuffix(p, "]"), "[")
		v := &onnxwire.ValueInfo{Name: name}
		if typed {
			v.Type = &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat, Shape: shapeOf(dims)}}
		}
		out = append(out, v)
	}
	return out
}

func shapeOf(dims string) *onnxwire.Shape {
	s := &onnxwire.Shape{}
	for _, d := range strings.FieldsFunc(dims, func(r rune) bool { return r == ',' }) {
		if n := int64(d[0] - '0'); n <= 9 && n >= 0 {
			s.Dims = append(s.Dims, &onnxwire.Dim{Kind: onnxwire.DimValue, Value: n})
		} else {
			s.Dims = append(s.Dims, &onnxwire.Dim{Kind: onnxwire.DimParam, Param: d})
		}
	}
	return s
}

// op makes a node: op("Add", "x y -> z"); "_" is an operand or result left out.
func op(name, wiring string, attrs ...*onnxwire.Attribute) *onnxwire.Node {
	in, out, _ := strings.Cut(wiring, "->")
	names := func(s string) (list []string) {
		for _, n := range strings.Fields(s) {
			list = append(list, strings.TrimPrefix(n, "_"))
		}
		return list
	}
	return &onnxwire.Node{OpType: name, Inputs: names(in), Outputs: names(out), Attributes: attrs}
}

func intAttr(name string, v int64) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrInt, I: v}
}

func intsAttr(name string, v ...int64) *onnxwire.Attribute {
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrInts, Ints: v}
}

func weight(name string, dims []int64, v ...float32) *onnxwire.Tensor {
	return &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeFloat, Dims: dims, FloatData: v}
}

func indices(name string, v ...int64) *onnxwire.Tensor {
	return &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeInt64, Dims: []int64{int64(len(v))}, Int64Data: v}
}

// floats is a tensor of the shape with the values, or 0, 1, 2 and so on.
func floats(shape []int, v ...float32) *tensor.Dense {
	if v == nil {
		v = make([]float32, tensor.Shape(shape).TotalSize())
		for i := range v {
			v[i] = float32(i)
		}
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))
}

// decoded returns a graph with the model in it, as an existing program makes it.
func decoded(t testing.TB, f file) (*onnxgo.Graph, *onnx.Model) {
	t.Helper()
	g := onnxgo.NewGraph()
	m := onnx.NewModel(g)
	require.NoError(t, m.UnmarshalBinary(f.bytes(t)))
	return g, m
}

// parsed returns a graph that has read the model itself.
func parsed(t testing.TB, f file) (*onnxgo.Graph, *onnx.Model) {
	t.Helper()
	g := onnxgo.NewGraph()
	m := onnx.NewModel(g)
	require.NoError(t, g.Parse(m, f.bytes(t)))
	return g, m
}

// outputs runs the graph and returns the data of its results.
func outputs(t testing.TB, g *onnxgo.Graph, m *onnx.Model, in ...tensor.Tensor) (out []any) {
	t.Helper()
	for i, x := range in {
		require.NoError(t, m.SetInput(i, x))
	}
	require.NoError(t, g.Run())
	list, err := m.GetOutputTensors()
	require.NoError(t, err)
	for _, y := range list {
		require.NotNil(t, y)
		out = append(out, y.Data())
	}
	return out
}
