package engine_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/engine"
)

func TestMoves(t *testing.T) {
	x := []float64{0, 1, 2, 3, 4, 5}
	for which, e := range engines(t) {
		for _, dt := range dtypes {
			for _, layout := range layouts {
				a := laid(t, e, layout, dt, x, 2, 3)
				whole := slices.Contains([]string{"rows", "transposed", "column-major"}, layout)
				for name, c := range map[string]struct {
					f    func() (tensor.Tensor, error)
					want []float64
				}{
					"Concat 0": {func() (tensor.Tensor, error) { return tensor.Concat(0, a, a) }, []float64{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}},
					"Concat 1": {func() (tensor.Tensor, error) { return tensor.Concat(1, a, a) }, []float64{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
					"Stack 0":  {func() (tensor.Tensor, error) { return a.Stack(0, a) }, []float64{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}},
					"Stack 2":  {func() (tensor.Tensor, error) { return a.Stack(2, a) }, []float64{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}},
					"Repeat":   {func() (tensor.Tensor, error) { return tensor.Repeat(a, 0, 2) }, []float64{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
					"ByIndices": {func() (tensor.Tensor, error) {
						return tensor.ByIndices(a, tensor.New(tensor.WithBacking([]int{2, 0}), tensor.WithEngine(e)), 1)
					}, []float64{2, 0, 5, 3}},
					"Transpose": {func() (tensor.Tensor, error) {
						if !whole {
							return tensor.New(tensor.WithBacking([]float64{0, 3, 1, 4, 2, 5})), nil
						}
						return tensor.Transpose(a)
					}, []float64{0, 3, 1, 4, 2, 5}},
				} {
					what := fmt.Sprintf("%s %s of %s, %s", which, name, dt, layout)
					got, err := c.f()
					require.NoError(t, err, what)
					closeTo(t, c.want, elements(t, got), dt, what)
					closeTo(t, x, elements(t, a), dt, what+": the operand stays")
				}
			}
		}
	}
}

// TestConcurrent computes with shared operands, transposed and sliced ones among them, in many goroutines.
func TestConcurrent(t *testing.T) {
	for which, e := range engines(t) {
		w := laid(t, e, "transposed", tensor.Float32, []float64{1, 2, 3, 4, 5, 6}, 3, 2)
		x := laid(t, e, "window", tensor.Float32, []float64{1, 2, 3, 1, 2, 3}, 2, 3)
		v := laid(t, e, "rows", tensor.Float32, []float64{1, 2, 3}, 3)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					y, err := tensor.MatMul(x, w)
					if assert.NoError(t, err) {
						assert.Equal(t, []float32{22, 28, 22, 28}, y.Data(), which)
					}
					z, err := tensor.Dot(v, w)
					if assert.NoError(t, err) {
						assert.Equal(t, []float32{22, 28}, z.Data(), which)
					}
					_, err = tensor.Add(w, w)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
	}
}

// TestArena counts what is allocated, and gives it back.
func TestArena(t *testing.T) {
	e, err := engine.NewArena(1024)
	require.NoError(t, err)
	a := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 4), tensor.WithEngine(e))
	inside, beyond := e.Used()
	assert.Equal(t, []int{64, 0}, []int{inside, beyond})
	b, err := tensor.MatMul(a, a)
	require.NoError(t, err)
	inside, _ = e.Used()
	assert.Equal(t, 128, inside)
	assert.Equal(t, make([]float32, 16), b.Data())
	large := tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(200), tensor.WithEngine(e))
	_, beyond = e.Used()
	assert.Equal(t, 1600, beyond)
	require.NoError(t, large.Memset(1.0))
	e.Reset()
	inside, beyond = e.Used()
	assert.Equal(t, []int{0, 0}, []int{inside, beyond})
	_, err = engine.NewArena(-1)
	require.Error(t, err)
}

// TestErrors: what does not fit is an error, and nothing panics.
func TestErrors(t *testing.T) {
	for which, e := range engines(t) {
		a := laid(t, e, "rows", tensor.Float32, make([]float64, 6), 2, 3)
		b := laid(t, e, "rows", tensor.Float32, make([]float64, 6), 3, 2)
		c := laid(t, e, "rows", tensor.Int32, make([]float64, 6), 2, 3)
		for name, f := range map[string]func() (tensor.Tensor, error){
			"shapes":      func() (tensor.Tensor, error) { return tensor.Add(a, b) },
			"types":       func() (tensor.Tensor, error) { return tensor.Add(a, c) },
			"scalar type": func() (tensor.Tensor, error) { return tensor.Add(a, 1.0) },
			"reuse too small": func() (tensor.Tensor, error) {
				return tensor.Add(a, a, tensor.WithReuse(laid(t, e, "rows", tensor.Float32, make([]float64, 4), 2, 2)))
			},
			"reuse a window": func() (tensor.Tensor, error) {
				return tensor.Add(a, a, tensor.WithReuse(laid(t, e, "window", tensor.Float32, make([]float64, 6), 3, 2)))
			},
			"product":      func() (tensor.Tensor, error) { return tensor.Dot(a, a) },
			"axis":         func() (tensor.Tensor, error) { return tensor.Argmax(a, 7) },
			"sum axis":     func() (tensor.Tensor, error) { return tensor.Sum(a, 7) },
			"concat":       func() (tensor.Tensor, error) { return tensor.Concat(0, a, b) },
			"concat axis":  func() (tensor.Tensor, error) { return tensor.Concat(5, a, a) },
			"softmax axis": func() (tensor.Tensor, error) { return tensor.SoftMax(a, 9) },
			"index":        func() (tensor.Tensor, error) { return tensor.ByIndices(a, tensor.New(tensor.WithBacking([]int{9})), 0) },
			"half":         func() (tensor.Tensor, error) { return tensor.Log2(c) },
		} {
			_, err := f()
			assert.Error(t, err, "%s %s", which, name)
		}
	}
}

// TestHalf computes in a type that the default engine does not know.
func TestHalf(t *testing.T) {
	for which, e := range engines(t) {
		x := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]berth.Float16{0x3c00, 0x4000, 0x4200, 0x4400}), tensor.WithEngine(e)) // 1 2 3 4
		require.NoError(t, x.T())
		sum, err := tensor.Add(x, x)
		require.NoError(t, err, which)
		assert.Equal(t, []berth.Float16{0x4000, 0x4600, 0x4400, 0x4800}, sum.Data(), which)
		product, err := tensor.MatMul(x, x)
		require.NoError(t, err, which)
		assert.Equal(t, []berth.Float16{0x4700, 0x4b80, 0x4900, 0x4d80}, product.Data(), which) // 7 15 10 22
	}
}
