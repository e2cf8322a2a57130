package vm_test

import (
	"hash"
	"hash/fnv"
	"testing"

	"github.com/chewxy/hm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
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

// TestStock: ops that only Gorgonia has run inside of a planned graph.
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
