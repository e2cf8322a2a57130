package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/internal/rescue"
)

// TestRepeats compares with what Repeat says, element by element. The default engine loses all but the first element of a row
// that is repeated along axis 0.
func TestRepeats(t *testing.T) {
	for which, e := range engines(t) {
		for _, shape := range [][]int{{}, {1}, {3}, {2, 3}, {3, 1}, {1, 3}, {2, 3, 2}, {2, 0, 3}} {
			for axis := -1; axis <= max(len(shape)-1, 1); axis++ {
				for _, repeats := range [][]int{{2}, {0}, {1}, {2, 0, 3}, {1, 2}} {
					n := tensor.Shape(shape).TotalSize()
					x := drawn(rand.New(rand.NewPCG(31, 32)), n)
					a := tensorOf(e, tensor.Float64, x, shape)
					what := fmt.Sprintf("%s: %v of %v along %d", which, repeats, shape, axis)
					want, to := repeated(x, shape, axis, repeats)
					got, err := tensor.Repeat(a, axis, repeats...)
					if want == nil {
						assert.Error(t, err, what)
						continue
					}
					require.NoError(t, err, what)
					assert.Equal(t, to, append([]int{}, got.Shape()...), what)
					closeTo(t, want, elements(t, got), tensor.Float64, what)
				}
			}
		}
	}
}

// repeated are elements repeated along an axis, and their shape; nil where counts do not fit.
func repeated(x []float64, shape []int, axis int, repeats []int) (out []float64, to []int) {
	to = slices.Clone(shape)
	switch {
	case axis < 0:
		to, axis = []int{len(x)}, 0
	case len(shape) == 0:
		to = slices.Repeat([]int{1}, axis+1)
	case axis == len(shape):
		to = append(to, 1)
	}
	if axis >= len(to) || len(repeats) != 1 && len(repeats) != to[axis] {
		return nil, nil
	}
	out = []float64{}
	from := slices.Clone(to)
	to[axis] = 0
	for i := range from[axis] {
		to[axis] += repeats[i%len(repeats)]
	}
	for k := range tensor.Shape(to).TotalSize() {
		at := coordinates(to, k)
		i := 0
		for n := at[axis]; n >= repeats[i%len(repeats)]; i++ {
			n -= repeats[i%len(repeats)]
		}
		at[axis] = i
		pos := 0
		for d, n := range from {
			pos = pos*n + at[d]
		}
		out = append(out, x[pos])
	}
	return out, to
}

// TestSelections: SelectByIndices takes slices, SelectByIndicesB adds gradients where they came from, along every axis.
func TestSelections(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	for which, e := range engines(t) {
		for _, shape := range [][]int{{4}, {3, 4}, {2, 3, 4}, {2, 4, 3, 2}} {
			for axis := range shape {
				for _, layout := range []string{"rows", "transposed", "window"} {
					what := fmt.Sprintf("%s: %s of %v along %d", which, layout, shape, axis)
					indices := []int{shape[axis] - 1, 0, 0, 1, shape[axis] - 1}
					to := slices.Clone(shape)
					to[axis] = len(indices)
					x, g := drawn(rng, tensor.Shape(shape).TotalSize()), drawn(rng, tensor.Shape(to).TotalSize())
					taken, sums := make([]float64, len(g)), make([]float64, len(x))
					for k := range g {
						at := coordinates(to, k)
						at[axis] = indices[at[axis]]
						pos := 0
						for d, n := range shape {
							pos = pos*n + at[d]
						}
						taken[k] = x[pos]
						sums[pos] += g[k]
					}
					a, index := laid(t, e, layout, tensor.Float64, x, shape...), tensor.New(tensor.WithBacking(indices))
					got, err := tensor.ByIndices(a, index, axis)
					require.NoError(t, err, what)
					closeTo(t, taken, elements(t, got), tensor.Float64, what)
					back, err := tensor.ByIndicesB(a, laid(t, e, layout, tensor.Float64, g, to...), index, axis)
					require.NoError(t, err, what)
					assert.Equal(t, tensor.Shape(shape), back.Shape(), what)
					closeTo(t, sums, elements(t, back), tensor.Float64, what)
				}
			}
		}
		for _, dt := range dtypes {
			a := tensorOf(e, dt, []float64{1, 2, 3, 4}, []int{2, 2})
			got, err := tensor.ByIndicesB(a, a, tensor.New(tensor.WithBacking([]int{1, 1})), 0)
			require.NoError(t, err, "%s %s", which, dt)
			closeTo(t, []float64{0, 0, 4, 6}, elements(t, got), dt, dt.String())
		}
	}
}

// TestReduceBy reduces with a function along every axis; the default engine reads wrong elements along inner ones of four
// dimensions.
func TestReduceBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	add := func(a, b float64) float64 { return a + b }
	for which, e := range engines(t) {
		for _, shape := range [][]int{{4}, {3, 4}, {2, 3, 4}, {2, 3, 3, 2}, {2, 3, 2, 3, 2}} {
			for axis := range shape {
				x := drawn(rng, tensor.Shape(shape).TotalSize())
				what := fmt.Sprintf("%s: %v along %d", which, shape, axis)
				got, err := e.(both).Reduce(add, laid(t, e, "window", tensor.Float64, x, shape...), axis, 0.0)
				require.NoError(t, err, what)
				assert.Equal(t, slices.Delete(slices.Clone(shape), axis, axis+1), append([]int{}, got.Shape()...), what)
				closeTo(t, along(x, shape, axis, sum), elements(t, got), tensor.Float64, what)
			}
		}
	}
}

// TestDecomposition: the factors of SVD are tensors of the engine, whose product is the matrix.
func TestDecomposition(t *testing.T) {
	for which, e := range engines(t) {
		for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
			x := []float64{3, 1, 2, 0, 4, 1}
			s, u, v, err := e.(both).SVD(laid(t, e, "transposed", dt, x, 2, 3), true, false)
			require.NoError(t, err, which)
			values, left, right := elements(t, s), elements(t, u), elements(t, v)
			product := make([]float64, 6)
			for i := range product {
				for k := range 2 {
					product[i] += left[i/3*2+k] * values[k] * right[i%3*2+k]
				}
			}
			closeTo(t, x, product, tensor.Float32, which+" "+dt.String())
			for _, f := range []tensor.Tensor{s, u, v} {
				assert.Same(t, e, f.Engine(), which)
			}
		}
	}
}

// TestDecompositionOfNoNumbers: a matrix with NaN or infinities has no singular values; asking is an error or gives no numbers,
// and ends.
func TestDecompositionOfNoNumbers(t *testing.T) {
	for which, e := range engines(t) {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.MaxFloat64} {
			s, _, _, err := e.(both).SVD(tensorOf(e, tensor.Float64, []float64{v, 1, 2, v}, []int{2, 2}), true, true)
			if err != nil {
				var panicked *rescue.PanicError
				assert.NotErrorAs(t, err, &panicked, "%s %v", which, v)
				continue
			}
			largest := elements(t, s)[0]
			assert.True(t, math.IsNaN(largest) || largest >= math.MaxFloat64, "%s %v: %v", which, v, s)
		}
	}
}

// TestMemoryOperations: the engines' Memset, Memclr and Memcpy leave what lies between the elements of a slice.
func TestMemoryOperations(t *testing.T) {
	for which, e := range engines(t) {
		for _, layout := range layouts {
			d := laid(t, e, layout, tensor.Float64, []float64{1, 2, 3, 4}, 2, 2)
			from := laid(t, e, "transposed", tensor.Float64, []float64{5, 6, 7, 8}, 2, 2)
			others := func() (n int) {
				for _, v := range d.Data().([]float64) {
					if v == 99 {
						n++
					}
				}
				return n
			}
			beside := others()
			for _, c := range []struct {
				f    func() error
				want []float64
			}{
				{func() error { return e.Memset(d, 7.0) }, []float64{7, 7, 7, 7}},
				{func() error { e.Memclr(d); return nil }, []float64{0, 0, 0, 0}},
				{func() error { return e.Memcpy(d, from) }, []float64{5, 6, 7, 8}},
			} {
				require.NoError(t, c.f(), "%s %s", which, layout)
				assert.Equal(t, c.want, elements(t, d), "%s %s", which, layout)
				assert.Equal(t, beside, others(), "%s %s", which, layout)
			}
			require.Error(t, e.Memset(d, float32(7)))
			require.Error(t, e.Memcpy(d, tensor.New(tensor.WithBacking([]float64{1, 2}))))
		}
	}
}

// TestStringsOfResults: strings of results are found by the garbage collector, which default allocations hide them from.
func TestStringsOfResults(t *testing.T) {
	e := engines(t)["heap"].(both)
	var got []tensor.Tensor
	for i := range 200 {
		v := tensor.New(tensor.WithBacking([]string{fmt.Sprint("text ", i), fmt.Sprint("more ", i)}), tensor.WithEngine(e))
		joined, err := e.Repeat(v, 0, 2)
		require.NoError(t, err)
		got = append(got, joined)
		garbage = make([]byte, 1<<16)
	}
	for i := range 1000 { // memory that strings were in is used again
		garbage = fmt.Append(garbage[:0:0], "other ", i, "other")
	}
	runtime.GC()
	for i, d := range got {
		assert.Equal(t, []string{fmt.Sprint("text ", i), fmt.Sprint("text ", i), fmt.Sprint("more ", i), fmt.Sprint("more ", i)}, d.Data())
	}
}

var garbage []byte
