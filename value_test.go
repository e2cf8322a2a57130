package berth_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

// roundTrip makes a tensor of elements and reads them back, over the same memory.
func roundTrip[T ndarray.Element](t *testing.T, want ndarray.DType, data ...T) {
	t.Helper()
	a, err := berth.Tensor(data, len(data), 1)
	require.NoError(t, err)
	assert.Equal(t, want, a.DType)
	assert.Equal(t, []int{len(data), 1}, a.Shape)
	back, err := berth.As[T](a)
	require.NoError(t, err)
	assert.Equal(t, data, back)
	assert.Same(t, &data[0], &back[0])
}

func TestTensor(t *testing.T) {
	roundTrip[float32](t, ndarray.Float32, 1, 2, 3)
	roundTrip[float64](t, ndarray.Float64, 1, 2)
	roundTrip[int8](t, ndarray.Int8, -1)
	roundTrip[int16](t, ndarray.Int16, -1, 5)
	roundTrip[int32](t, ndarray.Int32, 7)
	roundTrip[int64](t, ndarray.Int64, 7, 8)
	roundTrip[uint8](t, ndarray.Uint8, 7)
	roundTrip[uint16](t, ndarray.Uint16, 7)
	roundTrip[uint32](t, ndarray.Uint32, 7)
	roundTrip[uint64](t, ndarray.Uint64, 7)
	roundTrip(t, ndarray.Bool, true, false)
	roundTrip(t, ndarray.Complex64, complex64(1i))
	roundTrip(t, ndarray.Complex128, 1i)
	roundTrip(t, ndarray.String, "a", "bc")
	roundTrip[berth.Float16](t, ndarray.Float16, 0x3c00)
	roundTrip[berth.BFloat16](t, ndarray.BFloat16, 0x3f80)
	roundTrip[berth.Float8E4M3FN](t, ndarray.Float8E4M3FN, 1)
	roundTrip[berth.Float8E4M3FNUZ](t, ndarray.Float8E4M3FNUZ, 1)
	roundTrip[berth.Float8E5M2](t, ndarray.Float8E5M2, 1)
	roundTrip[berth.Float8E5M2FNUZ](t, ndarray.Float8E5M2FNUZ, 1)
	roundTrip[berth.Float8E8M0](t, ndarray.Float8E8M0, 1)
	roundTrip[berth.Float4E2M1](t, ndarray.Float4E2M1, 1)
	roundTrip[berth.Float6E2M3](t, ndarray.Float6E2M3, 1)
	roundTrip[berth.Float6E3M2](t, ndarray.Float6E3M2, 1)
	roundTrip[berth.Uint4](t, ndarray.Uint4, 1)
	roundTrip[berth.Int4](t, ndarray.Int4, -1)
	roundTrip[berth.Uint2](t, ndarray.Uint2, 1)
	roundTrip[berth.Int2](t, ndarray.Int2, -1)

	type celsius float32
	roundTrip[celsius](t, ndarray.Float32, 20)

	assert.Equal(t, ndarray.Float16, ndarray.Of([]berth.Float16{1}, 1).DType)
	assert.Equal(t, ndarray.Undefined, ndarray.DTypeOf(nil))
	assert.Equal(t, ndarray.Undefined, ndarray.DTypeOf((*berth.Float16)(nil)))

	empty, err := berth.Tensor([]float32{}, 2, 0)
	require.NoError(t, err)
	back, err := berth.As[float32](empty)
	require.NoError(t, err)
	assert.Empty(t, back)
}

// TestTensorErrors has what a caller gets wrong, and what the error says.
func TestTensorErrors(t *testing.T) {
	tensorOf := func(n int, shape ...int) error {
		_, err := berth.Tensor(make([]float32, n), shape...)
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"short", tensorOf(5, 1, 3, 224, 224), "float32[1,3,224,224] with too little data: have 5 elements, need 150528"},
		{"long", tensorOf(5, 2, 2), "float32[2,2] with too much data: have 5 elements, need 4"},
		{"a part of an element", (&ndarray.Array{DType: ndarray.Float32, Shape: []int{2}, Data: make([]byte, 9)}).Check(), "have 2 elements and a part of one, need 2"},
		{"none", tensorOf(0), "float32[] with too little data: have 0 elements, need 1"},
		{"negative", tensorOf(5, -1, 5), "float32[-1,5], a shape that is negative or too large"},
		{"overflow", tensorOf(5, math.MaxInt, 5), "a shape that is negative or too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var se *berth.ShapeError
			require.ErrorAs(t, c.err, &se)
			assert.ErrorContains(t, c.err, c.want)
		})
	}
}

func TestAsErrors(t *testing.T) {
	floats := ndarray.Of([]float32{1, 2}, 2)
	wrong := func(_ any, err error) error { return err }
	asInt32 := func(v ndarray.Value) error { return wrong(berth.As[int32](v)) }
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"other type", asInt32(floats), "float32[2], its elements are not of Go type int32"},
		{"same bits", wrong(berth.As[uint16](ndarray.Must(ndarray.Float16, 2))), "float16[2], its elements are not of Go type uint16"},
		{"named", wrong(berth.As[berth.BFloat16](ndarray.Must(ndarray.Float16, 2))), "not of Go type berth.BFloat16"},
		{"strings", wrong(berth.As[string](floats)), "not of Go type string"},
		{"nil", asInt32(nil), "the value is nothing"},
		{"typed nil", asInt32((*ndarray.Array)(nil)), "the value is nothing"},
		{"sequence", asInt32(&ndarray.Sequence{}), "the value is a sequence"},
		{"optional", asInt32(&ndarray.Optional{}), "the value is an optional"},
		{"undefined", asInt32(&ndarray.Array{}), "undefined[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var te *berth.TypeError
			require.ErrorAs(t, c.err, &te)
			assert.ErrorContains(t, c.err, c.want)
		})
	}
	var se *berth.ShapeError
	assert.ErrorAs(t, wrong(berth.As[float32](&ndarray.Array{DType: ndarray.Float32, Shape: []int{3}, Data: make([]byte, 4)})), &se)
	assert.ErrorAs(t, wrong(berth.As[float32](&ndarray.Array{DType: ndarray.Float32, Shape: []int{1}, Data: make([]byte, 5)})), &se)
	odd := &ndarray.Array{DType: ndarray.Float32, Shape: []int{1}, Data: append(make([]byte, 0, 9), 1, 0, 0, 128, 63)[1:]}
	one, err := berth.As[float32](odd)
	require.NoError(t, err)
	assert.Equal(t, []float32{1}, one, "memory that is not aligned")
}

// Types that claim to be an element type of another size, or whose memory is of another kind.
type (
	wide     float64
	narrow   uint16
	stringly uint8
)

func (wide) DType() ndarray.DType     { return ndarray.Float32 }
func (narrow) DType() ndarray.DType   { return ndarray.Float32 }
func (stringly) DType() ndarray.DType { return ndarray.String }

func TestWrongSize(t *testing.T) {
	wrong := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"a wide tensor": wrong(berth.Tensor([]wide{1, 2}, 2)), "wide elements": wrong(berth.As[wide](ndarray.Must(ndarray.Float32, 2))),
		"a narrow tensor": wrong(berth.Tensor([]narrow{1, 2, 3, 4}, 2)), "narrow elements": wrong(berth.As[narrow](ndarray.Must(ndarray.Float32, 2))),
		"a tensor of strings": wrong(berth.Tensor([]stringly{1, 2}, 2)), "strings": wrong(berth.As[stringly](ndarray.Must(ndarray.String, 2))),
	} {
		assert.Error(t, err, name)
	}
}
