package testmodels

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// opset is the operator set the built-in models are written in.
const opset = 18

// builder adds nodes and seeded weights to a graph. A weight's elements depend on
// its name alone, so that a model can grow without changing what it had.
type builder struct {
	g     *ssa.Graph
	scope string // prefix of the names of nodes and weights, "" or "layer1.0/"
}

func newBuilder(name string) *builder { return &builder{g: ssa.NewGraph(name)} }

// at returns a builder for the same graph whose names start with one more scope.
func (b *builder) at(format string, args ...any) *builder {
	return &builder{b.g, b.scope + fmt.Sprintf(format, args...) + "/"}
}

// module finishes a model with the given outputs, which get their names.
func (b *builder) module(names []string, outs ...*ssa.Value) *ssa.Module {
	for i, o := range outs {
		o.Name = names[i]
	}
	b.g.Results = outs
	return &ssa.Module{Graph: b.g, Opsets: []ssa.Opset{{Version: opset}}, IR: 8}
}

// input adds a float32 parameter.
func (b *builder) input(name string, dims ...ssa.Dim) *ssa.Value {
	return b.g.AddParam(name, ssa.TensorOf(ndarray.Float32, dims...))
}

// static adds a float32 parameter of known shape.
func (b *builder) static(name string, shape ...int) *ssa.Value {
	return b.input(name, ssa.Dims(shape)...)
}

// indices adds an int64 parameter.
func (b *builder) indices(name string, dims ...ssa.Dim) *ssa.Value {
	return b.g.AddParam(name, ssa.TensorOf(ndarray.Int64, dims...))
}

// trips adds the parameter "n", a number of iterations.
func (b *builder) trips() *ssa.Value { return b.indices("n") }

// flag adds a boolean scalar parameter.
func (b *builder) flag(name string) *ssa.Value {
	return b.g.AddParam(name, ssa.StaticTensor(ndarray.Bool))
}

// node adds a node with one result.
func (b *builder) node(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return b.nodes(op, in, 1, attrs...)[0]
}

// nodes adds a node with several results.
func (b *builder) nodes(op string, in []*ssa.Value, outs int, attrs ...ssa.Attr) []*ssa.Value {
	n := b.g.NewNode(op, in, outs, attrs...)
	n.Name = fmt.Sprintf("%s%s_%d", b.scope, op, n.ID)
	return n.Out
}

// op adds a node without attributes.
func (b *builder) op(op string, in ...*ssa.Value) *ssa.Value { return b.node(op, in) }

// weight adds a constant of values whose variance is 2/fanIn, which keeps the
// size of activations through a layer followed by Relu.
func (b *builder) weight(name string, fanIn int, shape ...int) *ssa.Value {
	return b.random(name, 0, math.Sqrt(2/float64(fanIn)), shape...)
}

// linear adds a constant of values whose variance is 1/fanIn, which keeps the
// size of activations through a layer that nothing cuts off.
func (b *builder) linear(name string, fanIn int, shape ...int) *ssa.Value {
	return b.random(name, 0, math.Sqrt(1/float64(fanIn)), shape...)
}

// vector adds a rank-1 constant of n values around mean.
func (b *builder) vector(name string, mean, deviation float64, n int) *ssa.Value {
	return b.random(name, mean, deviation, n)
}

// random adds a constant of uniformly distributed values with the given mean and
// standard deviation.
func (b *builder) random(name string, mean, deviation float64, shape ...int) *ssa.Value {
	name = b.scope + name
	a := ndarray.Must(ndarray.Float32, shape...)
	fill(ndarray.Slice[float32](a), b.g.Name+"/"+name, mean, deviation)
	return b.g.AddConst(name, ssa.NewConstant(a))
}

// fill writes uniform values, seeded by a name. The generator is SplitMix64
// (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014); a
// step gives two elements.
func fill(s []float32, name string, mean, deviation float64) {
	h := fnv.New64a()
	h.Write([]byte(name))
	state := h.Sum64()
	scale, shift := float32(deviation*math.Sqrt(3)/(1<<31)), float32(mean)
	for i := 0; i < len(s); i += 2 {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		s[i] = float32(int32(z))*scale + shift
		if i+1 < len(s) {
			s[i+1] = float32(int32(z>>32))*scale + shift
		}
	}
}

// ints returns an int64 list constant. Equal constants are made once per graph.
func (b *builder) ints(v ...int64) *ssa.Value {
	return b.constant(fmt.Sprint("i", v), func() *ssa.Constant { return ssa.Int64s(v...) })
}

// float returns a float32 scalar.
func (b *builder) float(v float32) *ssa.Value {
	return b.constant(fmt.Sprint("f", v), func() *ssa.Constant { return ssa.ScalarConst(v) })
}

// int returns an int64 scalar.
func (b *builder) int(v int64) *ssa.Value {
	return b.constant(fmt.Sprint("n", v), func() *ssa.Constant { return ssa.ScalarConst(v) })
}

func (b *builder) constant(name string, c func() *ssa.Constant) *ssa.Value {
	for _, v := range b.g.Values() {
		if v.Name == name && v.Const != nil {
			return v
		}
	}
	return b.g.AddConst(name, c())
}
