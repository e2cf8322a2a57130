package onnximport

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func TestTensorForms(t *testing.T) {
	type wt = onnxwire.Tensor
	tests := []struct {
		name string
		in   wt
		dt   ndarray.DType
		want []float64
	}{
		{"float raw", wt{DataType: 1, Dims: []int64{2}, RawData: []byte{0, 0, 128, 63, 0, 0, 0, 64}}, ndarray.Float32, []float64{1, 2}},
		{"float list", wt{DataType: 1, Dims: []int64{2}, FloatData: []float32{1, 2}}, ndarray.Float32, []float64{1, 2}},
		{"double list", wt{DataType: 11, Dims: []int64{1}, DoubleData: []float64{3}}, ndarray.Float64, []float64{3}},
		{"int64 list", wt{DataType: 7, Dims: []int64{2}, Int64Data: []int64{-1, 5}}, ndarray.Int64, []float64{-1, 5}},
		{"int32 list", wt{DataType: 6, Dims: []int64{2}, Int32Data: []int32{-1, 5}}, ndarray.Int32, []float64{-1, 5}},
		{"int8 in int32 list", wt{DataType: 3, Dims: []int64{2}, Int32Data: []int32{-1, 5}}, ndarray.Int8, []float64{-1, 5}},
		{"uint8 in int32 list", wt{DataType: 2, Dims: []int64{1}, Int32Data: []int32{200}}, ndarray.Uint8, []float64{200}},
		{"int16 in int32 list", wt{DataType: 5, Dims: []int64{1}, Int32Data: []int32{-300}}, ndarray.Int16, []float64{-300}},
		{"uint16 in int32 list", wt{DataType: 4, Dims: []int64{1}, Int32Data: []int32{60000}}, ndarray.Uint16, []float64{60000}},
		{"uint32 in uint64 list", wt{DataType: 12, Dims: []int64{1}, Uint64Data: []uint64{4e9}}, ndarray.Uint32, []float64{4e9}},
		{"uint64 list", wt{DataType: 13, Dims: []int64{1}, Uint64Data: []uint64{1 << 63}}, ndarray.Uint64, []float64{1 << 63}},
		{"bool in int32 list", wt{DataType: 9, Dims: []int64{3}, Int32Data: []int32{0, 1, 7}}, ndarray.Bool, []float64{0, 1, 1}},
		{"bool raw, untidy", wt{DataType: 9, Dims: []int64{3}, RawData: []byte{0, 1, 255}}, ndarray.Bool, []float64{0, 1, 1}},
		{"float16 in int32 list", wt{DataType: 10, Dims: []int64{2}, Int32Data: []int32{0x3c00, 0xc000}}, ndarray.Float16, []float64{1, -2}},
		{"bfloat16 raw", wt{DataType: 16, Dims: []int64{1}, RawData: []byte{0x80, 0x3f}}, ndarray.BFloat16, []float64{1}},
		{"float8 raw", wt{DataType: 17, Dims: []int64{1}, RawData: []byte{0x38}}, ndarray.Float8E4M3FN, []float64{1}},
		{"int4 raw, odd count", wt{DataType: 22, Dims: []int64{3}, RawData: []byte{0xf1, 0x08}}, ndarray.Int4, []float64{1, -1, -8}},
		{"uint4 in int32 list", wt{DataType: 21, Dims: []int64{4}, Int32Data: []int32{0xf1, 0x28}}, ndarray.Uint4, []float64{1, 15, 8, 2}},
		{"int2 raw", wt{DataType: 26, Dims: []int64{5}, RawData: []byte{0b11_10_01_00, 0b10}}, ndarray.Int2, []float64{0, 1, -2, -1, -2}},
		{"uint2 raw", wt{DataType: 25, Dims: []int64{4}, RawData: []byte{0b11_10_01_00}}, ndarray.Uint2, []float64{0, 1, 2, 3}},
		{"float4 raw", wt{DataType: 23, Dims: []int64{2}, RawData: []byte{0xa2}}, ndarray.Float4E2M1, []float64{1, -1}},
		{"float6e2m3 raw, not in fours", wt{DataType: 27, Dims: []int64{5}, RawData: []byte{0x40, 0x20, 0x0c, 0x04}}, ndarray.Float6E2M3, []float64{0, 0.125, 0.25, 0.375, 0.5}},
		{"float6e3m2 raw, signs across bytes", wt{DataType: 28, Dims: []int64{3}, RawData: []byte{0xcc, 0x0e, 0x02}}, ndarray.Float6E3M2, []float64{1, -14, math.Copysign(0, -1)}},
		{"float6 in int32 list, one each", wt{DataType: 28, Dims: []int64{3}, Int32Data: []int32{12, 44, 31}}, ndarray.Float6E3M2, []float64{1, -1, 28}},
		{"complex64 list", wt{DataType: 14, Dims: []int64{1}, FloatData: []float32{3, 4}}, ndarray.Complex64, []float64{3}},
		{"complex128 list", wt{DataType: 15, Dims: []int64{1}, DoubleData: []float64{3, 4}}, ndarray.Complex128, []float64{3}},
		{"scalar", wt{DataType: 7, Int64Data: []int64{9}}, ndarray.Int64, []float64{9}},
		{"empty raw", wt{DataType: 1, Dims: []int64{0}, RawData: []byte{}}, ndarray.Float32, nil},
		{"empty, nothing there", wt{DataType: 1, Dims: []int64{2, 0}}, ndarray.Float32, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := arrayOf(t.Context(), &tt.in)
			require.NoError(t, err)
			assert.Equal(t, tt.dt, a.DType)
			require.Equal(t, len(tt.want), a.Len())
			for i, w := range tt.want {
				assert.Equal(t, w, a.Float(i), "element %d", i)
				assert.Equal(t, math.Signbit(w), math.Signbit(a.Float(i)), "sign of element %d", i)
			}
		})
	}
}

func TestStringTensor(t *testing.T) {
	a, err := arrayOf(t.Context(), &onnxwire.Tensor{DataType: 8, Dims: []int64{2}, StringData: [][]byte{[]byte("a"), []byte("\xff")}})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "\xff"}, a.Str)
}

func TestTensorsRefused(t *testing.T) {
	type wt = onnxwire.Tensor
	tests := []struct {
		name   string
		in     wt
		reason string
	}{
		{"no type", wt{}, "UNDEFINED"},
		{"unknown type", wt{DataType: 99}, "not supported"},
		{"negative dimension", wt{DataType: 1, Dims: []int64{-1}}, "dimension -1"},
		{"overflow", wt{DataType: 1, Dims: []int64{1 << 40, 1 << 40}}, "overflows"},
		{"raw too short", wt{DataType: 1, Dims: []int64{2}, RawData: make([]byte, 7)}, "needs 8 bytes, the file has 7"},
		{"raw too long", wt{DataType: 22, Dims: []int64{3}, RawData: make([]byte, 3)}, "needs 2 bytes, the file has 3"},
		{"two fields", wt{Name: "w", DataType: 1, Dims: []int64{1}, FloatData: []float32{1}, RawData: []byte{0, 0, 0, 0}}, `tensor "w" has elements in raw_data and in float_data`},
		{"a field of another type", wt{DataType: 1, Dims: []int64{1}, FloatData: []float32{1}, Int32Data: []int32{1}}, "elements in float_data and in int32_data"},
		{"strings as bytes", wt{DataType: 8, Dims: []int64{1}, StringData: [][]byte{{'a'}}, RawData: []byte{1}}, "elements in raw_data and in string_data"},
		{"list too long", wt{DataType: 1, Dims: []int64{1}, FloatData: []float32{1, 2}}, "needs 1 entries of float_data, the file has 2"},
		{"uint8 of 300", wt{DataType: 2, Dims: []int64{1}, Int32Data: []int32{300}}, "of type uint8 has the entry 300 in int32_data"},
		{"uint8 of -1", wt{DataType: 2, Dims: []int64{1}, Int32Data: []int32{-1}}, "the entry -1"},
		{"int8 of 128", wt{DataType: 3, Dims: []int64{1}, Int32Data: []int32{128}}, "the entry 128"},
		{"uint16 of 65536", wt{DataType: 4, Dims: []int64{1}, Int32Data: []int32{1 << 16}}, "the entry 65536"},
		{"int16 of -32769", wt{DataType: 5, Dims: []int64{1}, Int32Data: []int32{-1<<15 - 1}}, "the entry -32769"},
		{"float16 of 17 bits", wt{DataType: 10, Dims: []int64{1}, Int32Data: []int32{1 << 16}}, "of type float16 has the entry 65536"},
		{"uint32 of 33 bits", wt{DataType: 12, Dims: []int64{1}, Uint64Data: []uint64{1 << 32}}, "the entry 4294967296 in uint64_data"},
		{"list too short", wt{DataType: 1, Dims: []int64{2}, FloatData: []float32{1}}, "needs 2 entries of float_data, the file has 1"},
		{"nothing there", wt{DataType: 1, Dims: []int64{1 << 40}}, "the file has 0"},
		{"wrong list", wt{DataType: 7, Dims: []int64{1}, FloatData: []float32{1}}, "int64_data"},
		{"complex list odd", wt{DataType: 14, Dims: []int64{1}, FloatData: []float32{1}}, "needs 2 entries"},
		{"strings missing", wt{DataType: 8, Dims: []int64{1}}, "string_data"},
		{"segment", wt{DataType: 1, Segment: &onnxwire.Segment{}}, "segment"},
		{"external", wt{DataType: 1, DataLocation: onnxwire.DataExternal}, "another file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := arrayOf(t.Context(), &tt.in)
			var e *ImportError
			require.ErrorAs(t, err, &e)
			assert.Contains(t, e.Reason, tt.reason)
		})
	}
}

// TestWeightsAreNotCopied checks that raw data of an aligned tensor is used where it lies.
func TestWeightsAreNotCopied(t *testing.T) {
	raw := ndarray.AlignedBytes(8)
	c, err := constantOf(t.Context(), &onnxwire.Tensor{DataType: 1, Dims: []int64{2}, RawData: raw})
	require.NoError(t, err)
	a, err := c.Array()
	require.NoError(t, err)
	assert.Same(t, &raw[0], &a.Data[0])
	assert.Same(t, &raw[0], &c.Packed()[0])
}

func TestSparse(t *testing.T) {
	linear := &onnxwire.SparseTensor{Dims: []int64{2, 3}, Values: floats("w", 5, 6), Indices: ints("", 1, 5)}
	coords := &onnxwire.SparseTensor{Dims: []int64{2, 3}, Values: floats("w", 5, 6),
		Indices: &onnxwire.Tensor{DataType: onnxwire.TypeInt64, Dims: []int64{2, 2}, Int64Data: []int64{0, 1, 1, 2}}}
	for _, s := range []*onnxwire.SparseTensor{linear, coords} {
		c, err := denseConstant(t.Context(), s, 1<<20)
		require.NoError(t, err)
		a, err := c.Array()
		require.NoError(t, err)
		assert.Equal(t, []float32{0, 5, 0, 0, 0, 6}, ndarray.Slice[float32](a))
	}
}

func TestSparseRefused(t *testing.T) {
	tests := []struct {
		name   string
		in     onnxwire.SparseTensor
		reason string
	}{
		{"no values", onnxwire.SparseTensor{Indices: ints("", 0)}, "no values"},
		{"index too large", onnxwire.SparseTensor{Dims: []int64{2}, Values: floats("w", 1), Indices: ints("", 2)}, "index 2"},
		{"index negative", onnxwire.SparseTensor{Dims: []int64{2}, Values: floats("w", 1), Indices: ints("", -1)}, "index -1"},
		{"counts differ", onnxwire.SparseTensor{Dims: []int64{2}, Values: floats("w", 1), Indices: ints("", 0, 1)}, "indices int64[2]"},
		{"too large", onnxwire.SparseTensor{Dims: []int64{1 << 40}, Values: floats("w", 1), Indices: ints("", 0)}, "larger than 1024 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := denseConstant(t.Context(), &tt.in, 1024)
			var e *ImportError
			require.ErrorAs(t, err, &e)
			assert.Contains(t, e.Reason, tt.reason)
		})
	}
}

func TestValues(t *testing.T) {
	seq := &onnxwire.Sequence{ElemType: onnxwire.ElemTensor, Tensors: []*onnxwire.Tensor{floats("", 1), floats("", 2, 3)}}
	v, err := valueOf(t.Context(), seq)
	require.NoError(t, err)
	require.Len(t, v.(*ndarray.Sequence).Items, 2)

	v, err = valueOf(t.Context(), &onnxwire.Optional{ElemType: onnxwire.ElemSequence, Sequence: seq})
	require.NoError(t, err)
	assert.Len(t, v.(*ndarray.Optional).Value.(*ndarray.Sequence).Items, 2)

	v, err = valueOf(t.Context(), &onnxwire.Optional{ElemType: onnxwire.ElemTensor})
	require.NoError(t, err)
	assert.Nil(t, v.(*ndarray.Optional).Value)

	v, err = valueOf(t.Context(), &onnxwire.Map{KeyType: onnxwire.TypeString, StringKeys: [][]byte{[]byte("k")}, Values: seq})
	require.NoError(t, err)
	assert.Equal(t, []string{"k"}, v.(*ndarray.Map).Keys.Str)

	each := &onnxwire.Sequence{ElemType: onnxwire.ElemTensor, Tensors: []*onnxwire.Tensor{floats("", 1), floats("", 2)}}
	for _, values := range []*onnxwire.Sequence{each, {ElemType: onnxwire.ElemTensor, Tensors: []*onnxwire.Tensor{floats("", 1, 2)}}} {
		v, err = valueOf(t.Context(), &onnxwire.Map{KeyType: onnxwire.TypeInt64, Keys: []int64{5, 3}, Values: values})
		require.NoError(t, err)
		assert.Equal(t, []float32{1, 2}, ndarray.Slice[float32](v.(*ndarray.Map).Values.(*ndarray.Array)))
	}

	v, err = valueOf(t.Context(), &onnxwire.SparseTensor{Dims: []int64{4}, Values: floats("", 1), Indices: ints("", 3)})
	require.NoError(t, err)
	assert.Equal(t, []int{4}, v.(*ndarray.Sparse).Shape)

	_, err = valueOf(t.Context(), &onnxwire.Sequence{ElemType: onnxwire.ElemTensor, Tensors: []*onnxwire.Tensor{{}}})
	assert.Error(t, err)
}

// TestLongLists: lists are converted in pieces, until the context ends.
func TestLongLists(t *testing.T) {
	const n = 2*pieceElems + 5
	long := onnxwire.Tensor{Dims: []int64{n}, StringData: make([][]byte, n), Int32Data: make([]int32, n), Uint64Data: make([]uint64, n)}
	want := func(i int) int64 { return int64(i / pieceElems & 1) }
	for i := range n {
		long.Int32Data[i], long.Uint64Data[i], long.StringData[i] = int32(want(i)), uint64(want(i)), []byte{byte('0' + want(i))}
	}
	entries := make([]int32, n/2+1) // of four bits
	for i := range entries {
		entries[i] = int32(want(2*i) + want(2*i+1)<<4)
	}
	for _, c := range []struct {
		dt ndarray.DType
		in onnxwire.Tensor
	}{
		{ndarray.Int8, onnxwire.Tensor{Int32Data: long.Int32Data}},
		{ndarray.Bool, onnxwire.Tensor{Int32Data: long.Int32Data}},
		{ndarray.Uint16, onnxwire.Tensor{Int32Data: long.Int32Data}},
		{ndarray.Uint4, onnxwire.Tensor{Int32Data: entries}},
		{ndarray.Uint32, onnxwire.Tensor{Uint64Data: long.Uint64Data}},
		{ndarray.String, onnxwire.Tensor{StringData: long.StringData}},
	} {
		t.Run(c.dt.String(), func(t *testing.T) {
			c.in.DataType, c.in.Dims = onnxwire.DataType(c.dt), long.Dims
			a, err := arrayOf(t.Context(), &c.in)
			require.NoError(t, err)
			for i := range n {
				if c.dt == ndarray.String {
					require.Equal(t, string(long.StringData[i]), a.Str[i])
				} else if a.Int(i) != want(i) {
					t.Fatalf("element %d is %d", i, a.Int(i))
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = arrayOf(ended, &c.in)
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	raw := make([]byte, n)
	raw[n-1] = 7
	a, err := arrayOf(t.Context(), &onnxwire.Tensor{DataType: onnxwire.TypeBool, Dims: long.Dims, RawData: raw})
	require.NoError(t, err)
	assert.EqualValues(t, 1, a.Int(n-1))
}

// endsAfter is a context that has ended after some looks.
type endsAfter struct {
	context.Context
	looks int
}

func (e *endsAfter) Err() error {
	if e.looks--; e.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestLazyTensorsEnd: elements that are unpacked or written out when they are first read end with the context of who reads them; the next
// one has them.
func TestLazyTensorsEnd(t *testing.T) {
	const n = 16 * pieceElems
	untidy := bytes.Repeat([]byte{2}, n)
	places := make([]int64, n)
	for i := range places {
		places[i] = int64(i)
	}
	of := func(c *ssa.Constant, err error) *ssa.Constant {
		require.NoError(t, err)
		return c
	}
	for name, c := range map[string]*ssa.Constant{
		"int4": of(constantOf(t.Context(), &onnxwire.Tensor{DataType: 22, Dims: []int64{n}, RawData: make([]byte, n/2)})),
		"bool": of(constantOf(t.Context(), &onnxwire.Tensor{DataType: 9, Dims: []int64{n}, RawData: untidy})),
		"sparse": of(denseConstant(t.Context(), &onnxwire.SparseTensor{Dims: []int64{n}, Values: &onnxwire.Tensor{DataType: 3, Dims: []int64{n}, RawData: untidy},
			Indices: &onnxwire.Tensor{DataType: 7, Dims: []int64{n}, Int64Data: places}}, 1<<40)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.ArrayContext(&endsAfter{t.Context(), 10}, 0)
			require.ErrorIs(t, err, context.Canceled)
			a, err := c.ArrayContext(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, n, a.Len())
		})
	}
}
