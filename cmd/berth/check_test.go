package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestWithinRounding has a product of which the last bits depend on the order of
// its sums, and steps that are finer than those bits.
func TestWithinRounding(t *testing.T) {
	const product = `in %x: float32[100,999] in %w: float32[999,100] %p = MatMul(%x, %w) `
	const steps = `const %s: float32[] = 0.000001 const %z: uint16[] = 32768 %q = QuantizeLinear(%p, %s, %z) %y = DequantizeLinear(%q, %s, %z) out %y`
	for _, c := range []struct {
		name, graph string
		times       float64 // what is seen, in multiples of what the order of sums makes
		want        bool
	}{
		{"as far away as the other order", product + steps, 1, true},
		{"four times as far", product + steps, 4, true},
		{"far away", product + steps, 100, false},
		{"nothing is quantized", product + `out %p`, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { ` + c.graph + ` }`)
			require.NoError(t, err)
			m := berth.FromModule(&ssa.Module{Graph: g})
			a := &app{out: io.Discard, errOut: io.Discard}
			in := map[string]ndarray.Value{}
			for i, p := range m.Inputs() {
				shape, _ := p.Type.Static()
				x, err := randomArray(ndarray.Float32, shape, 1, uint64(i), 0)
				require.NoError(t, err)
				for j := range x.Len() {
					x.SetFloat(j, x.Float(j)/60)
				}
				in[p.Name] = x
			}
			v := verification{a: a, m: m, opt: m, res: &optimizeJSON{}}
			want, err := m.RunValues(t.Context(), in, berth.WithoutPasses())
			require.NoError(t, err)
			other, err := m.RunValues(t.Context(), in, berth.WithoutPasses(), berth.WithBackend("reference"))
			require.NoError(t, err)
			scatter := v.largest(other, want)
			require.Positive(t, scatter, "the orders of sums differ")
			v.res.MaxDiff = c.times * scatter
			got, err := v.withinRounding(t.Context(), in, want)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want, v.res.Note != "")
		})
	}
}
