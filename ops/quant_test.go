package ops_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestQuantGolden(t *testing.T) { runGolden(t, "quant") }

// TestQuantizeRounding checks rounding, saturation and special values for every
// result type, scale 1.
func TestQuantizeRounding(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	in := []float64{0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, inf, -inf, nan}
	for _, c := range []struct {
		dt   ndarray.DType
		zero float64
		want []float64 // of dequantized results
	}{
		{ndarray.Uint8, 0, []float64{0, 2, 2, 0, 0, 255, 0, 255, 0, 0}},
		{ndarray.Int8, 0, []float64{0, 2, 2, 0, -2, 127, -128, 127, -128, -128}},
		{ndarray.Uint16, 0, []float64{0, 2, 2, 0, 0, 65535, 0, 65535, 0, 0}},
		{ndarray.Int16, 0, []float64{0, 2, 2, 0, -2, 32767, -32768, 32767, -32768, -32768}},
		{ndarray.Uint4, 0, []float64{0, 2, 2, 0, 0, 15, 0, 15, 0, 0}},
		{ndarray.Int4, 0, []float64{0, 2, 2, 0, -2, 7, -8, 7, -8, -8}},
		{ndarray.Uint2, 0, []float64{0, 2, 2, 0, 0, 3, 0, 3, 0, 0}},
		{ndarray.Int2, 0, []float64{0, 1, 1, 0, -2, 1, -2, 1, -2, -2}},
		{ndarray.Uint8, 3, []float64{0, 2, 2, 0, -2, 252, -3, 252, -3, -3}},
		{ndarray.Float8E4M3FN, 0, []float64{0.5, 1.5, 2.5, -0.5, -1.5, 448, -448, 448, -448, nan}},
		{ndarray.Float8E5M2, 0, []float64{0.5, 1.5, 2.5, -0.5, -1.5, 57344, -57344, 57344, -57344, nan}},
		{ndarray.Float8E4M3FNUZ, 0, []float64{0.5, 1.5, 2.5, -0.5, -1.5, 240, -240, 240, -240, nan}},
		{ndarray.Float6E2M3, 0, []float64{0.5, 1.5, 2.5, -0.5, -1.5, 7.5, -7.5, 7.5, -7.5, 0}},
		{ndarray.Float6E3M2, 0, []float64{0.5, 1.5, 2.5, -0.5, -1.5, 28, -28, 28, -28, 0}},
		{ndarray.Float4E2M1, 0, []float64{0.5, 1.5, 2, -0.5, -1.5, 6, -6, 6, -6, 0}},
	} {
		t.Run(c.dt.String(), func(t *testing.T) {
			x := ndarray.Must(ndarray.Float32, len(in))
			for i, v := range in {
				x.SetFloat(i, v)
			}
			scale, zero := ndarray.Scalar(float32(1)), ndarray.Must(c.dt)
			zero.SetFloat(0, c.zero)
			q := evalNN(t, "QuantizeLinear", 1, nil, x, scale, zero)[0]
			require.Equal(t, c.dt, q.DType)
			y := evalNN(t, "DequantizeLinear", 1, nil, q, scale, zero)[0]
			for i, w := range c.want {
				if math.IsNaN(w) {
					assert.True(t, math.IsNaN(y.Float(i)), "%g", in[i])
					continue
				}
				assert.InDelta(t, w, y.Float(i), 1e-6, "%g", in[i])
			}
		})
	}
}

func TestQuantizeAttributes(t *testing.T) {
	one := ndarray.Scalar(float32(1))
	x := ndarray.Of([]float32{1000, -1}, 2)
	t.Run("saturate=0", func(t *testing.T) {
		q := evalNN(t, "QuantizeLinear", 1, []ssa.Attr{attrInt("saturate", 0), attrInt("output_dtype", int64(ndarray.Float8E4M3FN))}, x, one)[0]
		assert.True(t, math.IsNaN(q.Float(0)))
		assert.Equal(t, -1.0, q.Float(1))
	})
	t.Run("output_dtype of DequantizeLinear", func(t *testing.T) {
		y := evalNN(t, "DequantizeLinear", 1, []ssa.Attr{attrInt("output_dtype", int64(ndarray.Float16))}, ndarray.Of([]int8{3}, 1), one)[0]
		assert.Equal(t, ndarray.Float16, y.DType)
	})
	t.Run("float8e8m0 scale", func(t *testing.T) {
		s := ndarray.Must(ndarray.Float8E8M0)
		s.SetFloat(0, 4)
		y := evalNN(t, "DequantizeLinear", 1, []ssa.Attr{attrInt("output_dtype", int64(ndarray.Float32))}, ndarray.Of([]int8{3}, 1), s)[0]
		assert.Equal(t, 12.0, y.Float(0))
	})
	t.Run("precision", func(t *testing.T) {
		third := ndarray.Scalar(float32(3))
		big := ndarray.Of([]float32{1e4}, 1)
		attrs := []ssa.Attr{attrInt("output_dtype", int64(ndarray.Uint16))}
		exact := evalNN(t, "QuantizeLinear", 1, attrs, big, third)[0]
		half := evalNN(t, "QuantizeLinear", 1, append(attrs, attrInt("precision", int64(ndarray.Float16))), big, third)[0]
		assert.Equal(t, int64(3333), exact.Int(0))
		assert.Equal(t, int64(3334), half.Int(0), "the quotient as float16")
	})
	t.Run("int32 data", func(t *testing.T) {
		q := evalNN(t, "QuantizeLinear", 1, nil, ndarray.Of([]int32{7, 300}, 2), ndarray.Scalar(float32(2)))[0]
		assert.Equal(t, []int64{4, 150}, q.Ints())
	})
	t.Run("axis of a vector", func(t *testing.T) {
		q := evalNN(t, "QuantizeLinear", 1, nil, ndarray.Of([]float32{6, 6}, 2), ndarray.Of([]float32{1, 2}, 2))[0]
		assert.Equal(t, []int64{6, 3}, q.Ints())
	})
}

func TestQuantShapes(t *testing.T) {
	for _, c := range []struct {
		op, in, want string
		attrs        []ssa.Attr
	}{
		{"QuantizeLinear", "float32[N,4]; float32[]", "uint8[N,4]", nil},
		{"QuantizeLinear", "float32[N,4]; float32[]; int4[]", "int4[N,4]", nil},
		{"QuantizeLinear", "float32[...]; float32[]", "float8e5m2[...]", []ssa.Attr{attrInt("output_dtype", int64(ndarray.Float8E5M2))}},
		{"DequantizeLinear", "int8[N,4]; float16[]", "float16[N,4]", nil},
		{"DynamicQuantizeLinear", "float32[N,4]", "uint8[N,4]; float32[]; uint8[]", nil},
		{"MatMulInteger", "uint8[N,3,K]; int8[K,5]", "int32[N,3,5]", nil},
		{"ConvInteger", "uint8[N,3,H]; int8[4,3,3]", "int32[N,4,H-2]", nil},
		{"QLinearConv", "uint8[N,3,H]; float32[]; uint8[]; int8[4,3,3]; float32[4]; int8[4]; float32[]; int8[]", "int8[N,4,H-2]", nil},
		{"QLinearMatMul", "uint8[N,K]; float32[]; uint8[]; int8[K,M]; float32[]; int8[]; float32[]; uint8[]", "uint8[N,M]", nil},
	} {
		t.Run(c.op, func(t *testing.T) {
			want := strings.Split(c.want, "; ")
			n := nodeOf(t, "", c.op, operandList(c.in), len(want), c.attrs...)
			require.NoError(t, ops.Infer(n))
			for i, w := range want {
				assert.Equal(t, w, n.Out[i].Type.String())
			}
		})
	}
}

// operandList splits operand types at ";".
func operandList(s string) []string {
	var in []string
	for _, part := range strings.Split(s, ";") {
		in = append(in, strings.TrimSpace(part))
	}
	return in
}

func TestQuantRefuses(t *testing.T) {
	for _, c := range []struct {
		op, in, want string
		attrs        []ssa.Attr
	}{
		{"QuantizeLinear", "float32[4]; float32[]; int8[]", "output_dtype is uint8", []ssa.Attr{attrInt("output_dtype", int64(ndarray.Uint8))}},
		{"QuantizeLinear", "float32[4]; float32[]; int32[]", "int32", nil},
		{"QuantizeLinear", "float32[2,4]; float32[3]", "does not fit axis 1", nil},
		{"QuantizeLinear", "float32[2,4]; float32[4]; uint8[]", "zero point", nil},
		{"QuantizeLinear", "float32[2,4]; float32[2,3]", "blocked scale", []ssa.Attr{attrInt("block_size", 2)}},
		{"DequantizeLinear", "int8[4]; float32[]; uint8[]", "its zero point uint8", nil},
		{"DequantizeLinear", "int8[4]; float8e8m0[]", "output_dtype", nil},
		{"DequantizeLinear", "int64[4]; float32[]", "int64", nil},
		{"DynamicQuantizeLinear", "float16[4]", "float16", nil},
		{"MatMulInteger", "int8[2,3]; int8[4,2]", "inner dimensions", nil},
		{"MatMulInteger", "int8[2,3]; int8[3,2]; int8[3]", "zero point of A", nil},
		{"ConvInteger", "int8[1,1,3]; int8[1,1,2]; uint8[]", "x has element type", nil},
		{"QLinearConv", "int8[1,1,3]; float32[]; int8[]; int8[2,1,2]; float32[3]; int8[]; float32[]; int8[]", "w_scale", nil},
	} {
		t.Run(c.op+" "+c.want, func(t *testing.T) {
			results := 1
			if c.op == "DynamicQuantizeLinear" {
				results = 3
			}
			refuses(t, nodeOf(t, "", c.op, operandList(c.in), results, c.attrs...), c.want)
		})
	}
}

// TestQuantForms checks the oldest operator set a node can be written for.
func TestQuantForms(t *testing.T) {
	for _, c := range []struct {
		op, in string
		attrs  []ssa.Attr
		want   int
	}{
		{"QuantizeLinear", "float32[4]; float32[]; uint8[]", nil, 10},
		{"QuantizeLinear", "float32[4]; float32[4]; uint8[4]", nil, 13},
		{"QuantizeLinear", "float16[4]; float16[]", nil, 19},
		{"QuantizeLinear", "float16[4]; float32[]", nil, 23},
		{"QuantizeLinear", "int32[4]; float32[]; int8[]", nil, 10},
		{"QuantizeLinear", "float32[4]; float32[]", []ssa.Attr{attrInt("output_dtype", int64(ndarray.Int8))}, 21},
		{"QuantizeLinear", "float32[4]; float32[]; int2[]", nil, 25},
		{"DequantizeLinear", "int4[4]; float32[]", nil, 21},
		{"DequantizeLinear", "float4e2m1[4]; float32[]", nil, 23},
		{"QLinearMatMul", "uint8[2,2]; float16[]; uint8[]; int8[2,2]; float16[]; int8[]; float16[]; uint8[]", nil, 21},
	} {
		n := nodeOf(t, "", c.op, operandList(c.in), 1, c.attrs...)
		require.NoError(t, ops.Infer(n))
		assert.Equal(t, c.want, ops.Of(n).Oldest(n), "%s %s", c.op, c.in)
	}
}

func TestQLinearMatMulFloat8(t *testing.T) {
	f8 := func(v ...float64) *ndarray.Array {
		a := ndarray.Must(ndarray.Float8E4M3FN, 1, len(v))
		for i, x := range v {
			a.SetFloat(i, x)
		}
		return a
	}
	zero, one := ndarray.Must(ndarray.Float8E4M3FN), ndarray.Scalar(float32(1))
	y := evalNN(t, "QLinearMatMul", 1, nil, f8(1, 2), one, zero, f8(3, 4).Reshaped(2, 1), one, zero, ndarray.Scalar(float32(0.5)), zero)[0]
	assert.Equal(t, 22.0, y.Float(0))
}
