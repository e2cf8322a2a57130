package gorgonia_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	stock "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// TestDenseTypes takes an array of every element type to a tensor and back, over the same memory.
func TestDenseTypes(t *testing.T) {
	for dt := ndarray.Undefined + 1; dt < ndarray.NumDTypes; dt++ {
		for _, shape := range [][]int{{}, {3}, {1, 1}, {2, 3}, {3, 1}, {2, 1, 4}} {
			a := ndarray.Must(dt, shape...)
			for i := range a.Data {
				a.Data[i] = byte(i % 2)
			}
			for i := range a.Str {
				a.Str[i] = string(rune('a' + i))
			}
			d, err := gorgonia.DenseOf(a)
			require.NoError(t, err, dt)
			assert.True(t, tensor.Shape(shape).Eq(d.Shape()), dt)
			assert.Equal(t, dt, ndarray.DTypeOf(reflect.Zero(d.Dtype().Type).Interface()), "the Go type of %s", dt)
			b, err := gorgonia.ArrayOf(d)
			require.NoError(t, err, dt)
			assert.Equal(t, a.String(), b.String(), dt)
			assert.Equal(t, a.Str, b.Str)
			if len(a.Data) > 0 {
				assert.Equal(t, a.Data, b.Data, dt)
				assert.Same(t, &a.Data[0], &b.Data[0], dt)
			}
		}
	}
}

func TestDenseScalar(t *testing.T) {
	d, err := gorgonia.DenseOf(ndarray.Scalar[int64](42))
	require.NoError(t, err)
	assert.Equal(t, int64(42), d.Data())
	a, err := gorgonia.ArrayOf(tensor.New(tensor.FromScalar(float32(1.5))))
	require.NoError(t, err)
	assert.Empty(t, a.Shape)
	assert.Equal(t, 1.5, a.Float(0))
}

// counted is a tensor of the numbers 0, 1, … in the order of its memory.
func counted(shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(tensor.Range(tensor.Float32, 0, tensor.Shape(shape).TotalSize())))
}

// slice cuts a tensor, which shares its memory.
func slice(t *testing.T, d *tensor.Dense, by ...tensor.Slice) *tensor.Dense {
	t.Helper()
	v, err := d.Slice(by...)
	require.NoError(t, err)
	return v.(*tensor.Dense)
}

// transposed is a tensor with its axes in another order, over the same memory.
func transposed(t *testing.T, d *tensor.Dense, axes ...int) *tensor.Dense {
	t.Helper()
	require.NoError(t, d.T(axes...))
	return d
}

// TestDenseViews reads tensors that do not lie in row-major order.
func TestDenseViews(t *testing.T) {
	for _, c := range []struct {
		name  string
		d     *tensor.Dense
		shape []int
		want  []float32
	}{
		{"transposed", transposed(t, counted(3, 4)), []int{4, 3}, []float32{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
		{"turned axes", transposed(t, counted(2, 1, 3), 2, 0, 1), []int{3, 2, 1}, []float32{0, 3, 1, 4, 2, 5}},
		{"window", slice(t, counted(3, 4), tensor.S(1, 3), tensor.S(1, 3)), []int{2, 2}, []float32{5, 6, 9, 10}},
		{"rows", slice(t, counted(3, 4), tensor.S(1, 3)), []int{2, 4}, []float32{4, 5, 6, 7, 8, 9, 10, 11}},
		{"column", slice(t, counted(3, 4), nil, tensor.S(2)), []int{3}, []float32{2, 6, 10}},
		{"element", slice(t, counted(3, 4), tensor.S(1), tensor.S(2)), []int{}, []float32{6}},
		{"window of transposed", slice(t, transposed(t, counted(3, 4)), tensor.S(1, 3), tensor.S(0, 2)), []int{2, 2}, []float32{1, 5, 2, 6}},
		{"every other", slice(t, counted(6), tensor.S(0, 6, 2)), []int{3}, []float32{0, 2, 4}},
		{"column-major", tensor.New(tensor.WithShape(2, 3), tensor.AsFortran([]float32{0, 1, 2, 3, 4, 5})), []int{2, 3}, []float32{0, 1, 2, 3, 4, 5}},
		{"column-major column", tensor.New(tensor.WithShape(3, 1), tensor.AsFortran([]float32{0, 1, 2})), []int{3, 1}, []float32{0, 1, 2}},
		{"window of column-major", slice(t, tensor.New(tensor.WithShape(3, 3), tensor.AsFortran([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8})), tensor.S(1, 3), tensor.S(0, 2)), []int{2, 2}, []float32{3, 4, 6, 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := gorgonia.ArrayOf(c.d)
			require.NoError(t, err)
			assert.Equal(t, c.shape, append([]int{}, a.Shape...))
			assert.Equal(t, c.want, a.Floats32())
		})
	}
}

// TestDenseRandomViews cuts and turns tensors at random, and compares with the element that the tensor has at each index.
func TestDenseRandomViews(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		shape := make([]int, 2+rng.IntN(3))
		for i := range shape {
			shape[i] = 2 + rng.IntN(4)
		}
		d, did := counted(shape...), fmt.Sprint(shape)
		for range 1 + rng.IntN(2) {
			if rng.IntN(2) == 0 {
				axes := rng.Perm(d.Dims())
				if d.T(axes...) != nil {
					continue // the order they are in
				}
				did += fmt.Sprint(" T", axes)
				continue
			}
			by := make([]tensor.Slice, d.Dims())
			for i, n := range d.Shape() {
				lo := rng.IntN(n - 1)
				by[i] = tensor.S(lo, lo+2)
				did += fmt.Sprint(" ", lo, ":", lo+2)
			}
			d = slice(t, d, by...)
		}
		a, err := gorgonia.ArrayOf(d)
		require.NoError(t, err, did)
		got := a.Floats32()
		for k := range got {
			index, rest := make([]int, d.Dims()), k
			for i := d.Dims() - 1; i >= 0; i-- {
				index[i], rest = rest%a.Shape[i], rest/a.Shape[i]
			}
			want, err := d.At(index...)
			require.NoError(t, err, did)
			require.Equal(t, want, got[k], "%s at %v", did, index)
		}
	}
}

// TestDenseEmpty has tensors without elements.
func TestDenseEmpty(t *testing.T) {
	for _, shape := range [][]int{{0}, {1, 0}, {2, 0, 3}} {
		d, err := gorgonia.DenseOf(ndarray.Must(ndarray.Float32, shape...))
		require.NoError(t, err)
		a, err := gorgonia.ArrayOf(d)
		require.NoError(t, err)
		assert.Equal(t, shape, a.Shape)
		assert.Empty(t, a.Data)
	}
}

func TestDenseErrors(t *testing.T) {
	masked := counted(2, 2)
	masked.ResetMask(true)
	short := counted(2, 2)
	short.Info().Init(tensor.Shape{5, 5}, []int{5, 1})
	for _, c := range []struct {
		d    *tensor.Dense
		want string
	}{
		{nil, "nil"},
		{&tensor.Dense{}, "no element type"},
		{tensor.New(tensor.WithShape(2), tensor.Of(tensor.UnsafePointer)), "no ONNX element type"},
		{masked, "masked"},
		{short, "its memory has 4 elements, its strides reach element 24"},
	} {
		_, err := gorgonia.ArrayOf(c.d)
		var de *gorgonia.DenseError
		require.ErrorAs(t, err, &de)
		assert.ErrorContains(t, err, c.want)
		assert.NotContains(t, err.Error(), "PANIC")
	}
	_, err := gorgonia.DenseOf(&ndarray.Sequence{})
	require.ErrorContains(t, err, "a sequence: it is no tensor; RunValues")
	_, err = gorgonia.DenseOf(&ndarray.Array{DType: ndarray.Float32, Shape: []int{3}})
	var se *ndarray.ShapeError
	require.ErrorAs(t, err, &se)
}

// TestConversionsBeyondMemory: a copy in row-major order that the budget of memory has no room for is that error, with the name
// of the input, where a tensor of a wrong type is an [*berth.InputError].
func TestConversionsBeyondMemory(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("no tensor has so many elements")
	}
	var few [64]byte // the first bytes of a memory that is never read
	bytes := uint64(4) << 40
	huge := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(1<<20, 1<<20), tensor.FromMemory(uintptr(unsafe.Pointer(&few)), uintptr(bytes)))
	require.NoError(t, huge.T())
	full := (*ops.MemoryError)(nil)
	_, err := gorgonia.ArrayOf(huge)
	require.ErrorAs(t, err, &full)

	x := stock.NewMatrix(stock.NewGraph(), tensor.Float32, stock.WithShape(1<<20, 1<<20), stock.WithName("x"))
	machine, err := vm.New(stock.Must(stock.Sum(x)).Graph())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, machine.Close()) })
	require.NoError(t, stock.Let(x, huge))
	for way, run := range map[string]func() error{
		"Model.Run": func() error {
			_, err := fromText(t, `graph "g" { in %x: float32[2,2] %y = Neg(%x) out %y }`).Run(t.Context(), gorgonia.Tensors{"x": huge})
			return err
		},
		"a machine": machine.RunAll,
	} {
		err := run()
		require.ErrorAs(t, err, &full, way)
		assert.ErrorContains(t, err, `input "x": `, way)
		wrong := (*berth.InputError)(nil)
		assert.False(t, errors.As(err, &wrong), way)
	}
}
