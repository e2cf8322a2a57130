package vm_test

import (
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/chewxy/hm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

// plusOne is an op of a user's own, x + 1.
type plusOne struct{ did *string }

func (plusOne) Arity() int                                       { return 1 }
func (plusOne) Type() hm.Type                                    { a := hm.TypeVariable('a'); return hm.NewFnType(a, a) }
func (plusOne) InferShape(s ...G.DimSizer) (tensor.Shape, error) { return s[0].(tensor.Shape), nil }
func (plusOne) ReturnsPtr() bool                                 { return true }
func (plusOne) CallsExtern() bool                                { return false }
func (plusOne) OverwritesInput() int                             { return -1 }
func (plusOne) WriteHash(h hash.Hash)                            { h.Write([]byte("plus one")) }
func (plusOne) Hashcode() uint32                                 { return fnv.New32a().Sum32() }
func (plusOne) String() string                                   { return "plus one" }
func (o plusOne) into(to, from G.Value, how string) (G.Value, error) { // adds to what lies in to
	*o.did = how
	x, y := from.Data().([]float64), to.Data().([]float64)
	for i := range x {
		y[i] += x[i] + 1
	}
	return to, nil
}

func (o plusOne) Do(in ...G.Value) (G.Value, error) {
	return o.into(tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(in[0].Shape()...)), in[0], "Do")
}

// preallocating can use memory that it is given.
type preallocating struct{ plusOne }

func (o preallocating) UsePreallocDo(to G.Value, in ...G.Value) (G.Value, error) {
	return o.into(to, in[0], "UsePreallocDo")
}

// overwriting can write over its operand.
type overwriting struct{ preallocating }

func (overwriting) OverwritesInput() int { return 0 }
func (o overwriting) UnsafeDo(in ...G.Value) (G.Value, error) {
	*o.did = "UnsafeDo"
	x := in[0].Data().([]float64)
	for i := range x {
		x[i]++
	}
	return in[0], nil
}

// TestOwnOps: ops of the user's own run in the best way they have.
func TestOwnOps(t *testing.T) {
	var did string
	for want, op := range map[string]G.Op{"Do": plusOne{&did}, "UsePreallocDo": preallocating{plusOne{&did}}, "UnsafeDo": overwriting{preallocating{plusOne{&did}}}} {
		t.Run(want, func(t *testing.T) {
			g := G.NewGraph()
			x := vector(g, "x", 1, 2, 3)
			y := G.Must(G.Square(G.Must(G.ApplyOp(op, G.Must(G.Add(x, x))))))
			m := compiled(t, g)
			assert.Equal(t, 1, m.Memory().Stock)
			for range 2 {
				require.NoError(t, m.RunAll())
				assert.Equal(t, []float64{9, 25, 49}, floats(t, y.Value()))
				assert.Equal(t, want, did)
				assert.Equal(t, []float64{1, 2, 3}, floats(t, x.Value()))
			}
		})
	}
}

// TestStock: random numbers are drawn anew in every pass, sparsemax gives what it means.
func TestStock(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float64, G.WithShape(2, 3), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float64{1, 2, 3, 3, 2, 1}))))
	y := G.Must(G.Sparsemax(G.Must(G.Square(x))))
	r := G.Must(G.Add(G.UniformRandomNode(g, tensor.Float64, 1, 2, 2, 3), y))
	m := compiled(t, g)
	require.NoError(t, m.RunAll())
	first := floats(t, r.Value())
	tape := G.NewTapeMachine(g)
	defer tape.Close()
	require.NoError(t, m.RunAll())
	assert.NotEqual(t, first, floats(t, r.Value()), "numbers are drawn in every pass")
	for i, v := range floats(t, r.Value()) {
		assert.True(t, v >= 1 && v <= 3, "%d: %g", i, v)
	}
}

// TestRandom: random nodes have the moments of their distributions, and machines of one seed the same numbers. Bounds are six
// deviations of the mean and of the variance of so many numbers.
func TestRandom(t *testing.T) {
	const n = 20000
	for name, c := range map[string]struct {
		node           func(g *G.ExprGraph) *G.Node
		mean, variance float64
	}{
		"uniform":  {func(g *G.ExprGraph) *G.Node { return G.UniformRandomNode(g, tensor.Float32, -1, 5, n) }, 2, 3},
		"gaussian": {func(g *G.ExprGraph) *G.Node { return G.GaussianRandomNode(g, tensor.Float64, 2, 3, n) }, 2, 9},
		"binomial": {func(g *G.ExprGraph) *G.Node { return G.BinomialRandomNode(g, tensor.Float64, 10, 0.3, n) }, 3, 2.1},
	} {
		t.Run(name, func(t *testing.T) {
			draw := func(seed uint64) (first, second []float64) {
				g := G.NewGraph()
				y := c.node(g)
				m := compiled(t, g, vm.Keep(y), vm.Seed(seed))
				assert.Zero(t, m.Memory().Stock)
				require.NoError(t, m.RunAll())
				first = floats(t, y.Value())
				require.NoError(t, m.RunAll())
				return first, floats(t, y.Value())
			}
			a, b := draw(1)
			again, _ := draw(1)
			other, _ := draw(2)
			assert.Equal(t, a, again)
			assert.NotEqual(t, a, b)
			assert.NotEqual(t, a, other)
			mean, variance := 0.0, 0.0
			for _, v := range a {
				mean += v / n
			}
			for _, v := range a {
				variance += (v - mean) * (v - mean) / n
			}
			assert.InDelta(t, c.mean, mean, 6*math.Sqrt(c.variance/n))
			assert.InDelta(t, c.variance, variance, 6*c.variance*math.Sqrt(2.0/n))
		})
	}
}

// TestStockGradients: gradients of ops that ONNX lacks are those of Gorgonia's machine.
func TestStockGradients(t *testing.T) {
	for name, f := range map[string]func(x *G.Node) (*G.Node, error){
		"sparsemax": func(x *G.Node) (*G.Node, error) {
			return G.Mean(G.Must(G.Square(G.Must(G.Sparsemax(x)))))
		},
		"CTC loss": func(x *G.Node) (*G.Node, error) {
			g := x.Graph()
			vector := func(name string, v ...int) *G.Node {
				return G.NewVector(g, tensor.Int, G.WithShape(len(v)), G.WithName(name), G.WithValue(tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v))))
			}
			logs := G.Must(G.Reshape(G.Must(G.LogSoftMax(x, 1)), tensor.Shape{4, 1, 3}))
			targets := G.NewMatrix(g, tensor.Int, G.WithShape(1, 2), G.WithName("targets"), G.WithValue(tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]int{1, 2}))))
			return G.CTCLoss(logs, targets, vector("lengths", 4), vector("target lengths", 2), G.ReductionMean)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(build func(g *G.ExprGraph, x *G.Node) G.VM) (cost, grad []float64) {
				g := G.NewGraph()
				x := filled(g, "x", 4, 3)
				y := G.Must(f(x))
				_, err := G.Grad(y, x)
				require.NoError(t, err)
				m := build(g, x)
				defer m.Close()
				require.NoError(t, m.RunAll())
				v, err := x.Grad()
				require.NoError(t, err)
				return floats(t, y.Value()), floats(t, v)
			}
			cost, grad := run(func(g *G.ExprGraph, _ *G.Node) G.VM { return compiled(t, g) })
			wantCost, wantGrad := run(func(g *G.ExprGraph, x *G.Node) G.VM { return G.NewTapeMachine(g, G.BindDualValues(x)) })
			assert.InDeltaSlice(t, wantCost, cost, 1e-12)
			assert.InDeltaSlice(t, wantGrad, grad, 1e-12)
		})
	}
}

// TestStatistics: the running mean and variance of a batch normalization follow as in Gorgonia's
// machine, and are used after training.
func TestStatistics(t *testing.T) {
	run := func(build func(g *G.ExprGraph, eval bool) G.VM) (mean, variance, out []float64) {
		g := G.NewGraph()
		x := filled(g, "x", 3, 2, 2, 2)
		y, _, _, op, err := G.BatchNorm(x, filled(g, "scale", 1, 2, 1, 1), filled(g, "bias", 1, 2, 1, 1), 0.7, 1e-3)
		require.NoError(t, err)
		m := build(g, false)
		for range 3 {
			require.NoError(t, m.RunAll())
			m.Reset()
		}
		use := build(g, true)
		require.NoError(t, use.RunAll())
		a, b := op.Stats()
		return floats(t, a), floats(t, b), floats(t, y.Value())
	}
	mean, variance, out := run(func(g *G.ExprGraph, eval bool) G.VM {
		if eval {
			return compiled(t, g, vm.EvalMode())
		}
		return compiled(t, g)
	})
	wantMean, wantVariance, wantOut := run(func(g *G.ExprGraph, eval bool) G.VM {
		if eval {
			return G.NewTapeMachine(g, G.EvalMode())
		}
		return G.NewTapeMachine(g)
	})
	assert.InDeltaSlice(t, wantMean, mean, 1e-12)
	assert.InDeltaSlice(t, wantVariance, variance, 1e-12)
	assert.InDeltaSlice(t, wantOut, out, 1e-12)
}

// TestSparsemaxOfAnything: sparsemax gives rows of probabilities for numbers of every size, and NaN for NaN, as written with
// standard operators.
func TestSparsemaxOfAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	g := G.NewGraph()
	const rows, width = 200, 9
	v := make([]float64, rows*width)
	for i := range v {
		v[i] = math.Round(rng.NormFloat64()*4) * math.Pow(10, float64(i/width%7-3))
	}
	v[5*width+3] = math.NaN()
	x := G.NewMatrix(g, tensor.Float64, G.WithShape(rows, width), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(rows, width), tensor.WithBacking(v))))
	row, column := G.Must(G.Sparsemax(x)), G.Must(G.Sparsemax(G.Must(G.Transpose(x)), 0))
	m := compiled(t, g, vm.Keep(row, column))
	require.NoError(t, m.RunAll())
	a, b := floats(t, row.Value()), floats(t, column.Value())
	for i := range rows {
		sum := 0.0
		for k := range width {
			y := a[i*width+k]
			sum += y
			if i != 5 {
				require.GreaterOrEqual(t, y, 0.0)
				require.InDelta(t, b[k*rows+i], y, 1e-12, "row %d", i)
			}
		}
		if i == 5 {
			assert.True(t, math.IsNaN(sum))
			continue
		}
		assert.InDelta(t, 1, sum, 1e-12, "row %d", i)
	}
}
