package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/engine"
)

// call is an operation of package tensor on up to two tensors.
type call struct {
	name string
	run  func(a, b *tensor.Dense, opts ...tensor.FuncOpt) (tensor.Tensor, error)
}

var calls = []call{
	{"MatMul", func(a, b *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.MatMul(a, b, o...) }},
	{"MatVecMul", func(a, b *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) {
		return tensor.MatVecMul(a, b, o...)
	}},
	{"Dot", func(a, b *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Dot(a, b, o...) }},
	{"Add", func(a, b *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Add(a, b, o...) }},
	{"Mul", func(a, b *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Mul(a, b, o...) }},
	{"Lt", func(a, b *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Lt(a, b, o...) }},
	{"ElEq", func(a, b *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.ElEq(a, b, o...) }},
	{"Neg", func(a, _ *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Neg(a, o...) }},
	{"Square", func(a, _ *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Square(a, o...) }},
	{"SoftMax", func(a, _ *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) {
		return tensor.SoftMax(a, 0, o...)
	}},
	{"Sum", func(a, _ *tensor.Dense, _ ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Sum(a, 0) }},
	{"Argmax", func(a, _ *tensor.Dense, _ ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Argmax(a, 0) }},
	{"Concat", func(a, b *tensor.Dense, _ ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Concat(0, a, b) }},
	{"Repeat", func(a, _ *tensor.Dense, _ ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Repeat(a, 0, 2) }},
	{"Transpose", func(a, _ *tensor.Dense, _ ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.Transpose(a) }},
	{"ByIndices", func(a, b *tensor.Dense, o ...tensor.FuncOpt) (tensor.Tensor, error) {
		return tensor.ByIndices(a, b, 0, o...)
	}},
}

// sequence is a pool of tensors that operations of one engine read, and whose results come into it.
type sequence struct {
	rng  *rand.Rand
	e    tensor.Engine
	pool []*tensor.Dense
}

func (s *sequence) made(e tensor.Engine) *tensor.Dense {
	types := []tensor.Dtype{tensor.Float32, tensor.Float32, tensor.Float64, tensor.Int, tensor.Int64, tensor.Int32, tensor.Bool}
	shapes := [][]int{{2, 2}, {2, 3}, {3, 2}, {2}, {3}, {2, 1}, {}}
	d := tensor.New(tensor.Of(types[s.rng.IntN(len(types))]), tensor.WithShape(shapes[s.rng.IntN(len(shapes))]...), tensor.WithEngine(e))
	for i := range d.Raw {
		if i%d.Dtype().Type.Align() == 0 {
			d.Raw[i] = byte(s.rng.IntN(2))
		}
	}
	if s.rng.IntN(4) == 0 && d.Dims() == 2 && d.T() != nil {
		panic("a tensor can not be transposed")
	}
	return d
}

// moved is a tensor of the same type, shape, strides and elements, of an engine.
func moved(d *tensor.Dense, e tensor.Engine) *tensor.Dense {
	c := d.Clone().(*tensor.Dense)
	tensor.WithEngine(e)(c)
	return c
}

// TestSequences calls operations one after the other, on tensors of several types and on results of those before, into new tensors
// and given ones: each gives what a new engine gives for the same tensors, and no other tensor changes. A product never goes
// into a tensor of another type.
func TestSequences(t *testing.T) {
	for which, e := range engines(t) {
		for seed := range uint64(20) {
			s := &sequence{rng: rand.New(rand.NewPCG(41, seed)), e: e}
			for range 12 {
				s.pool = append(s.pool, s.made(e))
			}
			for step := range 150 {
				s.step(t, fmt.Sprintf("%s, sequence %d, step %d", which, seed, step))
			}
		}
	}
}

func (s *sequence) step(t *testing.T, what string) {
	c := calls[s.rng.IntN(len(calls))]
	draw := func() int { return s.rng.IntN(len(s.pool)) }
	i, k, into, how := draw(), draw(), draw(), s.rng.IntN(4)
	a, b, to := s.pool[i], s.pool[k], s.pool[into]
	before, dt := states(s.pool), to.Dtype()
	fresh := engine.New()
	a2, to2 := moved(a, fresh), moved(to, fresh)
	b2 := moved(b, fresh)
	if k == i {
		b2 = a2
	}
	var opts, opts2 []tensor.FuncOpt
	if how == 0 && into != i && into != k {
		opts, opts2 = append(opts, tensor.WithReuse(to)), append(opts2, tensor.WithReuse(to2))
	}
	what = fmt.Sprintf("%s: %s of %s%v and %s%v, into %v %s%v", what, c.name, a.Dtype(), a.Shape(), b.Dtype(), b.Shape(), opts != nil, to.Dtype(), to.Shape())
	got, err := c.run(a, b, opts...)
	want, wantErr := c.run(a2, b2, opts2...)
	require.Equal(t, wantErr == nil, err == nil, "%s: %v and %v", what, err, wantErr)
	for n, d := range s.pool {
		if opts == nil || n != into {
			require.Equal(t, before[n], stateOf(d), what)
		}
	}
	if err != nil {
		require.Equal(t, wantErr.Error(), err.Error(), what)
		if opts != nil { // which package tensor may have reshaped
			s.pool[into] = s.made(s.e)
		}
		return
	}
	if opts != nil && (c.name == "MatMul" || c.name == "MatVecMul") {
		require.Equal(t, a.Dtype(), dt, what)
	}
	require.Equal(t, want.Dtype(), got.Dtype(), what)
	require.Equal(t, append([]int{}, want.Shape()...), append([]int{}, got.Shape()...), what)
	require.Equal(t, elements(t, want), elements(t, got), what)
	if d := got.(*tensor.Dense); opts == nil && d.Shape().TotalSize() <= 6 && d.Dims() <= 2 && s.rng.IntN(2) == 0 {
		s.pool[into] = moved(d, s.e)
	}
}
