package vm_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/graphs"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/ndarray"
)

// floats reads a value's elements.
func floats(t testing.TB, v G.Value) []float64 {
	t.Helper()
	require.NotNil(t, v)
	var a ndarray.Array
	require.NoError(t, values.View(t.Context(), &a, v))
	out := make([]float64, a.Len())
	for i := range out {
		out[i] = a.Float(i)
	}
	return out
}

// results are the cost and the gradients after a pass.
func results(t testing.TB, b *graphs.Built) [][]float64 {
	out := [][]float64{floats(t, b.Cost.Value())}
	for _, n := range b.Learn {
		v, err := n.Grad()
		require.NoError(t, err)
		out = append(out, floats(t, v))
	}
	return out
}

// taped runs a case with Gorgonia's machine.
func taped(t testing.TB, c graphs.Case) (out [][]float64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	b, err := c.Make(tensor.Float64, 1)
	if err != nil {
		return nil, err
	}
	m := G.NewTapeMachine(b.Graph, G.BindDualValues(b.Learn...))
	defer m.Close()
	if err := m.RunAll(); err != nil {
		return nil, err
	}
	return results(t, b), nil
}

func planned(t testing.TB, c graphs.Case, opts ...vm.Option) [][]float64 {
	b, err := c.Make(tensor.Float64, 1)
	require.NoError(t, err)
	m, err := vm.New(b.Graph, append(opts, vm.Poisoned())...)
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.RunAll())
	require.NoError(t, m.RunAll())
	t.Logf("%+v", m.Memory())
	return results(t, b)
}

// distance is the largest difference relative to the largest element.
func distance(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	d, top := 0.0, 1e-300
	for i := range a {
		d, top = max(d, math.Abs(a[i]-b[i])), max(top, math.Abs(a[i]))
		if math.IsNaN(a[i]) != math.IsNaN(b[i]) {
			return math.Inf(1)
		}
	}
	return d / top
}

// TestGraphs: values and gradients are those of Gorgonia's machine where it is right, and
// always those of central differences.
func TestGraphs(t *testing.T) {
	for _, c := range graphs.Cases {
		t.Run(c.Name, func(t *testing.T) {
			got := planned(t, c)
			want, err := taped(t, c)
			agree := err == nil
			if err != nil {
				t.Log("tape machine:", err)
			} else {
				for i := range want {
					agree = agree && distance(want[i], got[i]) < 1e-9
				}
			}
			assert.Equal(t, c.Wrong == "", agree, "the tape machine %v", c.Wrong)
			checkDifferences(t, c, got[1:])
		})
	}
}

// checkDifferences compares gradients with central differences of the cost, along a few
// elements of every input that is learned. The third-order error of the formula at h = 1e-4
// and the rounding of the cost, 1e-16/h, are below 1e-7 here.
func checkDifferences(t *testing.T, c graphs.Case, grads [][]float64) {
	b, err := c.Make(tensor.Float64, 1)
	require.NoError(t, err)
	m, err := vm.New(b.Graph)
	require.NoError(t, err)
	defer m.Close()
	const h = 1e-4
	cost := func() float64 {
		require.NoError(t, m.RunAll())
		return floats(t, b.Cost.Value())[0]
	}
	for k, n := range b.Learn {
		data := n.Value().Data().([]float64)
		for i := 0; i < len(data); i += max(len(data)/7, 1) {
			old := data[i]
			data[i] = old + h
			up := cost()
			data[i] = old - h
			down := cost()
			data[i] = old
			assert.InDelta(t, (up-down)/(2*h), grads[k][i], 1e-6, "%s[%d]", n.Name(), i)
		}
	}
}
