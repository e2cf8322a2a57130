package onnxgo_test

import (
	"testing"

	"github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/internal/onnxwire"
)

// TestOperatorSets decodes models as existing programs do. The operator set is found where the other operators, attributes or
// operands show it, and does not matter where both meanings are the same; else Run fails with a LossError. The second decoding
// is by the graph, which reads the operator set.
func TestOperatorSets(t *testing.T) {
	squeeze := op("Squeeze", "y axes -> z")
	for _, c := range []struct {
		name  string
		f     file
		shape []int
		loss  string // the operator refused
	}{
		{"nothing shows the version of Softmax", file{opset: 12, nodes: []*onnxwire.Node{op("Softmax", "x -> y")}, outputs: "y[2,2,2]"}, []int{2, 2, 2}, "Softmax"},
		{"the same in 13", file{opset: 13, nodes: []*onnxwire.Node{op("Softmax", "x -> y")}, outputs: "y[2,2,2]"}, []int{2, 2, 2}, "Softmax"},
		{"a matrix is the same to both", file{opset: 12, nodes: []*onnxwire.Node{op("Softmax", "x -> y")}, outputs: "y[2,3]"}, []int{2, 3}, ""},
		{"so is the last axis", file{opset: 13, nodes: []*onnxwire.Node{op("Softmax", "x -> y", intAttr("axis", -1))}, outputs: "y[2,2,2]"}, []int{2, 2, 2}, ""},
		{"so are dimensions of one", file{opset: 12, nodes: []*onnxwire.Node{op("Softmax", "x -> y", intAttr("axis", 1))}, outputs: "y[2,3,1]"}, []int{2, 3, 1}, ""},
		{"axes as an attribute show 12", file{opset: 12, nodes: []*onnxwire.Node{op("Softmax", "x -> y"), op("Squeeze", "y -> z", intsAttr("axes", 0))}, outputs: "z[2,2]"}, []int{1, 2, 2}, ""},
		{"axes as an operand show 13", file{opset: 13, nodes: []*onnxwire.Node{op("Softmax", "x -> y"), squeeze}, outputs: "z[2,2]", weights: []*onnxwire.Tensor{indices("axes", 0)}}, []int{1, 2, 2}, ""},
		{"an operator of 17 shows 13", file{opset: 17, nodes: []*onnxwire.Node{op("Softmax", "x -> y"), op("LayerNormalization", "y w -> z")}, outputs: "z[2,2,2]",
			weights: []*onnxwire.Tensor{weight("w", []int64{2}, 1, 2)}}, []int{2, 2, 2}, ""},
		{"an operator that 10 dropped shows 9", file{opset: 9, nodes: []*onnxwire.Node{op("Softmax", "x -> y"), op("Upsample", "y w -> z")}, outputs: "z[2,2,4]",
			weights: []*onnxwire.Tensor{weight("w", []int64{3}, 1, 1, 2)}}, []int{2, 2, 2}, ""},
		{"two operands of Resize show 10", file{opset: 10, nodes: []*onnxwire.Node{op("Resize", "x w -> y")}, outputs: "y[2,4]", weights: []*onnxwire.Tensor{weight("w", []int64{2}, 1, 2)}}, []int{2, 2}, ""},
		{"broadcasting by attributes is below 7", file{opset: 6, nodes: []*onnxwire.Node{op("Add", "x w -> y", intAttr("broadcast", 1), intAttr("axis", 0))}, outputs: "y[2,3]",
			weights: []*onnxwire.Tensor{weight("w", []int64{2}, 1, 2)}}, []int{2, 3}, ""},
		{"operators of com.microsoft", file{opset: 13, domain: "com.microsoft", nodes: []*onnxwire.Node{{OpType: "QuickGelu", Domain: "com.microsoft", Inputs: []string{"x"}, Outputs: []string{"y"}}}, outputs: "y[2,3]"}, []int{2, 3}, ""},
		{"an operator that the standard took over", file{opset: 13, domain: "com.microsoft", nodes: []*onnxwire.Node{{OpType: "Gelu", Domain: "com.microsoft", Inputs: []string{"x"}, Outputs: []string{"y"}}}, outputs: "y[2,3]"}, []int{2, 3}, ""},
		{"an operator nobody has", file{opset: 13, domain: "com.acme", nodes: []*onnxwire.Node{{OpType: "Twist", Domain: "com.acme", Inputs: []string{"x"}, Outputs: []string{"y"}}}, outputs: "y[2,3]",
			functions: []*onnxwire.Function{{Name: "Twist", Domain: "com.acme", Inputs: []string{"a"}, Outputs: []string{"b"}, Nodes: []*onnxwire.Node{op("Neg", "a -> b")},
				OpsetImports: []*onnxwire.OperatorSetID{{Version: 13}}}}}, []int{2, 3}, "Twist"},
		{"a sparse initializer", file{opset: 13, nodes: []*onnxwire.Node{op("Add", "x s -> y")}, outputs: "y[2]",
			sparse: []*onnxwire.SparseTensor{{Values: weight("s", []int64{1}, 7), Indices: indices("", 1), Dims: []int64{2}}}}, []int{2}, "Add"},
		{"an attribute of an old file", file{opset: 13, nodes: []*onnxwire.Node{op("Softmax", "x -> y", &onnxwire.Attribute{Name: "axis"})}, outputs: "y[2,3]"}, []int{2, 3}, "Softmax"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.f.inputs = "x[" + "N,C,H"[:2*len(c.shape)-1] + "]"
			g, m := parsed(t, c.f)
			want := outputs(t, g, m, floats(c.shape))
			g, m = decoded(t, c.f)
			if c.loss == "" {
				assert.Equal(t, want, outputs(t, g, m, floats(c.shape)))
				return
			}
			require.NoError(t, m.SetInput(0, floats(c.shape)))
			var loss *onnxgo.LossError
			require.ErrorAs(t, g.Run(), &loss)
			assert.Equal(t, c.loss, loss.Operator)
			assert.NotEmpty(t, loss.Value)
			assert.Contains(t, loss.Error(), "Parse")
		})
	}
}

// TestMeaningDependsOnShapes changes the shape of an input between runs: the meaning is looked at for each.
func TestMeaningDependsOnShapes(t *testing.T) {
	g, m := decoded(t, file{opset: 12, inputs: "x[N,C,H]", outputs: "y[N,C,H]", nodes: []*onnxwire.Node{op("Softmax", "x -> y", intAttr("axis", 1))}})
	for _, c := range []struct {
		shape []int
		fails bool
	}{{[]int{1, 3, 1}, false}, {[]int{1, 3, 2}, true}, {[]int{2, 3, 1}, false}, {[]int{1, 1, 5}, true}} {
		require.NoError(t, m.SetInput(0, floats(c.shape)))
		assert.Equal(t, c.fails, g.Run() != nil, "%v", c.shape)
	}
}

// TestPartsThatGetLost decodes what onnx-go drops or makes up on the way: the result is that of the graph that reads the file.
func TestPartsThatGetLost(t *testing.T) {
	ramp := func() []float32 { return []float32{1, 2, 3, 4} }
	for _, c := range []struct {
		name string
		f    file
	}{
		{"an operand used twice", file{inputs: "x[4]", outputs: "y[4]", nodes: []*onnxwire.Node{op("Mul", "x x -> y")}}},
		{"operands that do not commute", file{inputs: "x[4]", outputs: "y[4]", nodes: []*onnxwire.Node{op("Neg", "x -> a"), op("Sub", "a x -> b"), op("Div", "x b -> y")}}},
		{"an operand left out", file{inputs: "x[4]", outputs: "y[4]", weights: []*onnxwire.Tensor{weight("most", nil, 2.5)}, nodes: []*onnxwire.Node{op("Clip", "x _ most -> y")}}},
		{"results left out, of two nodes", file{inputs: "x[4]", outputs: "b[4] i[4]", nodes: []*onnxwire.Node{
			op("Unique", "x -> a _ i _"), op("Neg", "a -> n"), op("Unique", "n -> b _ _ k")}}},
		{"an operator without operands", file{inputs: "x[4]", outputs: "y[4]", nodes: []*onnxwire.Node{
			op("Constant", "-> c", &onnxwire.Attribute{Name: "value", Type: onnxwire.AttrTensor, T: weight("", []int64{4}, ramp()...)}), op("Add", "x c -> y")}}},
		{"two of them", file{inputs: "x[4]", outputs: "y[4]", nodes: []*onnxwire.Node{
			op("Constant", "-> c", &onnxwire.Attribute{Name: "value_float", Type: onnxwire.AttrFloat, F: 3}), op("Constant", "-> d", &onnxwire.Attribute{Name: "value_floats", Type: onnxwire.AttrFloats, Floats: ramp()}),
			op("Mul", "x c -> a"), op("Add", "a d -> y")}}},
		{"an input that is an output", file{inputs: "x[4]", outputs: "x[4] y[4]", nodes: []*onnxwire.Node{op("Neg", "x -> y")}}},
		{"an input with a value info", file{inputs: "x[4]", infos: "x[4] a[4]", outputs: "y[4]", nodes: []*onnxwire.Node{op("Neg", "x -> a"), op("Neg", "a -> y")}}},
		{"a weight with a value info", file{inputs: "x[4]", infos: "w[4]", outputs: "y[4]", weights: []*onnxwire.Tensor{weight("w", []int64{4}, ramp()...)}, nodes: []*onnxwire.Node{op("Add", "x w -> y")}}},
		{"a weight of zeros", file{inputs: "x[4]", outputs: "y[4]", weights: []*onnxwire.Tensor{weight("w", []int64{4}, 0, 0, 0, 0)}, nodes: []*onnxwire.Node{op("Mul", "x w -> y")}}},
		{"an output that is a weight", file{inputs: "x[4]", outputs: "w[4] y[4]", weights: []*onnxwire.Tensor{weight("w", []int64{4}, ramp()...)}, nodes: []*onnxwire.Node{op("Add", "x w -> y")}}},
		{"the last output is a weight", file{inputs: "x[4]", outputs: "y[4] w[4]", weights: []*onnxwire.Tensor{weight("v", []int64{4}, ramp()...), weight("w", []int64{4}, ramp()...)}, nodes: []*onnxwire.Node{op("Add", "x w -> y")}}},
		{"an output that is read", file{inputs: "x[4]", outputs: "a[4] y[4]", nodes: []*onnxwire.Node{op("Neg", "x -> a"), op("Exp", "a -> y")}}},
		{"all values declared", file{inputs: "x[4]", infos: "b[4] c[4]", outputs: "a[4] y[4]", nodes: []*onnxwire.Node{op("Neg", "x -> b"), op("Exp", "b -> a"), op("Abs", "a -> c"), op("Sin", "c -> y")}}},
		{"nodes in any order", file{inputs: "x[4]", outputs: "y[4]", nodes: []*onnxwire.Node{op("Exp", "a -> y"), op("Neg", "x -> a")}}},
		{"outputs without types", file{inputs: "x[4]", outputs: "y z", weights: []*onnxwire.Tensor{weight("w", []int64{4}, ramp()...)}, nodes: []*onnxwire.Node{op("Add", "x w -> y"), op("Neg", "y -> z")}}},
		{"outputs without types, no weights", file{inputs: "x[4]", outputs: "z", nodes: []*onnxwire.Node{op("Exp", "x -> y"), op("Neg", "y -> z")}}},
		{"results that nobody reads", file{inputs: "x[4]", outputs: "y[4]", nodes: []*onnxwire.Node{op("TopK", "x k -> y i")}, weights: []*onnxwire.Tensor{indices("k", 4)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.f.opset = 13
			x := floats([]int{4}, 3, -1, 2, 0.5)
			g, m := parsed(t, c.f)
			want := outputs(t, g, m, x)
			g, m = decoded(t, c.f)
			for range 3 { // results that are read join at the first fetch
				assert.Equal(t, want, outputs(t, g, m, x))
			}
		})
	}
}

// TestWhatOnnxGoRefuses gives its decoder what it can not take, and then the graph.
func TestWhatOnnxGoRefuses(t *testing.T) {
	half := &onnxwire.Tensor{Name: "w", DataType: onnxwire.TypeFloat16, Dims: []int64{2}, RawData: []byte{0, 0x3c, 0, 0x40}} // 1, 2
	flags := &onnxwire.Tensor{Name: "w", DataType: onnxwire.TypeBool, Dims: []int64{2}, RawData: []byte{1, 0}}
	branch := func(name, operator string) *onnxwire.Attribute {
		return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrGraph, G: &onnxwire.Graph{Name: name, Nodes: []*onnxwire.Node{op(operator, "x -> r")}, Outputs: ports("r")}}
	}
	for _, c := range []struct {
		name string
		f    file
		want []float32
	}{
		{"half types", file{weights: []*onnxwire.Tensor{half}, nodes: []*onnxwire.Node{op("Cast", "w -> v", intAttr("to", 1)), op("Add", "x v -> y")}}, []float32{4, 6}},
		{"packed booleans", file{weights: []*onnxwire.Tensor{flags}, nodes: []*onnxwire.Node{op("Neg", "x -> n"), op("Where", "w x n -> y")}}, []float32{3, -4}},
		{"sub-graphs", file{weights: []*onnxwire.Tensor{{Name: "w", DataType: onnxwire.TypeBool, RawData: []byte{1}}}, nodes: []*onnxwire.Node{op("If", "w -> y", branch("then_branch", "Neg"), branch("else_branch", "Abs"))}}, []float32{-3, -4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.f.opset, c.f.inputs, c.f.outputs = 13, "x[2]", "y[2]"
			func() {
				defer func() { _ = recover() }() // the decoder's own
				assert.Error(t, onnx.NewModel(onnxgo.NewGraph()).UnmarshalBinary(c.f.bytes(t)))
			}()
			g, m := parsed(t, c.f)
			assert.Equal(t, []any{c.want}, outputs(t, g, m, floats([]int{2}, 3, 4)))
		})
	}
}
