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
		for k, s := range shapes {
			a, b := randomBytes(rng, dtA, s.a...), randomBytes(rng, dtB, s.b...)
			comparison(t, oneNode("MatMulInteger", 1, []*ndarray.Array{a, b}), a, 1, 0)
			zeroA, zeroB := randomBytes(rng, dtA), randomBytes(rng, dtB)
			scaleA, scaleB := ndarray.Of([]float32{0.5}), ndarray.Of([]float32{0.25})
			if len(s.a) == 2 && len(s.b) == 2 {
				zeroA, zeroB = randomBytes(rng, dtA, s.a[0]), randomBytes(rng, dtB, s.column)
				scaleA, scaleB = wave(1, s.a[0]), wave(2, s.column)
			}
			comparison(t, oneNode("MatMulInteger", 1, []*ndarray.Array{a, b, zeroA, zeroB}), a, 1, 0)
			scales := []float32{1e-30, 16, 300, float32(math.NaN())} // saturated, some of it, ties, none
			for y, dtY := range []ndarray.DType{ndarray.Int8, ndarray.Uint8} {
				for _, scale := range []float32{scales[(k+y)%4], scales[(k+y+2)%4]} {
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
		{[]int{1, 5, 9, 9}, []int{66, 5, 1, 1}, nil},
		{[]int{1, 6, 7, 8}, []int{4, 3, 2, 3}, []ssa.Attr{pads, ssa.IntAttr("group", 2), ssa.IntsAttr("strides", 2, 1), ssa.IntsAttr("dilations", 1, 2)}},
		{[]int{2, 4, 6, 6}, []int{4, 1, 3, 3}, []ssa.Attr{pads, ssa.IntAttr("group", 4)}},
		{[]int{1, 2, 5, 5}, []int{6, 1, 3, 3}, []ssa.Attr{ssa.StringAttr("auto_pad", "SAME_LOWER"), ssa.IntAttr("group", 2)}},
		{[]int{2, 3, 17}, []int{5, 3, 4}, []ssa.Attr{ssa.IntsAttr("pads", 2, 1)}},
	}
	eachPair(t, func(t *testing.T, rng *rand.Rand, dtX, dtW ndarray.DType) {
		for k, c := range cases {
			x, w := randomBytes(rng, dtX, c.x...), randomBytes(rng, dtW, c.w...)
			zeroX, zeroW := randomBytes(rng, dtX), randomBytes(rng, dtW, c.w[0])
			comparison(t, oneNode("ConvInteger", 1, []*ndarray.Array{x, w}, c.attrs...), x, 1, 0)
			comparison(t, oneNode("ConvInteger", 1, []*ndarray.Array{x, w, zeroX, randomBytes(rng, dtW)}, c.attrs...), x, 1, 0)
			comparison(t, oneNode("ConvInteger", 1, []*ndarray.Array{x, w, zeroX, zeroW}, c.attrs...), x, 1, 0)
			bias := ndarray.Must(ndarray.Int32, c.w[0])
			for i := range bias.Len() {
				bias.SetInt(i, int64(rng.IntN(20000)-10000))
			}
			results := []ndarray.DType{ndarray.Int8, ndarray.Uint8} // one with a bias and a scale for each channel, the other without
			dtY, dtPlain := results[k%2], results[(k+1)%2]
			operands := []*ndarray.Array{x, ndarray.Of([]float32{0.5}), zeroX, w, wave(3, c.w[0]), zeroW, ndarray.Of([]float32{64}), randomBytes(rng, dtY), bias}
			comparison(t, oneNode("QLinearConv", 1, operands, c.attrs...), x, 1, 0)
			operands[4], operands[5], operands[7] = ndarray.Of([]float32{0.125}), randomBytes(rng, dtW), randomBytes(rng, dtPlain)
			comparison(t, oneNode("QLinearConv", 1, operands[:8], c.attrs...), x, 1, 0)
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

// TestDynamicQuantization: the range is that of all elements and 0, whatever the number of blocks that look for it; NaN has no part in it and becomes 0.
func TestDynamicQuantization(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, c := range []struct {
		name  string
		shape []int
		of    func(i int, v float64) float64
	}{
		{"one", []int{}, nil},
		{"some", []int{3, 5}, nil},
		{"several blocks", []int{7, 1000}, nil},
		{"more parts than blocks", []int{300_000}, nil},
		{"positive", []int{300}, func(_ int, v float64) float64 { return 1 + math.Abs(v) }},
		{"negative", []int{300}, func(_ int, v float64) float64 { return -1 - math.Abs(v) }},
		{"zeros", []int{300}, func(int, float64) float64 { return 0 }},
		{"ties", []int{256}, func(i int, _ float64) float64 { return float64(i) / 2 }},
		{"small", []int{300}, func(_ int, v float64) float64 { return 1e-40 * v }},
		{"large", []int{300}, func(_ int, v float64) float64 { return 1e37 * v }},
		{"not a number", []int{5000}, func(i int, v float64) float64 { return map[bool]float64{true: math.NaN(), false: v}[i%7 == 0] }},
		{"positive infinity", []int{30}, func(i int, v float64) float64 { return map[bool]float64{true: math.Inf(1), false: v}[i == 7] }},
		{"negative infinity", []int{30}, func(i int, v float64) float64 { return map[bool]float64{true: math.Inf(-1), false: v}[i == 7] }},
		{"nothing but that", []int{30}, func(int, float64) float64 { return math.NaN() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := normal(rng, c.shape...)
			for i := 0; c.of != nil && i < x.Len(); i++ {
				x.SetFloat(i, c.of(i, x.Float(i)))
			}
			comparison(t, oneNode("DynamicQuantizeLinear", 3, []*ndarray.Array{x}), x, 2, 0)
		})
	}
}

// TestQuantizedLSTM compares layers with weights of 8 bits with the reference kernels: the range of the states is that of all sequences, also of
// those that have ended.
func TestQuantizedLSTM(t *testing.T) {
	for i, c := range []struct {
		steps, batch, input, hidden, dirs int
		perColumn, hasStates              bool
		weights                           ndarray.DType
		lengths                           *ndarray.Array
		attrs                             []ssa.Attr
	}{
		{5, 1, 7, 9, 1, false, false, ndarray.Int8, nil, nil},
		{6, 1, 30, 40, 2, true, false, ndarray.Uint8, nil, []ssa.Attr{ssa.StringAttr("direction", "bidirectional")}},
		{5, 3, 7, 10, 2, false, true, ndarray.Int8, ndarray.Of([]int32{2, 0, 5}, 3), []ssa.Attr{ssa.StringAttr("direction", "bidirectional")}},
		{4, 2, 9, 33, 1, true, true, ndarray.Int8, nil, []ssa.Attr{ssa.StringAttr("direction", "reverse"), ssa.IntAttr("input_forget", 1), ssa.FloatAttr("clip", 0.5)}},
		{3, 4, 5, 256, 1, false, false, ndarray.Uint8, nil, nil},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(13, uint64(i)))
			n := []int{c.dirs}
			if c.perColumn {
				n = []int{c.dirs, 4 * c.hidden}
			}
			scale, zero := ndarray.Must(ndarray.Float32, n...), randomBytes(rng, c.weights, n...)
			for k := range scale.Len() {
				scale.SetFloat(k, 0.001+0.002*rng.Float64())
			}
			operands := []*ndarray.Array{normal(rng, c.steps, c.batch, c.input), randomBytes(rng, c.weights, c.dirs, c.input, 4*c.hidden),
				randomBytes(rng, c.weights, c.dirs, c.hidden, 4*c.hidden), normal(rng, c.dirs, 8*c.hidden), c.lengths, nil, nil, nil, scale, zero, scale, zero}
			if c.hasStates {
				operands[5], operands[6] = normal(rng, c.dirs, c.batch, c.hidden), normal(rng, c.dirs, c.batch, c.hidden)
				operands[7] = normal(rng, c.dirs, 3*c.hidden)
			}
			m := oneNode("com.microsoft/DynamicQuantizeLSTM", 3, operands, append(c.attrs, ssa.IntAttr("hidden_size", int64(c.hidden)))...)
			comparison(t, m, operands[0], int64(3+c.dirs), 2e-5)
		})
	}
}
