package rewrite

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestScaledTwice: factors of output channels, then of input channels, round weights once.
func TestScaledTwice(t *testing.T) {
	w := ndarray.Of([]float32{1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.1, 2.2, 2.3}, 2, 3, 2)
	out, in := channels{1.0 / 3, 1.0 / 7}, channels{1.0 / 11, 1.0 / 13, 1.0 / 17}
	c := newContext(t.Context(), &ssa.Module{Graph: ssa.NewGraph("g")}, Options{List: &Runtime})
	once, how := scaled(c, ssa.NewConstant(w), ops.Channels{Groups: 1, Outer: 1, Per: 2, Inner: 6}, out, 0)
	c.scalings[once] = how
	twice, _ := scaled(c, once, ops.Channels{Groups: 1, Outer: 2, Per: 3, Inner: 2}, in, 0)
	got, err := twice.Array()
	require.NoError(t, err)
	first, err := once.Array()
	require.NoError(t, err)
	differ := false
	for i, v := range ndarray.Slice[float32](w) {
		assert.Equal(t, float32(float64(v)*(out[i/6]*in[i/2%3])), ndarray.Slice[float32](got)[i], "element %d", i)
		differ = differ || ndarray.Slice[float32](got)[i] != float32(first.Float(i)*in[i/2%3])
	}
	assert.True(t, differ, "rounding twice gives the same, so the test shows nothing")
}

// TestEvenOut: taps are rounded so that their sum is nearly exact, none of them off by a unit of the largest.
func TestEvenOut(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	var nearest, even float64
	for _, taps := range []int{2, 9, 25, 49} {
		for range 200 {
			row := roundedRow{make([]float64, taps), make([]float32, taps)}
			before, largest := 0.0, float32(0)
			for i := range taps {
				row.exact[i] = draw.NormFloat64()
				row.rounded[i] = float32(row.exact[i])
				before += float64(row.rounded[i]) - row.exact[i]
				largest = max(largest, float32(math.Abs(row.exact[i])))
			}
			row.evenOut()
			after, unit := 0.0, float64(math.Nextafter32(largest, 2*largest)-largest)
			for i, x := range row.exact {
				after += float64(row.rounded[i]) - x
				assert.Less(t, math.Abs(float64(row.rounded[i])-x), unit)
			}
			assert.LessOrEqual(t, math.Abs(after), math.Abs(before))
			nearest, even = nearest+before*before, even+after*after
		}
	}
	assert.Less(t, math.Sqrt(even/nearest), 0.15)
}
