package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

// outcome runs an operation: its elements, or "error" or "panic".
func outcome(t *testing.T, f func() (any, error)) (out any) {
	t.Helper()
	defer func() {
		if recover() != nil {
			out = "panic"
		}
	}()
	v, err := f()
	if err != nil {
		return "error"
	}
	if d, ok := v.(tensor.Tensor); ok {
		return elements(t, d)
	}
	return v
}

// TestKnownDefects has what the default engine of gorgonia.org/tensor v0.9.24 gets wrong: it must still give what the table
// says, and the engines here what is right. A row whose stock result is right goes.
func TestKnownDefects(t *testing.T) {
	x, sums := []float64{1, 2, 3, 4, 5, 6}, []float64{2, 4, 6, 8, 10, 12}
	soft := []float64{0.0900305731703805, 0.2447284710547976, 0.6652409557748218, 0.0900305731703805, 0.2447284710547976, 0.6652409557748218}
	nan := math.NaN()
	on := func(e tensor.Engine, layout string) *tensor.Dense { return laid(t, e, layout, tensor.Float64, x, 2, 3) }
	vector := func(e tensor.Engine, v ...float64) *tensor.Dense {
		return tensor.New(tensor.WithBacking(slices.Clone(v)), tensor.WithEngine(e))
	}
	for _, c := range []struct {
		name  string
		stock any // nil: numbers that depend on what lies beside
		right []float64
		f     func(e tensor.Engine) (any, error)
	}{
		{"MatMul of a window", nil, []float64{22, 28, 49, 64},
			func(e tensor.Engine) (any, error) {
				return tensor.MatMul(on(e, "window"), laid(t, e, "rows", tensor.Float64, x, 3, 2))
			}},
		{"MatVecMul of a window", nil, []float64{14, 32},
			func(e tensor.Engine) (any, error) { return tensor.MatVecMul(on(e, "window"), vector(e, 1, 2, 3)) }},
		{"MatMul of column-major and rows", "panic", []float64{22, 28, 49, 64},
			func(e tensor.Engine) (any, error) {
				return tensor.MatMul(on(e, "column-major"), laid(t, e, "rows", tensor.Float64, x, 3, 2))
			}},
		{"MatMul loses infinities", []float64{1, 1, 1, 1}, []float64{nan, 1, nan, 1},
			func(e tensor.Engine) (any, error) {
				return tensor.MatMul(laid(t, e, "rows", tensor.Float64, []float64{0, 1, 0, 1}, 2, 2), laid(t, e, "rows", tensor.Float64, []float64{math.Inf(1), 1, 1, 1}, 2, 2))
			}},
		{"SoftMax of a window", nil, soft,
			func(e tensor.Engine) (any, error) { return tensor.SoftMax(on(e, "window"), 1) }},
		{"SoftMax of a transposed tensor", nil, soft,
			func(e tensor.Engine) (any, error) { return tensor.SoftMax(on(e, "transposed"), 1) }},
		{"SoftMax with WithReuse", []float64{0, 0, 0, 0, 0, 0}, soft,
			func(e tensor.Engine) (any, error) {
				to := laid(t, e, "rows", tensor.Float64, make([]float64, 6), 2, 3)
				_, err := tensor.SoftMax(on(e, "rows"), 1, tensor.WithReuse(to))
				return to, err
			}},
		{"WithReuse into a window", "error", sums,
			func(e tensor.Engine) (any, error) {
				return tensor.Add(on(e, "rows"), on(e, "rows"), tensor.WithReuse(on(e, "window")))
			}},
		{"WithIncr into a window", "error", []float64{3, 6, 9, 12, 15, 18},
			func(e tensor.Engine) (any, error) {
				return tensor.Add(on(e, "rows"), on(e, "rows"), tensor.WithIncr(on(e, "window")))
			}},
		{"WithReuse into column-major memory", []float64{2, 6, 10, 4, 8, 12}, sums,
			func(e tensor.Engine) (any, error) {
				return tensor.Add(on(e, "rows"), on(e, "rows"), tensor.WithReuse(on(e, "column-major")))
			}},
		{"WithReuse into overlapping memory", []float64{2, 4, 8}, []float64{2, 4, 6},
			func(e tensor.Engine) (any, error) {
				all := vector(e, 1, 2, 3, 4)
				lo, hi := all.ShallowClone(), all.ShallowClone()
				_, err := all.SliceInto(lo, tensor.S(0, 3))
				if err == nil {
					_, err = all.SliceInto(hi, tensor.S(1, 4))
				}
				if err != nil {
					return nil, err
				}
				return tensor.Add(lo, lo, tensor.WithReuse(hi))
			}},
		{"Sum of a column-major tensor", "error", []float64{6, 15},
			func(e tensor.Engine) (any, error) { return on(e, "column-major").Sum(1) }},
		{"Argmax of all of a window", nil, []float64{5},
			func(e tensor.Engine) (any, error) { return tensor.Argmax(on(e, "window"), tensor.AllAxes) }},
		{"Stack of column-major tensors", []float64{1, 3, 2, 2, 1, 3, 4, 6, 5, 5, 4, 6}, []float64{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6},
			func(e tensor.Engine) (any, error) { return on(e, "column-major").Stack(0, on(e, "column-major")) }},
		{"Gt of a column-major tensor", []float64{0, 1, 0, 1, 0, 1}, []float64{0, 0, 0, 1, 1, 1},
			func(e tensor.Engine) (any, error) { return tensor.Gt(on(e, "column-major"), 3.0) }},
		{"ByIndices of a window", "panic", []float64{4, 5, 6, 1, 2, 3},
			func(e tensor.Engine) (any, error) {
				return tensor.ByIndices(on(e, "window"), tensor.New(tensor.WithBacking([]int{1, 0})), 0)
			}},
		{"MaxBetween loses NaN", []float64{1}, []float64{nan},
			func(e tensor.Engine) (any, error) { return tensor.MaxBetween(vector(e, 1), vector(e, nan)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outcome(t, func() (any, error) { return c.f(tensor.StdEng{}) })
			if c.stock != nil {
				assert.Equal(t, fmt.Sprint(c.stock), fmt.Sprint(got), "the default engine")
			}
			assert.NotEqual(t, fmt.Sprint(c.right), fmt.Sprint(got), "the default engine is right")
			for which, e := range engines(t) {
				v, ok := outcome(t, func() (any, error) { return c.f(e) }).([]float64)
				require.True(t, ok, which)
				closeTo(t, c.right, v, tensor.Float64, which)
			}
		})
	}
}

// watcher is a default engine that looks at the matrix of a product while it is computed.
type watcher struct {
	tensor.StdEng
	seen *tensor.Shape
}

func (w watcher) MatVecMul(a, b, to tensor.Tensor) error {
	*w.seen = a.Shape().Clone()
	return w.StdEng.MatVecMul(a, b, to)
}

// TestDotChangesOperand: the default engine turns a matrix during Dot, so that no other goroutine may use it; the engines here
// only read it, which TestConcurrent shows under the race detector.
func TestDotChangesOperand(t *testing.T) {
	var seen tensor.Shape
	w := tensor.New(tensor.WithShape(3, 2), tensor.WithBacking([]float64{1, 2, 3, 4, 5, 6}), tensor.WithEngine(watcher{seen: &seen}))
	_, err := tensor.Dot(tensor.New(tensor.WithBacking([]float64{1, 2, 3})), w)
	require.NoError(t, err)
	assert.Equal(t, tensor.Shape{2, 3}, seen, "the matrix itself had another shape meanwhile")
}

// TestMethodsOfDense: the methods that ask for interfaces of package tensor alone are right in an arena. With the engine in the
// heap they are those of the default engine, which is wrong for slices; the functions are right with both.
func TestMethodsOfDense(t *testing.T) {
	for which, e := range engines(t) {
		a := laid(t, e, "window", tensor.Float64, []float64{1, 2, 6, 4, 5, 3}, 2, 3)
		got := outcome(t, func() (any, error) { return a.Argmax(tensor.AllAxes) })
		if which == "arena" {
			assert.Equal(t, []float64{2}, got)
		} else {
			assert.NotEqual(t, []float64{2}, got, "the method is right: the limit in the comment of Engine can go")
		}
		assert.Equal(t, []float64{2}, outcome(t, func() (any, error) { return tensor.Argmax(a, tensor.AllAxes) }), which)
	}
}
