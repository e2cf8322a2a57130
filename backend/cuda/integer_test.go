package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// randomBytes has all values of a type of 8 bits.
func randomBytes(rng *rand.Rand, dt ndarray.DType, shape ...int) *ndarray.Array {
	a := ndarray.Must(dt, shape...)
	for i := range a.Data {
		a.Data[i] = byte(rng.Uint32())
	}
	return a
}

// eachPair calls f for the pairs of types of factors.
func eachPair(t *testing.T, f func(t *testing.T, rng *rand.Rand, a, b ndarray.DType)) {
	types := []ndarray.DType{ndarray.Int8, ndarray.Uint8}
	for _, a := range types {
		for _, b := range types {
			t.Run(fmt.Sprint(a, " ", b), func(t *testing.T) { f(t, rand.New(rand.NewPCG(7, 8)), a, b) })
		}
	}
}

// TestIntegerProducts: every sum and every rounding is that of the reference kernels, for zero points and scales of a tensor, of rows and
// of columns.
func TestIntegerProducts(t *testing.T) {
	shapes := []struct {
		a, b   []int
		column int // of the result
	}{
		{[]int{3, 5}, []int{5, 7}, 7}, {[]int{65, 33}, []int{33, 66}, 66}, {[]int{2, 3, 4, 8}, []int{8, 3}, 3}, {[]int{2, 1, 3, 9}, []int{2, 1, 9, 4}, 4},
		{[]int{130, 9}, []int{9, 65}, 65}, {[]int{6}, []int{6, 4}, 4}, {[]int{3, 6}, []int{6}, 1}, {[]int{1, 200}, []int{200, 1}, 1},
	}
	eachPair(t, func(t *testing.T, rng *rand.Rand, dtA, dtB ndarray.DType) {
		for _, s := range shapes {
			a, b := randomBytes(rng, dtA, s.a...), randomBytes(rng, dtB, s.b...)
			comparison(t, oneNode("MatMulInteger", 1, []*ndarray.Array{a, b}), a, 1, 0)
			zeroA, zeroB := randomBytes(rng, dtA), randomBytes(rng, dtB)
			scaleA, scaleB := ndarray.Of([]float32{0.5}), ndarray.Of([]float32{0.25})
			if len(s.a) == 2 && len(s.b) == 2 {
				zeroA, zeroB = randomBytes(rng, dtA, s.a[0]), randomBytes(rng, dtB, s.column)
				scaleA, scaleB = wave(1, s.a[0]), wave(2, s.column)
			}
			comparison(t, oneNode("MatMulInteger", 1, []*ndarray.Array{a, b, zeroA, zeroB}), a, 1, 0)
			for _, dtY := range []ndarray.DType{ndarray.Int8, ndarray.Uint8} {
				for _, scale := range []float32{1e-30, 16, 300, float32(math.NaN())} { // saturated, some of it, ties, none
					comparison(t, oneNode("QLinearMatMul", 1, []*ndarray.Array{a, scaleA, zeroA, b, scaleB, zeroB, ndarray.Of([]float32{scale}),
						randomBytes(rng, dtY)}), a, 1, 0)
				}
			}
		}
	})
}

// TestIntegerConvolutions: the same for convolutions; padding stands for the zero point.
func TestIntegerConvolutions(t *testing.T) {
	pads := ssa.IntsAttr("pads", 1, 2, 1, 0)
	cases := []struct {
		x, w  []int
		attrs []ssa.Attr
	}{
		{[]int{1, 3, 6, 5}, []int{4, 3, 3, 3}, []ssa.Attr{pads}},
		{[]int{2, 5, 9, 9}, []int{66, 5, 1, 1}, nil},
		{[]int{1, 6, 7, 8}, []int{4, 3, 2, 3}, []ssa.Attr{pads, ssa.IntAttr("group", 2), ssa.IntsAttr("strides", 2, 1), ssa.IntsAttr("dilations", 1, 2)}},
		{[]int{2, 4, 6, 6}, []int{4, 1, 3, 3}, []ssa.Attr{pads, ssa.IntAttr("group", 4)}},
		{[]int{1, 2, 5, 5}, []int{6, 1, 3, 3}, []ssa.Attr{ssa.StringAttr("auto_pad", "SAME_LOWER"), ssa.IntAttr("group", 2)}},
		{[]int{2, 3, 17}, []int{5, 3, 4}, []ssa.Attr{ssa.IntsAttr("pads", 2, 1)}},
	}
	eachPair(t, func(t *testing.T, rng *rand.Rand, dtX, dtW ndarray.DType) {
		for _, c := range cases {
			x, w := randomBytes(rng, dtX, c.x...), randomBytes(rng, dtW, c.w...)
			zeroX, zeroW := randomBytes(rng, dtX), randomBytes(rng, dtW, c.w[0])
			comparison(t, oneNode("ConvInteger", 1, []*ndarray.Array{x, w}, c.attrs...), x, 1, 0)
			comparison(t, oneNode("ConvInteger", 1, []*ndarray.Array{x, w, zeroX, randomBytes(rng, dtW)}, c.attrs...), x, 1, 0)
			comparison(t, oneNode("ConvInteger", 1, []*ndarray.Array{x, w, zeroX, zeroW}, c.attrs...), x, 1, 0)
			bias := ndarray.Must(ndarray.Int32, c.w[0])
			for i := range bias.Len() {
				bias.SetInt(i, int64(rng.IntN(20000)-10000))
			}
			for _, dtY := range []ndarray.DType{ndarray.Int8, ndarray.Uint8} {
				operands := []*ndarray.Array{x, ndarray.Of([]float32{0.5}), zeroX, w, wave(3, c.w[0]), zeroW, ndarray.Of([]float32{64}), randomBytes(rng, dtY), bias}
				comparison(t, oneNode("QLinearConv", 1, operands, c.attrs...), x, 1, 0)
				operands[4], operands[5] = ndarray.Of([]float32{0.125}), randomBytes(rng, dtW)
				comparison(t, oneNode("QLinearConv", 1, operands[:8], c.attrs...), x, 1, 0)
			}
		}
	})
}

// TestQuantizedArithmetic: sums and products of quantized tensors, whose zero point is added before rounding, and functions by tables.
func TestQuantizedArithmetic(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	scale := func(v float32) *ndarray.Array { return ndarray.Of([]float32{v}) }
	for _, dt := range []ndarray.DType{ndarray.Int8, ndarray.Uint8} {
		a, b := randomBytes(rng, dt, 3, 40), randomBytes(rng, dt, 40)
		for _, op := range []string{"QLinearAdd", "QLinearMul"} {
			for _, y := range []float32{0.25, 3, 1e-20, float32(math.NaN())} {
				comparison(t, oneNode("com.microsoft/"+op, 1, []*ndarray.Array{a, scale(0.5), randomBytes(rng, dt), b, scale(0.25), randomBytes(rng, dt),
					scale(y), randomBytes(rng, dt)}), a, 1, 0)
				comparison(t, oneNode("com.microsoft/"+op, 1, []*ndarray.Array{a, scale(0.5), nil, b, scale(0.25), nil, scale(y)}), a, 1, 0)
			}
		}
		for _, op := range []string{"QLinearSigmoid", "QLinearLeakyRelu"} {
			comparison(t, oneNode("com.microsoft/"+op, 1, []*ndarray.Array{a, scale(0.03), randomBytes(rng, dt), scale(0.004), randomBytes(rng, dt)}), a, 1, 0)
		}
	}
}

// quantizedGraph is what tools write for a quantized model: DequantizeLinear and QuantizeLinear around operators on real numbers.
const quantizedGraph = `in %x: float32[1,2,6,6] const %s: float32[] = 0.05 const %z: uint8[] = 120 const %z0: uint8[] = 0 const %ws: float32[] = 0.02 const %wz: int8[] = 0
	const %w: int8[2,2,1,1] = [10, -20, 30, 40] const %w2: int8[6,3] = [1, 2, 3, -4, 5, 6, 7, 8, -9, 10, 11, 12, 13, 14, 15, 16, -17, 18]
	%q = QuantizeLinear(%x, %s, %z) %d = DequantizeLinear(%q, %s, %z) %wd = DequantizeLinear(%w, %ws, %wz)
	%c = Conv(%d, %wd) %r = Relu(%c) %cq = QuantizeLinear(%r, %s, %z0) %cd = DequantizeLinear(%cq, %s, %z0)
	%a = Add(%cd, %d) %aq = QuantizeLinear(%a, %s, %z) %ad = DequantizeLinear(%aq, %s, %z)
	%wm = DequantizeLinear(%w2, %ws, %wz) %m = MatMul(%ad, %wm) %mq = QuantizeLinear(%m, %s, %z) %y = DequantizeLinear(%mq, %s, %z) out %y`

// TestQuantizedModel: a quantized model is computed in integers, and nothing of it on the host.
func TestQuantizedModel(t *testing.T) {
	counting()
	m := modelOf(t, quantizedGraph)
	s := sessionOn(t, m, countingName)
	in := values{"x": wave(1, 1, 2, 6, 6)}
	got, err := s.RunValues(t.Context(), in)
	require.NoError(t, err)
	want, err := m.RunValues(t.Context(), in, berth.WithBackend("reference"))
	require.NoError(t, err)
	assert.Equal(t, want["y"], got["y"])
	stats := s.DeviceMemory().(*memory).stats
	assert.Zero(t, stats.HostNodes)
	ran := map[string]bool{}
	s.Observe(func(step berth.Step, _ []ndarray.Value) { ran[step.Op()] = true })
	_, err = s.RunValues(t.Context(), in)
	require.NoError(t, err)
	for _, op := range []string{"QLinearConv", "QLinearAdd", "QLinearMatMul"} {
		assert.True(t, ran[op], "%s among %v", op, ran)
	}
}
