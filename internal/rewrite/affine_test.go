package rewrite

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const bnConstants = `const %g: float32[2] = [2, 4] const %h: float32[2] = [1, -1] const %m: float32[2] = [3, 5] const %v: float32[2] = [3, 15] `

func TestFoldAffine(t *testing.T) {
	testRewrite(t, []*Pass{FoldAffine, Dead}, []rewriteCase{
		{name: "conv, batch norm: s = g/sqrt(v+1) = 1, 1; t = h-m = -2, -6", before: bnConstants + `in %x: float32[N,1,3,3] const %w: float32[2,1,1,1] = [1, 2]
			%a = Conv(%x, %w) %y = BatchNormalization(%a, %g, %h, %m, %v) [epsilon=1.0] out %y`,
			after: `in %x: float32[N,1,3,3] const %w: float32[2,1,1,1] = [1, 2] const %b: float32[2] = [-2, -6] %y = Conv(%x, %w, %b) out %y`},
		{name: "conv with bias, batch norm, scale, shift", before: bnConstants + `in %x: float32[N,1,3,3] const %w: float32[2,1,1,1] = [1, 2] const %b: float32[2] = [1, 1]
			const %k: float32[2,1,1] = [2, 3] const %l: float32[1,2,1,1] = [10, 20]
			%a = Conv(%x, %w, %b) %c = BatchNormalization(%a, %g, %h, %m, %v) [epsilon=1.0] %d = Mul(%k, %c) %y = Add(%d, %l) out %y`,
			after: `in %x: float32[N,1,3,3] const %w: float32[2,1,1,1] = [2, 6] const %b: float32[2] = [8, 5] %y = Conv(%x, %w, %b) out %y`},
		{name: "grouped transposed convolution", before: `in %x: float32[1,4,2,2] const %w: float32[4,2,1,1] = [1, 2, 3, 4, 5, 6, 7, 8] const %k: float32[4,1,1] = [1, 10, 100, 1000]
			%a = ConvTranspose(%x, %w) [group=2] %y = Mul(%a, %k) out %y`,
			after: `in %x: float32[1,4,2,2] const %w: float32[4,2,1,1] = [1, 20, 3, 40, 500, 6000, 700, 8000] %y = ConvTranspose(%x, %w) [group=2] out %y`},
		{name: "gemm: alpha stays, beta goes into the bias", before: `in %x: float32[N,2] const %w: float32[2,2] = [1, 2, 3, 4] const %b: float32[2] = [1, 2] const %k: float32[2] = [2, 3] const %l: float32[] = 5
			%a = Gemm(%x, %w, %b) [alpha=0.5, beta=2.0] %c = Mul(%a, %k) %y = Sub(%l, %c) out %y`,
			after: `in %x: float32[N,2] const %w: float32[2,2] = [-2, -6, -6, -12] const %b: float32[2] = [1, -7] %y = Gemm(%x, %w, %b) [alpha=0.5] out %y`},
		{name: "gemm with transposed weight, no bias, scaled down", before: `in %x: float32[N,2] const %w: float32[3,2] = [1, 2, 3, 4, 5, 6] const %k: float32[3] = [1, 2, 4]
			%a = Gemm(%x, %w) [transB=1] %y = Div(%a, %k) out %y`,
			after: `in %x: float32[N,2] const %w: float32[3,2] = [1, 2, 1.5, 2, 1.25, 1.5] %y = Gemm(%x, %w) [transB=1] out %y`},
		{name: "matmul keeps one add", before: `in %x: float32[N,3,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[2] = [1, 2] const %l: float32[] = 3
			%a = MatMul(%x, %w) %b = Add(%a, %k) %y = Mul(%b, %l) out %y`,
			after: `in %x: float32[N,3,2] const %w: float32[2,2] = [3, 6, 9, 12] const %k: float32[2] = [3, 6] %a = MatMul(%x, %w) %y = Add(%a, %k) out %y`},
		{name: "matmul and add stay as they are", before: `in %x: float32[N,3,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[2] = [1, 2]
			%a = MatMul(%x, %w) %y = Add(%a, %k) out %y`},
		{name: "batch norm absorbs a chain", before: bnConstants + `in %x: float32[N,2,3] const %k: float32[2,1] = [2, 3] const %l: float32[] = 5
			%a = BatchNormalization(%x, %g, %h, %m, %v) [epsilon=1.0] %b = Mul(%a, %k) %y = Add(%b, %l) out %y`,
			after: `const %g: float32[2] = [4, 12] const %h: float32[2] = [7, 2] const %m: float32[2] = [3, 5] const %v: float32[2] = [3, 15]
			in %x: float32[N,2,3] %y = BatchNormalization(%x, %g, %h, %m, %v) [epsilon=1.0] out %y`},
		{name: "layer norm gets a bias", before: `in %x: float32[N,2] const %g: float32[2] = [2, 4] const %l: float32[2] = [1, 2] const %k: float32[] = -1
			%a = LayerNormalization(%x, %g) %b = Mul(%a, %k) %y = Add(%b, %l) out %y`,
			after: `in %x: float32[N,2] const %g: float32[2] = [-2, -4] const %l: float32[2] = [1, 2] %y = LayerNormalization(%x, %g, %l) out %y`},
		{name: "splat weights stay splats", before: `in %x: float32[N,1,3,3] const %w: float32[20,1,3,3] = splat 0.5 const %k: float32[] = 4
			%a = Conv(%x, %w) %y = Mul(%a, %k) out %y`,
			after: `in %x: float32[N,1,3,3] const %w: float32[20,1,3,3] = splat 2 %y = Conv(%x, %w) out %y`},
		{name: "splat weights do not grow", opts: Options{Growth: Growth{PerNode: -1}}, before: `in %x: float32[N,1,3,3] const %w: float32[2,1,3,3] = splat 0.5 const %k: float32[2,1,1] = [4, 5]
			%a = Conv(%x, %w) %y = Mul(%a, %k) out %y`},
		{name: "a second reader", before: `in %x: float32[N,1,3,3] const %w: float32[1,1,1,1] = [2] const %k: float32[] = 4
			%a = Conv(%x, %w) %y = Mul(%a, %k) out %y, %a`},
		{name: "not by channel", before: `in %x: float32[N,1,3,3] const %w: float32[3,1,1,1] = [1, 2, 3] const %k: float32[3] = [4, 5, 6]
			%a = Conv(%x, %w) %y = Mul(%a, %k) out %y`},
		{name: "grows the result", before: `in %x: float32[N,1,3,3] const %w: float32[1,1,1,1] = [1] const %k: float32[3,1,1] = [4, 5, 6]
			%a = Conv(%x, %w) %y = Mul(%a, %k) out %y`},
		{name: "addends that round", before: `in %x: float32[N,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[] = 12582912
			%a = MatMul(%x, %w) %b = Add(%a, %k) %y = Sub(%b, %k) out %y`},
		{name: "addends that round to a grid, in a bias", before: `in %x: float32[N,1,3,3] const %w: float32[2,1,1,1] = [1, 2] const %k: float32[2,1,1] = [1, 49152]
			%a = Conv(%x, %w) %b = Add(%a, %k) %y = Sub(%b, %k) out %y`},
		{name: "overflow", before: `in %x: float32[N,1] const %w: float32[1,1] = [1e+30] const %k: float32[] = 1e+30 %a = MatMul(%x, %w) %y = Mul(%a, %k) out %y`},
		{name: "training", before: bnConstants + `in %x: float32[N,1,3,3] const %w: float32[2,1,1,1] = [1, 2]
			%a = Conv(%x, %w) %y = BatchNormalization(%a, %g, %h, %m, %v) [training_mode=1] out %y`},
		{name: "shared weights are written once more only if small", opts: Options{Growth: Growth{PerNode: -1}}, before: `in %x: float32[N,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[] = 4
			%a = MatMul(%x, %w) %b = Mul(%a, %k) %c = MatMul(%x, %w) %y = Sub(%b, %c) out %y`},
		{name: "a bias that is not constant", before: `in %x: float32[N,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[] = 4 in %b: float32[2]
			%a = Gemm(%x, %w, %b) %y = Mul(%a, %k) out %y`},
	})
}

func TestFoldBefore(t *testing.T) {
	testRewrite(t, []*Pass{FoldBefore, Dead}, []rewriteCase{
		{name: "scale and shift before an unpadded convolution", before: `in %x: float32[N,2,3,3] const %w: float32[2,2,1,1] = [1, 2, 3, 4] const %b: float32[2] = [1, 1] const %k: float32[2,1,1] = [10, 100] const %l: float32[] = 5
			%a = Mul(%x, %k) %c = Add(%a, %l) %y = Conv(%c, %w, %b) out %y`,
			after: `in %x: float32[N,2,3,3] const %w: float32[2,2,1,1] = [10, 200, 30, 400] const %b: float32[2] = [16, 36] %y = Conv(%x, %w, %b) out %y`},
		{name: "one add stays before a padded convolution, in groups", before: `in %x: float32[N,2,3,3] const %w: float32[2,1,3,1] = [1, 2, 3, 4, 5, 6] const %k: float32[] = 2 const %l: float32[] = 4
			%a = Mul(%x, %k) %c = Add(%a, %l) %y = Conv(%c, %w) [group=2, pads=[1, 0, 1, 0]] out %y`,
			after: `in %x: float32[N,2,3,3] const %w: float32[2,1,3,1] = [2, 4, 6, 8, 10, 12] const %l: float32[2,1,1] = [2, 2]
			%a = Add(%x, %l) %y = Conv(%a, %w) [group=2, pads=[1, 0, 1, 0]] out %y`},
		{name: "a scale before a padded convolution", before: `in %x: float32[N,2,3,3] const %w: float32[1,2,2,1] = [1, 2, 3, 4] const %k: float32[2,1,1] = [10, 100]
			%a = Mul(%x, %k) %y = Conv(%a, %w) [pads=[1, 0, 1, 0]] out %y`,
			after: `in %x: float32[N,2,3,3] const %w: float32[1,2,2,1] = [10, 20, 300, 400] %y = Conv(%x, %w) [pads=[1, 0, 1, 0]] out %y`},
		{name: "a lone shift before a padded convolution stays", before: `in %x: float32[N,1,3,3] const %w: float32[1,1,2,1] = [1, 2] const %k: float32[] = 3
			%a = Add(%x, %k) %y = Conv(%a, %w) [pads=[1, 0, 1, 0]] out %y`},
		{name: "gemm takes all", before: `in %x: float32[N,2] const %w: float32[2,2] = [1, 2, 3, 4] const %b: float32[2] = [1, 2] const %k: float32[2] = [2, 3] const %l: float32[] = 1
			%a = Mul(%x, %k) %c = Sub(%a, %l) %y = Gemm(%c, %w, %b) [alpha=2.0, beta=3.0] out %y`,
			after: `in %x: float32[N,2] const %w: float32[2,2] = [2, 4, 9, 12] const %b: float32[2] = [-5, -6] %y = Gemm(%x, %w, %b) [alpha=2.0] out %y`},
		{name: "gemm with transposed weights", before: `in %x: float32[N,2] const %w: float32[3,2] = [1, 2, 3, 4, 5, 6] const %k: float32[2] = [2, 3] const %l: float32[2] = [1, 10]
			%a = Mul(%x, %k) %c = Add(%a, %l) %y = Gemm(%c, %w) [transB=1] out %y`,
			after: `in %x: float32[N,2] const %w: float32[3,2] = [2, 6, 6, 12, 10, 18] const %b: float32[3] = [21, 43, 65] %y = Gemm(%x, %w, %b) [transB=1] out %y`},
		{name: "matmul takes the scale", before: `in %x: float32[N,3,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[] = 0.5 const %l: float32[2] = [1, 2]
			%a = Add(%x, %l) %c = Mul(%a, %k) %y = MatMul(%c, %w) out %y`,
			after: `in %x: float32[N,3,2] const %w: float32[2,2] = [0.5, 1, 1.5, 2] const %l: float32[2] = [1, 2] %a = Add(%x, %l) %y = MatMul(%a, %w) out %y`},
		{name: "a scale of zero keeps its shift", before: `in %x: float32[N,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[2] = [0, 1] const %l: float32[2] = [1, 2]
			%a = Mul(%x, %k) %c = Add(%a, %l) %y = MatMul(%c, %w) out %y`},
		{name: "batch norm before convolution", before: bnConstants + `in %x: float32[N,2,3,3] const %w: float32[1,2,1,1] = [1, 2]
			%a = BatchNormalization(%x, %g, %h, %m, %v) [epsilon=1.0] %y = Conv(%a, %w) out %y`,
			after: `in %x: float32[N,2,3,3] const %w: float32[1,2,1,1] = [1, 2] const %b: float32[1] = [-14] %y = Conv(%x, %w, %b) out %y`},
		{name: "another reader", before: `in %x: float32[N,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[] = 0.5 %a = Mul(%x, %k) %y = MatMul(%a, %w) out %y, %a`},
	})
}

// TestScaleWhereTheyLie: weights at any address of a file are scaled without a copy of them, rows longer
// than a piece too.
func TestScaleWhereTheyLie(t *testing.T) {
	for _, row := range []int{1, 9, 256, 257, 1000} {
		for shift := range 4 {
			want := ndarray.Must(ndarray.Float32, 3, row)
			file := make([]byte, shift+len(want.Data))
			for i, v := range ndarray.Slice[float32](want) {
				ndarray.Slice[float32](want)[i] = v + float32(i+1)
			}
			copy(file[shift:], want.Data)
			k := ssa.NewConstant(&ndarray.Array{DType: ndarray.Float32, Shape: want.Shape, Data: file[shift:]})
			c := newContext(t.Context(), &ssa.Module{Graph: ssa.NewGraph("g")}, Options{List: &Runtime})
			scaled, _ := scaled(c, k, ops.Channels{Groups: 1, Outer: 1, Per: 3, Inner: row}, channels{1, 2, 0.5}, 0)
			got, err := scaled.Array()
			require.NoError(t, err)
			for i, v := range ndarray.Slice[float32](want) {
				assert.Equal(t, v*[]float32{1, 2, 0.5}[i/row], ndarray.Slice[float32](got)[i], "row of %d, address %d", row, shift)
			}
		}
	}
}

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
			row := makeRoundedRow(taps)
			row.rounded = make([]float32, taps)
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
