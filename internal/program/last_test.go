package program

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// TestLastKernel runs nodes of open shapes with shapes and small integers that change from run
// to run. The kernel of the run before serves only what it was prepared for, and nothing is
// looked up where nothing has changed.
func TestLastKernel(t *testing.T) {
	g, p, s := started(t, `graph "g" { in %x: float32[N,M] in %axes: int64[1]
		%e = Exp(%x) %r = ReduceMax(%e, %axes) [keepdims=0] %n = Neg(%r) out %n }`)
	var all *kernels
	p.Main.each(t.Context(), func(in *Instr) {
		if k, ok := in.Kernel.(*dynamicKernel); ok {
			all = k.kernels
		}
	})
	require.NotNil(t, all, "some node has a kernel by shape")
	wide, tall := ndarray.Of([]float32{1, 5, 2, 3, 0, 4}, 2, 3), ndarray.Of([]float32{1, 5, 2, 3, 0, 4}, 3, 2)
	rows, columns := ndarray.Of([]int64{1}, 1), ndarray.Of([]int64{0}, 1)
	for _, c := range []struct {
		name    string
		x, axes *ndarray.Array
		looks   bool
	}{
		{"first", wide, rows, true},
		{"again", wide, rows, false},
		{"another axis", wide, columns, true},
		{"another shape of as many elements", tall, columns, true},
		{"again", tall, columns, false},
		{"back", wide, rows, true},
	} {
		in := []ndarray.Value{c.x, c.axes}
		before := all.clock.Load()
		got, err := s.Run(t.Context(), in)
		require.NoError(t, err, c.name)
		want, err := ops.Interpret(t.Context(), g, in, nil)
		require.NoError(t, err, c.name)
		assert.Equal(t, want[0].(*ndarray.Array).Shape, got[0].(*ndarray.Array).Shape, c.name)
		assert.InDeltaSlice(t, want[0].(*ndarray.Array).Floats32(), got[0].(*ndarray.Array).Floats32(), 1e-4, c.name)
		assert.Equal(t, c.looks, all.clock.Load() > before, c.name)
	}
}

// TestDeliveredHeaders: a value that a branch passes on keeps its shape when the slot that it
// came from gets another value.
func TestDeliveredHeaders(t *testing.T) {
	g, _, s := started(t, `graph "g" { in %m: int64[] in %x: float32[N] const %true: bool[] = true
		%last, %all = Loop(%m, %true, %x) { body: graph "b" { in %i: int64[] in %go: bool[] in %c: float32[?]
			const %two: int64[] = 2 %h = Mod(%i, %two) %b = Cast(%h) [to=9]
			%w = Concat(%c, %c) [axis=0] %n = Neg(%c)
			%k = If(%b | %w, %n) {
			  then_branch: graph "t" { in %w1: float32[?] in %n1: float32[?] out %w1 }
			  else_branch: graph "e" { in %w2: float32[?] in %n2: float32[?] out %n2 }
			}
			%s = Shape(%k) out %go, %k, %s } }
		out %last, %all }`)
	s.Poison = true
	for _, trips := range []int64{0, 1, 4, 7} {
		in := []ndarray.Value{ndarray.Scalar(trips), ndarray.Of([]float32{1, -2}, 2)}
		want, err := ops.Interpret(t.Context(), g, in, nil)
		require.NoError(t, err)
		got, err := s.Run(t.Context(), in)
		require.NoError(t, err)
		for i := range want {
			assert.Equal(t, want[i], got[i])
		}
	}
}
