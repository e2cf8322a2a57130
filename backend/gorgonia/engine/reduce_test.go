package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

// along reduces elements along an axis by a formula over a row; -1 over all.
func along(x []float64, shape []int, axis int, f func(row []float64) float64) []float64 {
	rows := map[int][]float64{}
	for k, v := range x {
		at, to := coordinates(shape, k), 0
		for i, n := range shape {
			if axis >= 0 && i != axis {
				to = to*n + at[i]
			}
		}
		rows[to] = append(rows[to], v)
	}
	out := make([]float64, len(rows))
	for i, row := range rows {
		out[i] = f(row)
	}
	return out
}

func sum(row []float64) (s float64) {
	for _, v := range row {
		s += v
	}
	return s
}

func product(row []float64) float64 {
	p := 1.0
	for _, v := range row {
		p *= v
	}
	return p
}

func TestReduce(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	first := func(less func(a, b float64) bool) func([]float64) float64 {
		return func(row []float64) float64 {
			best := 0
			for i, v := range row {
				if less(row[best], v) {
					best = i
				}
			}
			return float64(best)
		}
	}
	up, down := func(a, b float64) bool { return a < b }, func(a, b float64) bool { return a > b }
	for which, e := range engines(t) {
		for _, c := range []struct {
			name string
			run  func(a *tensor.Dense, axis int) (tensor.Tensor, error)
			want func([]float64) float64
			arg  bool
		}{
			{"Sum", func(a *tensor.Dense, axis int) (tensor.Tensor, error) { return a.Sum(axes(axis)...) }, sum, false},
			{"Max", func(a *tensor.Dense, axis int) (tensor.Tensor, error) { return a.Max(axes(axis)...) }, slices.Max[[]float64], false},
			{"Min", func(a *tensor.Dense, axis int) (tensor.Tensor, error) { return a.Min(axes(axis)...) }, slices.Min[[]float64], false},
			{"Prod", func(a *tensor.Dense, axis int) (tensor.Tensor, error) {
				return e.(tensor.Proder).Prod(a, axes(axis)...)
			}, product, false},
			{"Argmax", func(a *tensor.Dense, axis int) (tensor.Tensor, error) { return tensor.Argmax(a, axis) }, first(up), true},
			{"Argmin", func(a *tensor.Dense, axis int) (tensor.Tensor, error) { return tensor.Argmin(a, axis) }, first(down), true},
		} {
			for _, dt := range append(slices.Clone(dtypes), tensor.Int16, tensor.Uint16, tensor.Uint32, tensor.Uint64) {
				for _, layout := range layouts {
					for axis := -1; axis < 3; axis++ {
						shape := []int{2, 3, 2 + rng.IntN(3)}
						x := drawn(rng, tensor.Shape(shape).TotalSize())
						want := along(x, shape, axis, c.want)
						what := fmt.Sprintf("%s %s of %s, %s, along %d", which, c.name, dt, layout, axis)
						got, err := c.run(laid(t, e, layout, dt, x, shape...), axis)
						require.NoError(t, err, what)
						assert.Equal(t, c.arg, got.Dtype() == tensor.Int && (c.arg || dt == tensor.Int) && c.arg, what)
						for i := range want {
							want[i] = wrap(got.Dtype(), want[i])
						}
						closeTo(t, want, elements(t, got), got.Dtype(), what)
					}
				}
			}
		}
	}
}

func axes(axis int) []int {
	if axis < 0 {
		return nil
	}
	return []int{axis}
}

func TestSoftmax(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for which, e := range engines(t) {
		for _, layout := range layouts {
			for axis := range 3 {
				shape := []int{2, 3, 4}
				x, g := drawn(rng, 24), drawn(rng, 24)
				total := along(x, shape, axis, func(row []float64) (s float64) {
					for _, v := range row {
						s += math.Exp(v)
					}
					return s
				})
				soft, logs := make([]float64, 24), make([]float64, 24)
				for k := range x {
					soft[k] = math.Exp(x[k]) / total[without(shape, axis, k)]
					logs[k] = math.Log(soft[k])
				}
				weighted := make([]float64, 24)
				for k := range x {
					weighted[k] = g[k] * soft[k]
				}
				sums, plain := along(weighted, shape, axis, sum), along(g, shape, axis, sum)
				softBack, logBack := make([]float64, 24), make([]float64, 24)
				for k := range x {
					at := without(shape, axis, k)
					softBack[k], logBack[k] = (g[k]-sums[at])*soft[k], g[k]-soft[k]*plain[at]
				}
				in := func(v []float64) *tensor.Dense { return laid(t, e, layout, tensor.Float64, v, shape...) }
				for name, c := range map[string]struct {
					f    func(opts ...tensor.FuncOpt) (tensor.Tensor, error)
					want []float64
				}{
					"SoftMax":    {func(o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.SoftMax(in(x), axis, o...) }, soft},
					"LogSoftMax": {func(o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.LogSoftMax(in(x), axis, o...) }, logs},
					"SoftMaxB":   {func(o ...tensor.FuncOpt) (tensor.Tensor, error) { return tensor.SoftMaxB(in(soft), in(g), axis, o...) }, softBack},
					"LogSoftMaxB": {func(o ...tensor.FuncOpt) (tensor.Tensor, error) {
						return tensor.LogSoftMaxB(in(logs), in(g), axis, o...)
					}, logBack},
				} {
					what := fmt.Sprintf("%s %s, %s, axis %d", which, name, layout, axis)
					got, err := c.f()
					require.NoError(t, err, what)
					closeTo(t, c.want, elements(t, got), tensor.Float64, what)
					into(t, what, e, tensor.Float64, shape, c.want, c.f)
				}
			}
		}
	}
}

// without is the position of element k when an axis is left out.
func without(shape []int, axis, k int) (to int) {
	for i, at := range coordinates(shape, k) {
		if i != axis {
			to = to*shape[i] + at
		}
	}
	return to
}
