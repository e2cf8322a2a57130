package values_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/ndarray"
)

// TestOf shows arrays as values; what does not fit is an error.
func TestOf(t *testing.T) {
	six := ndarray.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	for name, c := range map[string]struct {
		a     *ndarray.Array
		of    tensor.Dtype
		shape tensor.Shape
		want  any // nil: an error
	}{
		"matrix":            {six, tensor.Float32, tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}},
		"another shape":     {six, tensor.Float32, tensor.Shape{3, 2}, []float32{1, 2, 3, 4, 5, 6}},
		"scalar":            {ndarray.Of([]float64{7}), tensor.Float64, nil, 7.0},
		"unsigned scalar":   {ndarray.Of([]uint32{7}), tensor.Uint32, nil, uint32(7)},
		"string scalar":     {ndarray.Strings([]string{"a"}), tensor.String, nil, "a"},
		"another type":      {six, tensor.Float64, tensor.Shape{2, 3}, nil},
		"too large":         {six, tensor.Float32, tensor.Shape{2, 4}, nil},
		"negative":          {six, tensor.Float32, tensor.Shape{-2, -3}, nil},
		"matrix as scalar":  {six, tensor.Float32, nil, nil},
		"nothing as scalar": {ndarray.Must(ndarray.Uint32, 0), tensor.Uint32, nil, nil},
		"between addresses": {&ndarray.Array{DType: ndarray.Float32, Shape: []int{1}, Data: ndarray.AlignedBytes(8)[1:5]}, tensor.Float32, tensor.Shape{1}, nil},
		"scalar between":    {&ndarray.Array{DType: ndarray.Float64, Data: ndarray.AlignedBytes(16)[1:9]}, tensor.Float64, nil, nil},
		"missing data":      {&ndarray.Array{DType: ndarray.Float32, Shape: []int{2, 3}}, tensor.Float32, tensor.Shape{2, 3}, nil},
	} {
		v, err := values.Of(c.a, c.of, c.shape)
		if c.want == nil {
			assert.Error(t, err, name)
			assert.True(t, v == nil, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, c.want, v.Data(), name)
	}
}

// TestView views values as arrays: the same memory where elements lie in rows, and nothing is allocated where the array shows it
// already; else a copy, which [values.Target] refuses.
func TestView(t *testing.T) {
	rows := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float32{1, 2, 3, 4, 5, 6}))
	slice := func(d *tensor.Dense, by ...tensor.Slice) *tensor.Dense {
		v, err := d.Slice(by...)
		require.NoError(t, err)
		return v.(*tensor.Dense)
	}
	turned := rows.Clone().(*tensor.Dense)
	require.NoError(t, turned.T())
	number := gorgonia.NewF32(7)
	for name, c := range map[string]struct {
		v     gorgonia.Value
		shape []int
		want  []float32
		same  bool
	}{
		"rows":       {rows, []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}, true},
		"a row":      {slice(rows, tensor.S(1)), []int{3}, []float32{4, 5, 6}, true},
		"columns":    {slice(rows, nil, tensor.S(1, 3)), []int{2, 2}, []float32{2, 3, 5, 6}, false},
		"transposed": {turned, []int{3, 2}, []float32{1, 4, 2, 5, 3, 6}, false},
		"a number":   {number, []int{}, []float32{7}, true},
	} {
		a, err := values.Array(c.v)
		require.NoError(t, err, name)
		assert.Equal(t, c.shape, append([]int{}, a.Shape...), name)
		got := make([]float32, a.Len())
		for i := range got {
			got[i] = float32(a.Float(i))
		}
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.same, values.Target(&ndarray.Array{}, c.v) == nil, name)
		if c.same {
			assert.Zero(t, testing.AllocsPerRun(10, func() { err = values.View(t.Context(), a, c.v) }), name)
			assert.NoError(t, err, name)
		}
	}
	for name, v := range map[string]gorgonia.Value{
		"none": nil, "a nil tensor": (*tensor.Dense)(nil), "a nil number": (*gorgonia.F64)(nil), "no type": new(tensor.Dense),
		"sparse": tensor.CSRFromCoord(tensor.Shape{2, 2}, []int{0, 1}, []int{1, 0}, []float64{1, 2}),
		"masked": tensor.New(tensor.WithBacking([]float64{1, 2}, []bool{true, false})),
	} {
		_, err := values.Array(v)
		assert.Error(t, err, name)
		assert.Error(t, values.Target(&ndarray.Array{}, v), name)
	}
}

// TestViewOfStrings: a tensor of strings is an array of the same strings, whatever size their headers have.
func TestViewOfStrings(t *testing.T) {
	texts := []string{"a", "b", "c"}
	a, err := values.Array(tensor.New(tensor.WithBacking(texts)))
	require.NoError(t, err)
	assert.Equal(t, texts, a.Str)
	assert.Same(t, &texts[0], &a.Str[0])
}
