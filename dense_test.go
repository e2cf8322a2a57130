package berth_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

// TestDenseTypes takes an array of every element type to a tensor and back, over
// the same memory.
func TestDenseTypes(t *testing.T) {
	for dt := ndarray.Undefined + 1; dt < ndarray.NumDTypes; dt++ {
		for _, shape := range [][]int{{3}, {2, 3}, {2, 1, 4}} {
			a := ndarray.Must(dt, shape...)
			for i := range a.Data {
				a.Data[i] = byte(i % 2)
			}
			for i := range a.Str {
				a.Str[i] = string(rune('a' + i))
			}
			d, err := berth.DenseOf(a)
			require.NoError(t, err, dt)
			assert.Equal(t, tensor.Shape(shape), d.Shape(), dt)
			b, err := berth.ArrayOf(d)
			require.NoError(t, err, dt)
			assert.Equal(t, a, b, dt)
			if len(a.Data) > 0 {
				assert.Same(t, &a.Data[0], &b.Data[0], dt)
			}
		}
	}
}

func TestDenseScalar(t *testing.T) {
	d, err := berth.DenseOf(ndarray.Scalar[int64](42))
	require.NoError(t, err)
	assert.Equal(t, int64(42), d.Data())
	a, err := berth.ArrayOf(tensor.New(tensor.FromScalar(float32(1.5))))
	require.NoError(t, err)
	assert.Empty(t, a.Shape)
	assert.Equal(t, 1.5, a.Float(0))
}

// TestDenseViews reads tensors that do not lie in row-major order.
func TestDenseViews(t *testing.T) {
	d := tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(tensor.Range(tensor.Float32, 0, 12)))
	require.NoError(t, d.T())
	a, err := berth.ArrayOf(d)
	require.NoError(t, err)
	assert.Equal(t, ndarray.Of([]float32{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}, 4, 3), a)

	d = tensor.New(tensor.WithShape(3, 4), tensor.WithBacking(tensor.Range(tensor.Float32, 0, 12)))
	s, err := d.Slice(tensor.S(1, 3), tensor.S(1, 3))
	require.NoError(t, err)
	a, err = berth.ArrayOf(s.(*tensor.Dense))
	require.NoError(t, err)
	assert.Equal(t, ndarray.Of([]float32{5, 6, 9, 10}, 2, 2), a)

	column, err := d.Slice(nil, tensor.S(2))
	require.NoError(t, err)
	a, err = berth.ArrayOf(column.(*tensor.Dense))
	require.NoError(t, err)
	assert.Equal(t, ndarray.Of([]float32{2, 6, 10}, 3), a)

	col := tensor.New(tensor.WithShape(2, 3), tensor.AsFortran([]float32{0, 1, 2, 3, 4, 5})) // given in row-major order, kept in columns
	a, err = berth.ArrayOf(col)
	require.NoError(t, err)
	assert.Equal(t, ndarray.Of([]float32{0, 1, 2, 3, 4, 5}, 2, 3), a)
}

func TestDenseErrors(t *testing.T) {
	_, err := berth.ArrayOf(nil)
	require.ErrorContains(t, err, "nil")
	_, err = berth.ArrayOf(tensor.New(tensor.WithShape(2), tensor.Of(tensor.UnsafePointer)))
	require.ErrorContains(t, err, "no ONNX element type")
	_, err = berth.DenseOf(&ndarray.Sequence{})
	require.ErrorContains(t, err, "use RunValues")
}
