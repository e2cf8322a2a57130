package exprgraph_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

// TestConcurrent imports one model in many goroutines, differentiates it and runs both machines: each has a graph of its own, and
// all of them the same results. What Gorgonia builds itself, it builds one after the other: its expressions of squares and derivatives
// share nodes of constants between graphs.
func TestConcurrent(t *testing.T) {
	m, in := dataSet(t, "wakeword")
	opts := shapesOf(m, in)
	costs := make([]string, 8)
	var wg sync.WaitGroup
	var building sync.Mutex
	for k := range costs {
		wg.Go(func() {
			g, err := exprgraph.Import(t.Context(), m, opts...)
			if !assert.NoError(t, err) || !assert.NoError(t, g.Bind(in...)) {
				return
			}
			building.Lock()
			cost := meanSquares(g.Outputs)
			_, err = G.Grad(cost, g.Weights...)
			building.Unlock()
			assert.NoError(t, err)
			machine, err := vm.New(g.ExprGraph)
			if !assert.NoError(t, err) {
				return
			}
			defer machine.Close()
			for range 3 {
				assert.NoError(t, machine.RunAll())
			}
			costs[k] = fmt.Sprint(scalarOf(t, cost.Value()), gradientSums(t, g))
		})
	}
	wg.Wait()
	for _, c := range costs {
		assert.Equal(t, costs[0], c)
	}
}

// gradientSums are the sums of the gradients by each weight.
func gradientSums(t *testing.T, g *exprgraph.Graph) (sums []float64) {
	for _, n := range g.Weights {
		v, err := n.Grad()
		require.NoError(t, err)
		a, err := values.Array(v)
		require.NoError(t, err)
		sum := 0.0
		for i := range a.Len() {
			sum += a.Float(i)
		}
		sums = append(sums, sum)
	}
	return sums
}

// TestSharedOps runs the ops of one graph in several tape machines at once, on graphs of their own: an op prepares its kernel once.
func TestSharedOps(t *testing.T) {
	first := loaded(t, "wakeword")
	want := make([]string, 4)
	var wg sync.WaitGroup
	for k := range want {
		wg.Go(func() {
			out := map[*G.Node]G.Value{}
			for _, n := range first.AllNodes() {
				if n.Op() == nil || n.Value() != nil {
					out[n] = n.Value()
				}
			}
			for _, y := range first.Outputs {
				v, err := computed(first, y, out)
				if assert.NoError(t, err) {
					want[k] += fmt.Sprint(v)
				}
			}
		})
	}
	wg.Wait()
	for _, w := range want {
		assert.Equal(t, want[0], w)
	}
}

// computed calls the op of a node on what its operands give, without a machine.
func computed(g *exprgraph.Graph, n *G.Node, known map[*G.Node]G.Value) (G.Value, error) {
	if v := known[n]; v != nil {
		return v, nil
	}
	var in []G.Value
	for it := g.From(n.ID()); it.Next(); {
		v, err := computed(g, it.Node().(*G.Node), known)
		if err != nil {
			return nil, err
		}
		in = append(in, v)
	}
	v, err := n.Op().Do(in...)
	known[n] = v
	return v, err
}
