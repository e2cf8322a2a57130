package vm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// giving is an op of a user's own that gives what it is told to.
type giving struct {
	plusOne
	give func(x G.Value) (G.Value, error)
}

func (o giving) Do(in ...G.Value) (G.Value, error) { return o.give(in[0]) }

// TestHostileOps: an op of a user's own that fails is an error that names its node, and nothing else happens to the machine.
func TestHostileOps(t *testing.T) {
	broken := errors.New("broken")
	for name, give := range map[string]func(G.Value) (G.Value, error){
		"panics":         func(G.Value) (G.Value, error) { panic(broken) },
		"fails":          func(G.Value) (G.Value, error) { return nil, broken },
		"gives nothing":  func(G.Value) (G.Value, error) { return nil, nil },
		"a nil *Dense":   func(G.Value) (G.Value, error) { return (*tensor.Dense)(nil), nil },
		"another length": func(G.Value) (G.Value, error) { return tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(7)), nil },
		"another type":   func(G.Value) (G.Value, error) { return tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3)), nil },
	} {
		t.Run(name, func(t *testing.T) {
			var did string
			well := false
			op := giving{plusOne{&did}, func(x G.Value) (G.Value, error) {
				if well {
					return plusOne{&did}.Do(x)
				}
				return give(x)
			}}
			g := G.NewGraph()
			y := G.Must(G.Square(G.Must(G.ApplyOp(op, vector(g, "x", 1, 2, 3)))))
			m := compiled(t, g)
			err := m.RunAll()
			var at *ops.NodeError
			require.ErrorAs(t, err, &at)
			assert.ErrorContains(t, err, "plus one")
			assert.NotContains(t, err.Error(), "internal error")
			assert.Equal(t, name == "panics", strings.HasSuffix(err.Error(), ": the op panicked: broken"), "%v", err)
			well = true
			require.NoError(t, m.RunAll())
			assert.Equal(t, []float64{4, 9, 16}, floats(t, y.Value()))
		})
	}
}

// TestHostileStrings: strings are counted like other elements.
func TestHostileStrings(t *testing.T) {
	for name, give := range map[string][]string{"fewer": {"a"}, "more": {"a", "b", "c"}, "none": nil, "as many": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			g := G.NewGraph()
			x := G.NewVector(g, tensor.String, G.WithShape(2), G.WithName("x"), G.WithValue(tensor.New(tensor.WithBacking([]string{"c", "d"}))))
			op := giving{plusOne{}, func(G.Value) (G.Value, error) {
				if give == nil {
					return tensor.New(tensor.WithShape(0), tensor.WithBacking([]string{})), nil
				}
				return tensor.New(tensor.WithBacking(give)), nil
			}}
			y := G.Must(G.ApplyOp(op, x))
			m := compiled(t, g)
			err := m.RunAll()
			if len(give) == 2 {
				require.NoError(t, err)
				assert.Equal(t, give, y.Value().Data())
				return
			}
			var at *ops.NodeError
			require.ErrorAs(t, err, &at)
			assert.ErrorContains(t, err, "plus one gave string[")
		})
	}
}

// TestHostileNumbers: numbers that ops compute with and that their elements can not be, and axes and places that operands do not
// have, are refused before a pass, by the node.
func TestHostileNumbers(t *testing.T) {
	// twos are n elements of a type, all 2.
	twos := func(g *G.ExprGraph, dt tensor.Dtype, n int, two any) *G.Node {
		v := tensor.New(tensor.Of(dt), tensor.WithShape(n))
		require.NoError(t, v.Memset(two))
		return G.NewVector(g, dt, G.WithShape(n), G.WithName("x"), G.WithValue(v))
	}
	bytes := func(g *G.ExprGraph, n int) *G.Node { return twos(g, tensor.Uint8, n, uint8(2)) }
	signed := func(g *G.ExprGraph, n int) *G.Node { return twos(g, tensor.Int8, n, int8(1)) }
	number := func(g *G.ExprGraph) *G.Node { return G.NewScalar(g, tensor.Float64, G.WithName("x"), G.WithValue(2.0)) }
	for name, c := range map[string]struct {
		build func(g *G.ExprGraph) (*G.Node, error)
		want  string // or the value, where all is well
	}{
		"a mean of 100 uint8": {func(g *G.ExprGraph) (*G.Node, error) { return G.Mean(bytes(g, 100)) }, "= 2"},
		"a mean of 256 uint8": {func(g *G.ExprGraph) (*G.Node, error) { return G.Mean(bytes(g, 256)) }, "the number 256, which elements of type uint8 can not be"},
		"a mean of 300 uint8": {func(g *G.ExprGraph) (*G.Node, error) { return G.Mean(bytes(g, 300)) }, "the number 300, which elements of type uint8 can not be"},
		"a mean of 127 int8":  {func(g *G.ExprGraph) (*G.Node, error) { return G.Mean(signed(g, 127)) }, "= 1"},
		"a mean of 200 int8":  {func(g *G.ExprGraph) (*G.Node, error) { return G.Mean(signed(g, 200)) }, "the number 200, which elements of type int8 can not be"},
		"trials without end": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.BinomialRandomNode(g, tensor.Float64, 1e19, 0.5, 2), nil
		}, "1e+19 trials; give a number from 0 to 2^53"},
		"less than no trials": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.BinomialRandomNode(g, tensor.Float64, -1, 0.5, 2), nil
		}, "-1 trials; give a number from 0 to 2^53"},
		"a probability of 2": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.BinomialRandomNode(g, tensor.Float64, 3, 2, 2), nil
		}, "a probability of 2; give one from 0 to 1"},
		"softmax of a scalar": {func(g *G.ExprGraph) (*G.Node, error) { return G.SoftMax(number(g)) }, "= 1"},
		"softmax of a scalar along an axis": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.SoftMax(number(g), 1)
		}, "axis 1 of a scalar, which has no axes"},
		"softmax of a scalar from behind": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.SoftMax(number(g), -2)
		}, "axis -2 of a scalar, which has no axes"},
		"log-softmax of a scalar along an axis": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.LogSoftMax(number(g), 1)
		}, "axis 1 of a scalar, which has no axes"},
		"sparsemax of a scalar": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.Sparsemax(number(g))
		}, "axis -1 of a scalar, which has no axes"},
		"softmax along no axis of a matrix": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.SoftMax(filled(g, "x", 2, 3), 2)
		}, "Softmax: axis 2 is out of range for rank 2"},
		"a place": {func(g *G.ExprGraph) (*G.Node, error) { return G.At(filled(g, "x", 2, 3), 1, 2) }, fmt.Sprint("= ", math.Sin(1+1.7*5))},
		"a place behind the last": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.At(filled(g, "x", 2, 3), 1, 3)
		}, "coordinate 3 along axis 1, which has 3 places"},
		"a place before the first": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.At(filled(g, "x", 2, 3), -1, 1)
		}, "coordinate -1 along axis 0, which has 2 places"},
		"a place of too few axes": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.At(filled(g, "x", 2, 3), 1)
		}, "1 coordinates [1] for a tensor of shape [2 3]"},
		"random integers": {func(g *G.ExprGraph) (*G.Node, error) {
			return G.UniformRandomNode(g, tensor.Uint8, 0, 1000, 2), nil
		}, "numbers of a distribution are floats, and these elements are uint8"},
	} {
		t.Run(name, func(t *testing.T) {
			g := G.NewGraph()
			y, err := c.build(g)
			require.NoError(t, err)
			m, err := vm.New(g, vm.Keep(y))
			if value, ok := strings.CutPrefix(c.want, "= "); ok {
				require.NoError(t, err)
				require.NoError(t, m.RunAll())
				assert.Equal(t, value, fmt.Sprint(y.Value().Data()))
				return
			}
			var ge *vm.GraphError
			require.ErrorAs(t, err, &ge)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// TestEmptyConvolution: where the kernel has no place in the image, the result has no elements, and derivatives are zeros.
func TestEmptyConvolution(t *testing.T) {
	g := G.NewGraph()
	x, w := filled(g, "x", 1, 1, 2, 4), filled(g, "w", 5, 1, 3, 3)
	y, err := G.Conv2d(x, w, tensor.Shape{3, 3}, []int{0, 0}, []int{1, 1}, []int{1, 1})
	require.NoError(t, err)
	cost := G.Must(G.Sum(y))
	_, err = G.Grad(cost, x, w)
	require.NoError(t, err)
	require.NoError(t, compiled(t, g).RunAll())
	assert.Equal(t, []float64{0}, floats(t, cost.Value()))
	for _, n := range []*G.Node{x, w} {
		d, err := n.Grad()
		require.NoError(t, err)
		assert.Equal(t, n.Shape(), d.Shape())
		assert.Equal(t, make([]float64, n.Shape().TotalSize()), floats(t, d))
	}
}

// TestManyTrials: a pass ends with its context, also within an element that takes longer than anyone waits.
func TestManyTrials(t *testing.T) {
	g := G.NewGraph()
	y := G.BinomialRandomNode(g, tensor.Float64, 1<<53, 0.5, 1)
	ctx := &endsAtLook{Context: t.Context(), look: math.MaxInt64}
	m := compiled(t, g, vm.Keep(y), vm.WithContext(ctx))
	ctx.look = ctx.looks.Load() + 20 // some of them before the element
	require.ErrorIs(t, m.RunAll(), context.Canceled)
}

// endsAtLook is a context that ends when it is looked at for some time.
type endsAtLook struct {
	context.Context
	looks atomic.Int64
	look  int64
}

func (c *endsAtLook) Err() error {
	if c.looks.Add(1) >= c.look {
		return context.Canceled
	}
	return nil
}

// TestHostileValues: a value that does not fit its node is an error that names it; the next one that does is computed.
func TestHostileValues(t *testing.T) {
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float64, G.WithShape(3), G.WithName("x"))
	y := G.Must(G.Square(x))
	m := compiled(t, g)
	right := func() *tensor.Dense { return tensor.New(tensor.WithBacking([]float64{1, 2, 3})) }
	for name, v := range map[string]any{
		"scalar": 3.0,
		"row":    tensor.New(tensor.WithShape(1, 3), tensor.WithBacking([]float64{1, 2, 3})),
		"column": tensor.New(tensor.WithShape(3, 1), tensor.WithBacking([]float64{1, 2, 3})),
		"masked": tensor.New(tensor.WithBacking([]float64{1, 2, 3}, []bool{false, true, false})),
	} {
		if err := G.Let(x, v); err != nil {
			t.Fatalf("%s: Gorgonia itself refuses: %v", name, err)
		}
		var wrong *vm.InputError
		require.ErrorAs(t, m.RunAll(), &wrong, name)
		assert.Equal(t, "x", wrong.Name, name)
		require.NoError(t, G.Let(x, right()))
		require.NoError(t, m.RunAll())
		assert.Equal(t, []float64{1, 4, 9}, floats(t, y.Value()), name)
	}
}

// TestClosing: passes and Close may meet; every pass is complete or ends with ErrClosed, and values stay readable.
func TestClosing(t *testing.T) {
	g := G.NewGraph()
	y := G.Must(G.Square(vector(g, "x", 1, 2, 3)))
	m := compiled(t, g)
	require.NoError(t, m.RunAll())
	var wg sync.WaitGroup
	started := make(chan struct{}, 4)
	for range 4 {
		wg.Go(func() {
			assert.NoError(t, m.RunAll())
			started <- struct{}{}
			for range 50 {
				if err := m.RunAll(); err != nil {
					assert.ErrorIs(t, err, vm.ErrClosed)
				}
			}
		})
	}
	for range 4 {
		<-started
	}
	require.NoError(t, m.Close())
	wg.Wait()
	m.Reset()
	require.ErrorIs(t, m.RunAll(), vm.ErrClosed)
	require.NoError(t, m.Close())
	assert.Equal(t, []float64{1, 4, 9}, floats(t, y.Value()))
	assert.Positive(t, m.Memory().Arena)
	var none *vm.VM
	none.Reset()
	require.ErrorIs(t, none.RunAll(), vm.ErrClosed)
	require.ErrorIs(t, new(vm.VM).RunAll(), vm.ErrClosed)
}

// TestPassesAfterOneBeyondTheBudget: a pass that is found beyond the budget is an error, and ends no later one.
func TestPassesAfterOneBeyondTheBudget(t *testing.T) {
	g := G.NewGraph()
	y := G.BinomialRandomNode(g, tensor.Float64, 1<<24, 0.5, 1) // looks at the context at times
	var full *ops.MemoryError
	require.ErrorAs(t, ndarray.Budget(1).Check("the test"), &full) // says how much is in use
	m := compiled(t, g, vm.Keep(y), vm.WithMaxMemory(full.Live+64<<20))
	require.NoError(t, m.RunAll())
	held := make([]byte, 128<<20)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	var err error
	for begin := time.Now(); err == nil && time.Since(begin) < 5*time.Second; err = m.RunAll() {
	}
	require.ErrorAs(t, err, &full)
	runtime.KeepAlive(held)
	held = nil
	require.NoError(t, m.RunAll())
}
