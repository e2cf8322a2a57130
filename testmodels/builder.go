package testmodels

import (
	"math"
	"math/rand/v2"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// opset is the operator set the built-in models are written in.
const opset = 17

// builder adds nodes and seeded weights to a graph.
type builder struct {
	g   *ssa.Graph
	rng *rand.Rand
}

func newBuilder(name string) *builder {
	return &builder{g: ssa.NewGraph(name), rng: rand.New(rand.NewPCG(1, uint64(len(name))))}
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

// node adds a node with one result.
func (b *builder) node(op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	return b.g.NewNode(op, in, 1, attrs...).Out[0]
}

// op adds a node without attributes.
func (b *builder) op(op string, in ...*ssa.Value) *ssa.Value { return b.node(op, in) }

// weight adds a constant of normal values scaled for fanIn inputs.
func (b *builder) weight(name string, fanIn int, shape ...int) *ssa.Value {
	a := ndarray.Must(ndarray.Float32, shape...)
	s := ndarray.Slice[float32](a)
	scale := math.Sqrt(2 / float64(fanIn))
	for i := range s {
		s[i] = float32(b.rng.NormFloat64() * scale)
	}
	return b.g.AddConst(name, ssa.NewConstant(a))
}

// vector adds a rank-1 constant of values around mean.
func (b *builder) vector(name string, mean, spread float64, n int) *ssa.Value {
	a := ndarray.Must(ndarray.Float32, n)
	s := ndarray.Slice[float32](a)
	for i := range s {
		s[i] = float32(mean + spread*(b.rng.Float64()-0.5))
	}
	return b.g.AddConst(name, ssa.NewConstant(a))
}

// ints adds an int64 list constant.
func (b *builder) ints(name string, v ...int64) *ssa.Value {
	return b.g.AddConst(name, ssa.Int64s(v...))
}
