package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

// kind is a network of a kind that onnx-go's examples run, with random weights.
type kind struct {
	name  string
	input []int64
	build func(b *builder)
}

// kinds are made of the operators that both backends have, in the forms of operator set 8.
var kinds = []kind{
	{"perceptron 7-64-4", []int64{1, 7}, func(b *builder) { // FizzBuzz
		b.dense(7, 64)
		b.op("Tanh")
		b.dense(64, 4)
		b.op("Softmax", ints("axis", 1))
	}},
	{"digits 28x28", []int64{1, 1, 28, 28}, func(b *builder) { // MNIST
		for _, c := range [][2]int64{{1, 8}, {8, 16}} {
			b.conv(c[0], c[1], 5)
			b.op("Relu")
			b.pool(2)
		}
		b.flatten(16 * 7 * 7)
		b.dense(16*7*7, 10)
	}},
	{"emotions 64x64", []int64{1, 1, 64, 64}, func(b *builder) { // FER+, a smaller VGG 13
		for _, c := range [][2]int64{{1, 64}, {64, 128}, {128, 256}} {
			b.conv(c[0], c[1], 3)
			b.op("Relu")
			b.conv(c[1], c[1], 3)
			b.op("Relu")
			b.pool(2)
		}
		b.flatten(256 * 8 * 8)
		b.dense(256*8*8, 256)
		b.op("Relu")
		b.dense(256, 8)
	}},
	{"detector 416x416", []int64{1, 3, 416, 416}, func(b *builder) { // tiny YOLO v2
		for _, c := range [][2]int64{{3, 16}, {16, 32}, {32, 64}, {64, 128}, {128, 256}} {
			b.conv(c[0], c[1], 3)
			b.norm(c[1])
			b.op("LeakyRelu", &onnxwire.Attribute{Name: "alpha", Type: onnxwire.AttrFloat, F: 0.1})
			b.pool(2)
		}
		b.conv(256, 512, 3)
		b.norm(512)
		b.op("LeakyRelu", &onnxwire.Attribute{Name: "alpha", Type: onnxwire.AttrFloat, F: 0.1})
		b.conv(512, 125, 1)
	}},
}

// builder appends nodes to a chain.
type builder struct {
	g    *onnxwire.Graph
	rng  *rand.Rand
	last string
}

// message serializes the kind.
func (k kind) message() *onnxwire.Model {
	b := &builder{g: &onnxwire.Graph{Name: k.name, Inputs: []*onnxwire.ValueInfo{port("x", k.input)}}, rng: rand.New(rand.NewPCG(3, 4)), last: "x"}
	k.build(b)
	b.g.Outputs = []*onnxwire.ValueInfo{port(b.last, nil)}
	b.g.Outputs[0].Type.Tensor.Shape = nil
	return &onnxwire.Model{IRVersion: 4, Graph: b.g, OpsetImports: []*onnxwire.OperatorSetID{{Version: 8}}}
}

func port(name string, dims []int64) *onnxwire.ValueInfo {
	s := &onnxwire.Shape{}
	for _, d := range dims {
		s.Dims = append(s.Dims, &onnxwire.Dim{Kind: onnxwire.DimValue, Value: d})
	}
	return &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.TypeFloat, Shape: s}}}
}

// node appends a node that reads the last value and weights.
func (b *builder) node(op string, weights []string, attrs ...*onnxwire.Attribute) {
	out := fmt.Sprintf("v%d", len(b.g.Nodes))
	b.g.Nodes = append(b.g.Nodes, &onnxwire.Node{OpType: op, Inputs: append([]string{b.last}, weights...), Outputs: []string{out}, Attributes: attrs})
	b.last = out
}

func (b *builder) op(name string, attrs ...*onnxwire.Attribute) { b.node(name, nil, attrs...) }

// weight adds an initializer with values of the scale that keeps activations as large as they are.
func (b *builder) weight(fanIn int64, dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	t := &onnxwire.Tensor{Name: fmt.Sprintf("w%d", len(b.g.Initializers)), DataType: onnxwire.TypeFloat, Dims: dims,
		FloatData: draw(b.rng, int(n), float32(math.Sqrt(6/float64(fanIn))))}
	b.g.Initializers = append(b.g.Initializers, t)
	return t.Name
}

func (b *builder) conv(in, out, size int64) {
	p := size / 2
	b.node("Conv", []string{b.weight(in*size*size, out, in, size, size)},
		ints("kernel_shape", size, size), ints("pads", p, p, p, p), ints("strides", 1, 1), ints("dilations", 1, 1))
}

func (b *builder) pool(size int64) {
	b.op("MaxPool", ints("kernel_shape", size, size), ints("strides", size, size), ints("pads", 0, 0, 0, 0))
}

// norm adds a batch normalization.
func (b *builder) norm(channels int64) {
	scale, bias, mean := b.weight(6, channels), b.weight(6, channels), b.weight(6, channels)
	variance := b.weight(6, channels)
	v := b.g.Initializers[len(b.g.Initializers)-1].FloatData
	for i := range v {
		v[i] = 1 + v[i]*v[i]
	}
	b.node("BatchNormalization", []string{scale, bias, mean, variance})
}

func (b *builder) flatten(n int64) {
	name := fmt.Sprintf("w%d", len(b.g.Initializers))
	b.g.Initializers = append(b.g.Initializers, &onnxwire.Tensor{Name: name, DataType: onnxwire.TypeInt64, Dims: []int64{2}, Int64Data: []int64{1, n}})
	b.node("Reshape", []string{name})
}

func (b *builder) dense(in, out int64) {
	b.node("MatMul", []string{b.weight(in, in, out)})
	b.node("Add", []string{b.weight(in, 1, out)})
}

// ints is an integer attribute, a list if there are several values or the operators take one.
func ints(name string, v ...int64) *onnxwire.Attribute {
	if name == "axis" {
		return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrInt, I: v[0]}
	}
	return &onnxwire.Attribute{Name: name, Type: onnxwire.AttrInts, Ints: v}
}
