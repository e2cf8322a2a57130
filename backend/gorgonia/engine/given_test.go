package engine_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/engine"
	"github.com/berth-onnx/berth/ops"
)

// both is what the engines of the tests have.
type both interface {
	tensor.Engine
	tensor.MatMuler
	tensor.MatVecMuler
	tensor.OuterProder
	tensor.InnerProder
	tensor.Repeater
	tensor.Concater
	tensor.Stacker
	tensor.DenseStacker
	tensor.SVDer
	tensor.ByIndiceser
	tensor.Reducer
	tensor.Dotter
	tensor.Log2er
}

// TestBudget: results of sizes that arguments decide are asked of the budget of memory, and errors name operation, shape and
// bytes. The operands have few elements.
func TestBudget(t *testing.T) {
	huge := math.MaxInt >> 8
	for which, e := range engines(t) {
		e := e.(both)
		a := tensorOf(e, tensor.Float64, []float64{1}, []int{1, 1})
		wide := tensorOf(e, tensor.Float32, nil, []int{1, 1 << 18})
		for name, c := range map[string]struct {
			f    func() (tensor.Tensor, error)
			text []string
		}{
			"Repeat":          {func() (tensor.Tensor, error) { return e.Repeat(a, 0, huge) }, []string{"Repeat: ", fmt.Sprint([]int{huge, 1}), fmt.Sprint(8*huge, " bytes")}},
			"Repeat of all":   {func() (tensor.Tensor, error) { return e.Repeat(a, tensor.AllAxes, huge) }, []string{"Repeat: ", fmt.Sprint([]int{huge}), fmt.Sprint(8*huge, " bytes")}},
			"by the function": {func() (tensor.Tensor, error) { return tensor.Repeat(a, 1, huge) }, []string{"Repeat: ", fmt.Sprint([]int{1, huge}), fmt.Sprint(8*huge, " bytes")}},
			"SVD":             {func() (tensor.Tensor, error) { _, u, _, err := e.SVD(wide, true, true); return u, err }, []string{"SVD: ", fmt.Sprint([]int{1, 1 << 18}), fmt.Sprint(int64(8)<<36, " bytes")}},
		} {
			got, err := c.f()
			var full *ops.MemoryError
			var named *engine.Error
			require.ErrorAs(t, err, &named, "%s %s", which, name)
			assert.ErrorAs(t, err, &full, "%s %s", which, name)
			assert.True(t, got == nil, "%s %s", which, name)
			for _, text := range c.text {
				assert.ErrorContains(t, err, text, "%s %s", which, name)
			}
		}
	}
}

// TestNoMemory: what no arena has room for is an error of the arena's methods; the arena can be used afterwards.
func TestNoMemory(t *testing.T) {
	var full *ops.MemoryError
	_, err := engine.NewArena(math.MaxInt >> 8)
	require.ErrorAs(t, err, &full)
	e, err := engine.NewArena(64)
	require.NoError(t, err)
	for name, size := range map[string]int64{"beyond the budget": math.MaxInt >> 8, "negative": -1} {
		var named *engine.Error
		m, err := e.Alloc(size)
		require.ErrorAs(t, err, &named, name)
		assert.True(t, m == nil, name)
	}
	_, beyond := e.Used()
	assert.Zero(t, beyond)
	got, err := e.Repeat(tensor.New(tensor.WithBacking([]float32{1, 2})), 0, 3)
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 1, 1, 2, 2, 2}, got.Data())
}

// TestFailedOperations: what fails leaves the tensor for its result as it was, shape, strides and elements, also where elements
// had been written before the error.
func TestFailedOperations(t *testing.T) {
	for which, e := range engines(t) {
		e := e.(both)
		adder := e.(interface {
			tensor.Adder
			tensor.Diver
			tensor.Mapper
			tensor.Lter
		})
		a := tensorOf(e, tensor.Int32, []float64{6, 7, 8, 9}, []int{2, 2})
		zeros := tensorOf(e, tensor.Int32, []float64{1, 2, 3, 0}, []int{2, 2})
		texts := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]string{"a", "b", "c", "d"}))
		truths := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]bool{true, false, true, false}))
		third := tensor.New(tensor.WithBacking([]int{0, 1, 2, 0}))
		count := 0
		for name, f := range map[string]func(opt tensor.FuncOpt) (tensor.Tensor, error){
			"a division by 0":     func(opt tensor.FuncOpt) (tensor.Tensor, error) { return adder.Div(a, zeros, opt) },
			"an index beyond":     func(opt tensor.FuncOpt) (tensor.Tensor, error) { return e.SelectByIndices(a, third, 0, opt) },
			"a sum of strings":    func(opt tensor.FuncOpt) (tensor.Tensor, error) { return adder.Add(texts, texts, opt) },
			"a sum of bools":      func(opt tensor.FuncOpt) (tensor.Tensor, error) { return adder.Add(truths, truths, opt) },
			"bools of integers":   func(opt tensor.FuncOpt) (tensor.Tensor, error) { return adder.Lt(a, a, opt) },
			"an option that is 0": func(opt tensor.FuncOpt) (tensor.Tensor, error) { return adder.Add(a, a, opt, nil) },
			"another type": func(opt tensor.FuncOpt) (tensor.Tensor, error) {
				return adder.Add(a, a, opt, tensor.As(tensor.Float32))
			},
			"a function that fails": func(opt tensor.FuncOpt) (tensor.Tensor, error) {
				return adder.Map(func(n int32) (int32, error) {
					if n > 7 {
						return 0, errors.New("no")
					}
					return n, nil
				}, a, opt)
			},
			"a function that panics": func(opt tensor.FuncOpt) (tensor.Tensor, error) {
				return adder.Map(func(int32) int32 { panic("no") }, a, opt)
			},
		} {
			for to, shape := range map[string][]int{"rows": {2, 2}, "column-major": {2, 2}, "transposed": {2, 2}, "window": {2, 2}, "every other": {4}} {
				for _, opt := range []func(tensor.Tensor) tensor.FuncOpt{tensor.WithReuse, tensor.WithIncr} {
					what := fmt.Sprintf("%s: %s into %s", which, name, to)
					d := laid(t, e, to, tensor.Int32, []float64{1, 2, 3, 4}, shape...)
					before := stateOf(d)
					got, err := f(opt(d))
					var named *engine.Error
					if name == "a division by 0" && err == nil {
						continue // where integers by 0 are numbers
					}
					count++
					require.ErrorAs(t, err, &named, what)
					assert.NotContains(t, err.Error(), "internal error", what)
					assert.True(t, got == nil, what)
					assert.Equal(t, before, stateOf(d), what)
				}
			}
		}
		assert.GreaterOrEqual(t, count, 80)
	}
}

// TestGivenShapes: a tensor of another shape gets the result's, unless it is a slice or transposed, in which case it stays.
func TestGivenShapes(t *testing.T) {
	for which, e := range engines(t) {
		a := tensorOf(e, tensor.Float32, []float64{1, 2, 3, 4, 5, 6}, []int{2, 3})
		for name, c := range map[string]struct {
			layout string
			shape  []int
			refuse bool
		}{
			"rows": {"rows", []int{3, 2}, false}, "vector": {"rows", []int{6}, false}, "column": {"rows", []int{6, 1}, false},
			"columns": {"column-major", []int{3, 2}, false}, "rows of a window": {"rows of a window", []int{3, 2}, false},
			"window": {"window", []int{3, 2}, true}, "transposed": {"transposed", []int{3, 2}, true},
			"rows of a transposed tensor": {"window of a transposed", []int{3, 2}, true},
		} {
			what := which + " " + name
			d := laid(t, e, c.layout, tensor.Float32, []float64{9, 9, 9, 9, 9, 9}, c.shape...)
			before := stateOf(d)
			got, err := tensor.Add(a, a, tensor.WithReuse(d))
			if c.refuse {
				require.Error(t, err, what)
				assert.Equal(t, before, stateOf(d), what)
				continue
			}
			require.NoError(t, err, what)
			assert.Same(t, d, got, what)
			assert.Equal(t, tensor.Shape{2, 3}, d.Shape(), what)
			closeTo(t, []float64{2, 4, 6, 8, 10, 12}, elements(t, d), tensor.Float32, what)
		}
		column := laid(t, e, "rows", tensor.Float32, make([]float64, 3), 3, 1)
		v := tensorOf(e, tensor.Float32, []float64{1, 2, 3}, []int{3})
		_, err := tensor.Exp(v, tensor.WithReuse(column))
		require.NoError(t, err)
		assert.Len(t, column.Shape(), 1, "a vector's result is no column")
	}
}

// TestSharedPlaces: a result can not be written where several elements have one place.
func TestSharedPlaces(t *testing.T) {
	for which, e := range engines(t) {
		a := tensorOf(e, tensor.Float64, []float64{1, 2, 3, 4}, []int{2, 2})
		for name, c := range map[string]struct {
			strides []int
			refuse  bool
		}{"rows twice": {[]int{0, 1}, true}, "overlapping rows": {[]int{1, 1}, true}, "rows": {[]int{2, 1}, false}, "far apart": {[]int{3, 1}, false}} {
			d := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(make([]float64, 6)), tensor.WithEngine(e))
			d.Info().Init(tensor.Shape{2, 2}, c.strides)
			_, err := tensor.Add(a, a, tensor.WithReuse(d))
			if c.refuse {
				assert.ErrorContains(t, err, "one place", "%s %s", which, name)
				assert.Equal(t, make([]float64, 6), d.Data())
			} else {
				require.NoError(t, err, "%s %s", which, name)
				assert.Equal(t, []float64{2, 4, 6, 8}, elements(t, d))
			}
		}
	}
}

// TestOverlappingFunctions: functions that no operator has read operands before the result is written over them.
func TestOverlappingFunctions(t *testing.T) {
	for which, e := range engines(t) {
		for name, f := range map[string]func(a, to tensor.Tensor) (tensor.Tensor, error){
			"Log2": func(a, to tensor.Tensor) (tensor.Tensor, error) { return e.(both).Log2(a, tensor.WithReuse(to)) },
			"Repeat": func(a, to tensor.Tensor) (tensor.Tensor, error) {
				return e.(both).RepeatReuse(a, to, 0, 1)
			},
		} {
			all := tensorOf(e, tensor.Float64, []float64{1, 2, 4, 8, 16}, []int{5})
			lo, hi := all.ShallowClone(), all.ShallowClone()
			_, err := all.SliceInto(lo, tensor.S(0, 4))
			require.NoError(t, err)
			_, err = all.SliceInto(hi, tensor.S(1, 5))
			require.NoError(t, err)
			_, err = f(lo, hi)
			require.NoError(t, err)
			want := map[string][]float64{"Log2": {1, 0, 1, 2, 3}, "Repeat": {1, 1, 2, 4, 8}}[name]
			assert.Equal(t, want, all.Data(), "%s %s", which, name)
		}
	}
}
