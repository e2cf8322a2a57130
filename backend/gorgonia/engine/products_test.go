package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/engine"
)

// TestProductTensors: a tensor for a product has exactly the product's shape and type.
func TestProductTensors(t *testing.T) {
	for which, e := range engines(t) {
		e := e.(both)
		a, b := tensorOf(e, tensor.Float32, []float64{1, 2, 3, 4, 5, 6}, []int{2, 3}), tensorOf(e, tensor.Float32, []float64{1, 2, 3, 4, 5, 6}, []int{3, 2})
		v, w := tensorOf(e, tensor.Float32, []float64{1, 2, 3}, []int{3}), tensorOf(e, tensor.Float32, []float64{1, 2}, []int{2})
		for name, c := range map[string]struct {
			f     func(to tensor.Tensor) error
			shape []int
			want  []float64
		}{
			"MatMul":    {func(to tensor.Tensor) error { return e.MatMul(a, b, to) }, []int{2, 2}, []float64{22, 28, 49, 64}},
			"MatVecMul": {func(to tensor.Tensor) error { return e.MatVecMul(a, v, to) }, []int{2}, []float64{14, 32}},
			"Outer":     {func(to tensor.Tensor) error { return e.Outer(w, v, to) }, []int{2, 3}, []float64{1, 2, 3, 2, 4, 6}},
		} {
			for _, shape := range [][]int{{2, 2}, {4}, {4, 1}, {1, 4}, {2}, {2, 1}, {1, 2}, {2, 3}, {3, 2}, {6}, {1, 2, 3}, {3}, {}} {
				to := tensorOf(e, tensor.Float32, nil, shape)
				what := fmt.Sprintf("%s: %s into %v", which, name, shape)
				err := c.f(to)
				if slices.Equal(shape, c.shape) {
					require.NoError(t, err, what)
					closeTo(t, c.want, elements(t, to), tensor.Float32, what)
					continue
				}
				assert.EqualError(t, err, fmt.Sprintf("%s: the tensor for a product of shape %v has shape %v", name, c.shape, shape), what)
				closeTo(t, make([]float64, len(elements(t, to))), elements(t, to), tensor.Float32, what)
			}
			for _, dt := range []tensor.Dtype{tensor.Float64, tensor.Int32, tensor.Bool} {
				to := tensor.New(tensor.Of(dt), tensor.WithShape(c.shape...), tensor.WithEngine(e))
				assert.ErrorContains(t, c.f(to), "float32", "%s: %s into %s", which, name, dt)
			}
		}
	}
}

// TestProductOperands: operands without a product are errors that name what they are.
func TestProductOperands(t *testing.T) {
	for which, e := range engines(t) {
		e := e.(both)
		of := func(dt tensor.Dtype, shape ...int) *tensor.Dense {
			return tensor.New(tensor.Of(dt), tensor.WithShape(shape...), tensor.WithEngine(e))
		}
		texts := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]string{"a", "b", "c", "d"}))
		line := tensor.New(tensor.WithBacking([]string{"a", "b"}))
		inner := func(a, b tensor.Tensor) error { _, err := e.Inner(a, b); return err }
		dot := func(a, b tensor.Tensor) error { _, err := e.Dot(a, b); return err }
		for name, c := range map[string]struct {
			err  error
			text string
		}{
			"strings":           {e.MatMul(texts, texts, texts), "MatMul: tensors of string have no product"},
			"strings, vector":   {e.MatVecMul(texts, line, line), "MatVecMul: tensors of string have no product"},
			"strings, outer":    {e.Outer(line, line, texts), "Outer: tensors of string have no product"},
			"strings, inner":    {inner(line, line), "Inner: tensors of string have no product"},
			"strings, dot":      {dot(texts, texts), "Dot: tensors of string have no product"},
			"bools":             {e.MatMul(of(tensor.Bool, 2, 2), of(tensor.Bool, 2, 2), of(tensor.Bool, 2, 2)), "MatMul: tensors of bool have no product"},
			"bools, inner":      {inner(of(tensor.Bool, 2), of(tensor.Bool, 2)), "Inner: tensors of bool have no product"},
			"two types":         {e.MatMul(of(tensor.Float32, 2, 2), of(tensor.Float64, 2, 2), of(tensor.Float32, 2, 2)), "MatMul: tensors of float32 and float64 have no product"},
			"two types, dot":    {dot(of(tensor.Float32, 2, 2), of(tensor.Float64, 2, 2)), "Dot: tensors of float32 and float64 have no product"},
			"int and int64":     {e.MatMul(of(tensor.Int, 2, 2), of(tensor.Int64, 2, 2), of(tensor.Int, 2, 2)), "MatMul: tensors of int and int64 have no product"},
			"int into int64":    {e.MatMul(of(tensor.Int, 2, 2), of(tensor.Int, 2, 2), of(tensor.Int64, 2, 2)), "has elements of type int64, the result has int"},
			"shapes":            {e.MatMul(of(tensor.Float32, 2, 3), of(tensor.Float32, 2, 3), of(tensor.Float32, 2, 3)), "MatMul: matrices of 2×3 and 2×3 have no product"},
			"shapes, inner":     {inner(of(tensor.Float32, 2), of(tensor.Float32, 3)), "Inner: matrices of 1×2 and 3×1 have no product"},
			"a cube":            {e.MatMul(of(tensor.Float32, 2, 2, 2), of(tensor.Float32, 2, 2), of(tensor.Float32, 2, 2)), "is no matrix"},
			"a matrix as other": {e.MatVecMul(of(tensor.Float32, 2, 4), of(tensor.Float32, 2, 2), of(tensor.Float32, 2)), "MatVecMul: float32[2,2] is no vector"},
			"a matrix, outer":   {e.Outer(of(tensor.Float32, 2, 2), of(tensor.Float32, 2), of(tensor.Float32, 4, 2)), "Outer: float32[2,2] is no vector"},
			"a scalar, outer":   {e.Outer(of(tensor.Float32), of(tensor.Float32, 2), of(tensor.Float32, 1, 2)), "is no vector"},
		} {
			var named *engine.Error
			require.ErrorAs(t, c.err, &named, "%s %s", which, name)
			assert.ErrorContains(t, c.err, c.text, "%s %s", which, name)
		}
	}
}

// TestProductTypes computes products of every type of numbers.
func TestProductTypes(t *testing.T) {
	for which, e := range engines(t) {
		for _, dt := range append(slices.Clone(dtypes), tensor.Int16, tensor.Int64, tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Uint) {
			a := tensorOf(e, dt, []float64{1, 2, 3, 100}, []int{2, 2})
			got, err := tensor.MatMul(a, a)
			require.NoError(t, err, "%s %s", which, dt)
			want := []float64{7, 202, 303, 10006}
			for i := range want {
				want[i] = wrap(dt, want[i])
			}
			closeTo(t, want, elements(t, got), dt, fmt.Sprint(which, " ", dt))
		}
	}
}

// TestDotOfVectors: vectors of package tensor are also matrices of one row or column, as its function Dot says.
func TestDotOfVectors(t *testing.T) {
	for which, e := range engines(t) {
		of := func(shape ...int) *tensor.Dense {
			n := tensor.Shape(shape).TotalSize()
			return tensorOf(e, tensor.Float64, []float64{1, 2, 3, 4, 5, 6, 7, 8}[:n], shape)
		}
		for name, c := range map[string]struct {
			x, y  *tensor.Dense
			shape []int
			want  []float64
		}{
			"vectors":           {of(4), of(4), []int{}, []float64{30}},
			"columns":           {of(4, 1), of(4, 1), []int{}, []float64{30}},
			"column and row":    {of(4, 1), of(1, 4), []int{}, []float64{30}},
			"row and column":    {of(1, 4), of(4, 1), []int{}, []float64{30}},
			"matrix and row":    {of(2, 4), of(1, 4), []int{2}, []float64{30, 70}},
			"matrix and column": {of(2, 4), of(4, 1), []int{2}, []float64{30, 70}},
			"column and matrix": {of(3, 1), of(3, 2), []int{2}, []float64{22, 28}},
			"row and matrix":    {of(1, 3), of(3, 2), []int{2}, []float64{22, 28}},
			"one by one":        {of(1, 1), of(1, 1), []int{1, 1}, []float64{1}},
			"cube and vector":   {of(2, 2, 2), of(2), []int{2, 2}, []float64{5, 11, 17, 23}},
		} {
			got, err := tensor.Dot(c.x, c.y)
			require.NoError(t, err, "%s %s", which, name)
			assert.Equal(t, c.shape, append([]int{}, got.Shape()...), "%s %s", which, name)
			closeTo(t, c.want, elements(t, got), tensor.Float64, which+" "+name)
			stock, err := tensor.StdEng{}.Dot(c.x.Clone().(*tensor.Dense), c.y.Clone().(*tensor.Dense))
			if err == nil {
				assert.True(t, got.Shape().Eq(stock.Shape()), "%s: the default engine gives shape %v", name, stock.Shape())
			}
		}
	}
}

// TestProductIntoSlices: package tensor gives a slice the strides of a tensor without gaps before it asks an engine for a
// product, and forgets that it is a slice. The engine sees that, refuses it, and writes nothing beside the slice. Its methods
// write into slices.
func TestProductIntoSlices(t *testing.T) {
	whole := func(e tensor.Engine, transposed bool) *tensor.Dense {
		d := tensorOf(e, tensor.Float32, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, []int{4, 4})
		if transposed {
			require.NoError(t, d.T())
		}
		return d
	}
	for which, e := range engines(t) {
		a, b := tensorOf(e, tensor.Float32, []float64{1, 2, 3, 4}, []int{2, 2}), tensorOf(e, tensor.Float32, []float64{1, 0, 0, 1}, []int{2, 2})
		four := tensorOf(e, tensor.Float32, []float64{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, []int{4, 4})
		two := tensorOf(e, tensor.Float32, []float64{1, 2}, []int{2})
		wide := tensorOf(e, tensor.Float32, []float64{1, 2, 3, 4, 5, 6, 7, 8}, []int{2, 4})
		tall := tensorOf(e, tensor.Float32, []float64{1, 2, 3, 4, 5, 6, 7, 8}, []int{4, 2})
		matmul := func(x, y *tensor.Dense) func(to *tensor.Dense) error {
			return func(to *tensor.Dense) error { _, err := tensor.MatMul(x, y, tensor.WithReuse(to)); return err }
		}
		method := func(x, y *tensor.Dense) func(to *tensor.Dense) error {
			return func(to *tensor.Dense) error { return e.(both).MatMul(x, y, to) }
		}
		for name, c := range map[string]struct {
			transposed bool
			by         []tensor.Slice
			f          func(to *tensor.Dense) error
			want       []float64 // of the slice; nil if it is refused
		}{
			"a window":                      {false, []tensor.Slice{tensor.S(1, 3), tensor.S(1, 3)}, matmul(a, b), nil},
			"a window, method":              {false, []tensor.Slice{tensor.S(1, 3), tensor.S(1, 3)}, method(a, b), []float64{1, 2, 3, 4}},
			"columns":                       {false, []tensor.Slice{nil, tensor.S(1, 3)}, matmul(four, tall), nil},
			"columns, method":               {false, []tensor.Slice{nil, tensor.S(1, 3)}, method(four, tall), []float64{1, 2, 3, 4, 5, 6, 7, 8}},
			"rows":                          {false, []tensor.Slice{tensor.S(1, 3)}, matmul(wide, four), []float64{1, 2, 3, 4, 5, 6, 7, 8}},
			"rows of a transposed":          {true, []tensor.Slice{tensor.S(1, 3)}, matmul(wide, four), nil},
			"rows of a transposed, method":  {true, []tensor.Slice{tensor.S(1, 3)}, method(wide, four), []float64{1, 2, 3, 4, 5, 6, 7, 8}},
			"columns of a transposed":       {true, []tensor.Slice{nil, tensor.S(1, 3)}, matmul(four, tall), nil},
			"columns of a transposed, asks": {true, []tensor.Slice{nil, tensor.S(1, 3)}, method(four, tall), []float64{1, 2, 3, 4, 5, 6, 7, 8}},
			"more rows":                     {false, []tensor.Slice{tensor.S(1, 4)}, matmul(a, b), nil},
			"a window that is too small":    {false, []tensor.Slice{tensor.S(1, 3), tensor.S(1, 3)}, matmul(four, four), nil},
			"every other row":               {false, []tensor.Slice{tensor.S(0, 4, 2)}, matmul(wide, four), nil},
			"a column": {false, []tensor.Slice{nil, tensor.S(1)}, func(to *tensor.Dense) error {
				_, err := tensor.MatVecMul(tall, two, tensor.WithReuse(to))
				return err
			}, nil},
			"a column, method": {false, []tensor.Slice{nil, tensor.S(1)}, func(to *tensor.Dense) error { return e.(both).MatVecMul(tall, two, to) }, []float64{5, 11, 17, 23}},
			"a row": {false, []tensor.Slice{tensor.S(1)}, func(to *tensor.Dense) error {
				_, err := tensor.MatVecMul(tall, two, tensor.WithReuse(to))
				return err
			}, []float64{5, 11, 17, 23}},
		} {
			what := which + " " + name
			parent := whole(e, c.transposed)
			untouched := elements(t, parent)
			v, err := parent.Slice(c.by...)
			require.NoError(t, err, what)
			err = c.f(v.(*tensor.Dense))
			if c.want == nil {
				var named *engine.Error
				assert.ErrorAs(t, err, &named, what)
				assert.Equal(t, untouched, elements(t, parent), what)
				continue
			}
			require.NoError(t, err, what)
			again, err := parent.Slice(c.by...)
			require.NoError(t, err, what)
			assert.Equal(t, c.want, elements(t, again.(*tensor.Dense)), what)
			rest := 0
			for i, x := range elements(t, parent) {
				if x == untouched[i] {
					rest++
				}
			}
			assert.GreaterOrEqual(t, rest, 16-len(c.want), what)
		}
	}
}

// TestOuterIntoSlice: package tensor clears all memory between the first element of a slice and its last before it asks an
// engine for an outer product; nothing else is written.
func TestOuterIntoSlice(t *testing.T) {
	for which, e := range engines(t) {
		parent := tensorOf(e, tensor.Float32, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{3, 3})
		v := tensorOf(e, tensor.Float32, []float64{1, 2}, []int{2})
		window, err := parent.Slice(tensor.S(0, 2), tensor.S(0, 2))
		require.NoError(t, err)
		_, err = tensor.Outer(v, v, tensor.WithReuse(window))
		require.ErrorContains(t, err, "it was a slice with gaps", which)
		assert.Equal(t, []float32{0, 0, 0, 0, 0, 6, 7, 8, 9}, parent.Data(), "%s: clear from the first element to the last", which)
		window, err = parent.Slice(tensor.S(0, 2), tensor.S(0, 2))
		require.NoError(t, err)
		require.NoError(t, e.(both).Outer(v, v, window))
		assert.Equal(t, []float32{1, 2, 0, 2, 4, 6, 7, 8, 9}, parent.Data(), which)
	}
}

// TestAxesOfTransposition: a tensor that was transposed once and takes products again and again does not change the shapes of
// others. Package tensor gives its axes to a pool each time, from which other tensors take their shapes.
func TestAxesOfTransposition(t *testing.T) {
	damaged := map[string]int{}
	for which, e := range map[string]tensor.Engine{"stock": tensor.StdEng{}, "heap": engine.New()} {
		a, b := tensorOf(e, tensor.Float32, nil, []int{2, 3}), tensorOf(e, tensor.Float32, nil, []int{3, 2})
		for n := range 20 {
			to := tensorOf(e, tensor.Float32, nil, []int{2, 2})
			require.NoError(t, to.T())
			_, err := tensor.MatMul(a, b, tensor.WithReuse(to))
			require.NoError(t, err, which)
			others := []*tensor.Dense{tensorOf(e, tensor.Float32, nil, []int{2, 5 + n}), tensorOf(e, tensor.Float32, nil, []int{3, 5 + n})}
			_, err = tensor.MatMul(a, b, tensor.WithReuse(to))
			require.NoError(t, err, which)
			for i, d := range others {
				if !slices.Equal([]int{2 + i, 5 + n}, d.Shape()) {
					damaged[which]++
				}
			}
		}
	}
	assert.Zero(t, damaged["heap"])
	if damaged["stock"] == 0 {
		t.Log("the default engine changes no shape of others any more: forgetAxes can go")
	}
}
