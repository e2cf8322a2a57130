// Package graphs holds expression graphs of the kinds that Gorgonia's users build, for tests
// and benchmarks of the packages beside it.
package graphs

import (
	"math"
	"math/rand/v2"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Case is a graph. Build makes it anew, with values bound to all inputs.
type Case struct {
	Name  string
	Build func(b *Builder) *G.Node // returns the cost, a scalar
	// Wrong says what the tape machine of Gorgonia v0.9.18 computes wrongly; "" if nothing.
	Wrong string
}

// Built is a graph with its gradients.
type Built struct {
	Graph *G.ExprGraph
	Cost  *G.Node
	Learn G.Nodes // inputs that the cost is differentiated by
}

// Make builds a case for an element type. Factor scales the sizes that may be scaled.
func (c Case) Make(dt tensor.Dtype, factor int) (*Built, error) {
	b := &Builder{Graph: G.NewGraph(), dt: dt, factor: factor, rng: rand.New(rand.NewPCG(1, 2))}
	cost := c.Build(b)
	out := &Built{Graph: b.Graph, Cost: cost, Learn: b.learn}
	_, err := G.Grad(cost, b.learn...)
	return out, err
}

// Builder makes inputs of a graph.
type Builder struct {
	Graph  *G.ExprGraph
	dt     tensor.Dtype
	factor int
	rng    *rand.Rand
	learn  G.Nodes
}

// times scales a size.
func (b *Builder) times(n int) int { return n * b.factor }

// weight is an input that is learned, of numbers around 0.
func (b *Builder) weight(name string, shape ...int) *G.Node {
	n := b.input(name, shape...)
	b.learn = append(b.learn, n)
	return n
}

// input is an input of numbers around 0; weights of many inputs are smaller.
func (b *Builder) input(name string, shape ...int) *G.Node {
	scale := 1 / math.Sqrt(float64(max(tensor.Shape(shape).TotalSize()/shape[0], 1)))
	return b.filled(name, func() float64 { return scale * b.rng.NormFloat64() }, shape...)
}

// data is an input of numbers around 0 with variance 1.
func (b *Builder) data(name string, shape ...int) *G.Node {
	return b.filled(name, b.rng.NormFloat64, shape...)
}

// zeroOne is an input of zeros and ones.
func (b *Builder) zeroOne(name string, shape ...int) *G.Node {
	return b.filled(name, func() float64 { return float64(b.rng.IntN(2)) }, shape...)
}

// hot is an input whose rows have a 1 in one place.
func (b *Builder) hot(name string, rows, classes int) *G.Node {
	k, at := 0, 0
	return b.filled(name, func() float64 {
		if k%classes == 0 {
			at = k + b.rng.IntN(classes)
		}
		k++
		if k-1 == at {
			return 1
		}
		return 0
	}, rows, classes)
}

func (b *Builder) filled(name string, next func() float64, shape ...int) *G.Node {
	n := tensor.Shape(shape).TotalSize()
	var backing any
	if b.dt == tensor.Float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = next()
		}
		backing = v
	} else {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(next())
		}
		backing = v
	}
	t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))
	return G.NewTensor(b.Graph, b.dt, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(t))
}

// indices is an input of numbers below n.
func (b *Builder) indices(name string, count, n int) *G.Node {
	v := make([]int, count)
	for i := range v {
		v[i] = b.rng.IntN(n)
	}
	t := tensor.New(tensor.WithShape(count), tensor.WithBacking(v))
	return G.NewVector(b.Graph, tensor.Int, G.WithShape(count), G.WithName(name), G.WithValue(t))
}

// number is a constant.
func (b *Builder) number(v float64) *G.Node {
	if b.dt == tensor.Float64 {
		return G.NewConstant(v)
	}
	return G.NewConstant(float32(v))
}

// must is G.Must under a shorter name.
func must(n *G.Node, err error) *G.Node { return G.Must(n, err) }
