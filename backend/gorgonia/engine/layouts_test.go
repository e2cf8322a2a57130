package engine_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/backend/gorgonia/engine"
)

// engines are those that must be right; an arena holds what all tests allocate.
func engines(t testing.TB) map[string]tensor.Engine {
	t.Helper()
	a, err := engine.NewArena(1 << 20)
	require.NoError(t, err)
	return map[string]tensor.Engine{"heap": engine.New(), "arena": a}
}

var layouts = []string{"rows", "transposed", "window", "rows of a window", "window of a transposed", "every other", "column-major"}

// laid is a tensor of given elements, in row-major order of the shape, that lie in memory by a layout. What lies beside
// them is 99.
func laid(t testing.TB, e tensor.Engine, layout string, dt tensor.Dtype, values []float64, shape ...int) *tensor.Dense {
	t.Helper()
	memory, view := slices.Clone(shape), func(d *tensor.Dense) *tensor.Dense { return d }
	switch layout {
	case "transposed":
		slices.Reverse(memory)
		view = func(d *tensor.Dense) *tensor.Dense { require.NoError(t, d.T()); return d }
	case "window of a transposed":
		inner := laid(t, e, "transposed", dt, nil, larger(shape)...)
		return filled(t, cut(t, inner, 1, shape), values, shape)
	case "every other":
		memory[len(shape)-1] *= 2
		view = func(d *tensor.Dense) *tensor.Dense {
			by := make([]tensor.Slice, len(shape))
			by[len(shape)-1] = tensor.S(0, 2*shape[len(shape)-1], 2)
			v, err := d.Slice(by...)
			require.NoError(t, err)
			return v.(*tensor.Dense)
		}
	case "window":
		memory = larger(shape)
		view = func(d *tensor.Dense) *tensor.Dense { return cut(t, d, 1, shape) }
	case "rows of a window":
		memory[0] += 2
		view = func(d *tensor.Dense) *tensor.Dense { return cut(t, d, 1, shape[:1]) }
	}
	d := tensor.New(tensor.Of(dt), tensor.WithShape(memory...), tensor.WithEngine(e))
	if layout == "column-major" {
		d = tensor.New(tensor.Of(dt), tensor.WithShape(memory...), tensor.WithEngine(e), tensor.AsFortran(nil))
	}
	for i := range d.DataSize() {
		d.Set(i, number(dt, 99))
	}
	return filled(t, view(d), values, shape)
}

func filled(t testing.TB, d *tensor.Dense, values []float64, shape []int) *tensor.Dense {
	t.Helper()
	for k, v := range values {
		require.NoError(t, d.SetAt(number(d.Dtype(), v), coordinates(shape, k)...))
	}
	return d
}

// larger is a shape with one element more on each side.
func larger(shape []int) []int {
	out := slices.Clone(shape)
	for i := range out {
		out[i] += 2
	}
	return out
}

// cut is the window of a shape that begins at an index in every dimension.
func cut(t testing.TB, d *tensor.Dense, at int, shape []int) *tensor.Dense {
	t.Helper()
	by := make([]tensor.Slice, len(shape))
	for i, n := range shape {
		by[i] = tensor.S(at, at+n)
	}
	v, err := d.Slice(by...)
	require.NoError(t, err)
	return v.(*tensor.Dense)
}

func coordinates(shape []int, k int) []int {
	at := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		at[i], k = k%shape[i], k/shape[i]
	}
	return at
}

func number(dt tensor.Dtype, v float64) any {
	return reflect.ValueOf(v).Convert(dt.Type).Interface()
}

// elements are those of a tensor in row-major order.
func elements(t testing.TB, of tensor.Tensor) []float64 {
	t.Helper()
	a, err := gorgonia.ArrayOf(of.(*tensor.Dense))
	require.NoError(t, err)
	out := make([]float64, a.Len())
	for i := range out {
		if a.DType.IsFloat() {
			out[i] = a.Float(i)
		} else {
			out[i] = float64(a.Int(i))
		}
	}
	return out
}

var dtypes = []tensor.Dtype{tensor.Float32, tensor.Float64, tensor.Int, tensor.Int8, tensor.Int32, tensor.Uint8}

// drawn are small numbers that every type has, without 0.
func drawn(rng *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(1 + rng.IntN(6))
	}
	return out
}

// closeTo compares numbers as far as the type is exact.
func closeTo(t *testing.T, want, got []float64, dt tensor.Dtype, what string) {
	t.Helper()
	tolerance := 0.0
	switch dt {
	case tensor.Float32:
		tolerance = 1e-5
	case tensor.Float64:
		tolerance = 1e-13
	}
	require.Len(t, got, len(want), what)
	for i := range want {
		if math.IsNaN(want[i]) && math.IsNaN(got[i]) || want[i] == got[i] {
			continue
		}
		if !(math.Abs(want[i]-got[i]) <= tolerance*max(1, math.Abs(want[i]))) {
			assert.Fail(t, "differs", "%s: element %d is %v, must be %v", what, i, got[i], want[i])
			return
		}
	}
}

func wrap(dt tensor.Dtype, v float64) float64 {
	if dt == tensor.Float32 || dt == tensor.Float64 {
		return v
	}
	return reflect.ValueOf(int64(v)).Convert(dt.Type).Convert(reflect.TypeFor[float64]()).Float()
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// into computes into memory of every layout, and adds to what is there; what lies beside stays.
func into(t *testing.T, what string, e tensor.Engine, dt tensor.Dtype, shape []int, want []float64, run func(opts ...tensor.FuncOpt) (tensor.Tensor, error)) {
	t.Helper()
	for _, layout := range layouts {
		to := laid(t, e, layout, dt, make([]float64, len(want)), shape...)
		got, err := run(tensor.WithReuse(to))
		require.NoError(t, err, "%s into %s", what, layout)
		assert.Same(t, to, got)
		closeTo(t, want, elements(t, to), dt, what+" into "+layout)
		_, err = run(tensor.WithIncr(to))
		require.NoError(t, err, "%s added to %s", what, layout)
		twice := make([]float64, len(want))
		for i, v := range want {
			twice[i] = wrap(dt, 2*v)
		}
		closeTo(t, twice, elements(t, to), dt, what+" added to "+layout)
	}
}
