package vm_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/vm"
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
			well = true
			require.NoError(t, m.RunAll())
			assert.Equal(t, []float64{4, 9, 16}, floats(t, y.Value()))
		})
	}
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
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if err := m.RunAll(); err != nil {
					assert.ErrorIs(t, err, vm.ErrClosed)
				}
			}
		})
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
