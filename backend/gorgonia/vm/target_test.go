package vm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

// TestStringsOfPasses: results made of strings are those of the last pass.
func TestStringsOfPasses(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.String, G.WithShape(2, 2), G.WithName("x"))
	y, err := G.Reshape(x, tensor.Shape{4})
	require.NoError(t, err)
	var v G.Value
	G.Read(y, &v)
	m, err := vm.New(g)
	require.NoError(t, err)
	defer m.Close()
	for _, want := range [][]string{{"a", "b", "c", "d"}, {"e", "f", "g", "h"}} {
		require.NoError(t, G.Let(x, tensor.New(tensor.WithShape(2, 2), tensor.WithBacking(append([]string(nil), want...)))))
		require.NoError(t, m.RunAll())
		assert.Equal(t, want, v.Data())
		assert.Equal(t, want, y.Value().Data())
		m.Reset()
	}
}

// TestReadIntoColumn: a result is not lost in a copy of a slice.
func TestReadIntoColumn(t *testing.T) {
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float64, G.WithShape(3), G.WithName("x"), G.WithValue(tensor.New(tensor.WithBacking([]float64{1, 2, 3}))))
	y := G.Must(G.Square(x))
	all := tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(3, 3))
	column, err := all.Slice(nil, tensor.S(1))
	require.NoError(t, err)
	var v G.Value = column.(*tensor.Dense)
	G.Read(y, &v)
	m, err := vm.New(g)
	require.NoError(t, err)
	defer m.Close()
	assert.ErrorContains(t, m.RunAll(), "contiguous")
}

// TestFreezeTwice: each Freeze adds to those before.
func TestFreezeTwice(t *testing.T) {
	g := G.NewGraph()
	vector := func(name string, of ...float64) *G.Node {
		return G.NewVector(g, tensor.Float64, G.WithShape(len(of)), G.WithName(name), G.WithValue(tensor.New(tensor.WithBacking(of))))
	}
	x, x2 := vector("x", 1, 2, 3), vector("x2", 1, 2, 3)
	z := G.Must(G.Add(x2, G.Must(G.Square(x))))
	m, err := vm.New(g, vm.Freeze(x), vm.Freeze(x2))
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, G.Let(x, tensor.New(tensor.WithBacking([]float64{10, 10, 10}))))
	require.NoError(t, m.RunAll())
	assert.Equal(t, []float64{2, 6, 12}, z.Value().Data())
}
