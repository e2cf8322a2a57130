package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

// shapes are those at the border: scalars, no elements, and one element.
var shapes = [][]int{{}, {1}, {3}, {0}, {1, 1}, {1, 3}, {3, 1}, {0, 3}, {3, 0}, {2, 0, 2}, {1, 2, 1}, {2, 3, 2}, {2, 1, 3, 2}}

func tensorOf(e tensor.Engine, dt tensor.Dtype, values []float64, shape []int) *tensor.Dense {
	d := tensor.New(tensor.Of(dt), tensor.WithShape(shape...), tensor.WithEngine(e))
	for i, v := range values {
		d.Set(i, number(dt, v))
	}
	return d
}

// TestShapes computes tensors of border shapes, into new tensors, given ones, over the operand, and added up.
func TestShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for which, e := range engines(t) {
		for _, shape := range shapes {
			n := tensor.Shape(shape).TotalSize()
			x, y := drawn(rng, n), drawn(rng, n)
			for _, c := range binaries {
				want := make([]float64, n)
				for i := range want {
					want[i] = c.want(x[i], y[i])
				}
				makeOperand := func() *tensor.Dense { return tensorOf(e, tensor.Float64, x, shape) }
				checkShape(t, fmt.Sprintf("%s %s of %v", which, c.name, shape), e, shape, want, c.truth, makeOperand,
					func(a *tensor.Dense, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
						return c.run(a, tensorOf(e, tensor.Float64, y, shape), opts...)
					})
			}
			for _, c := range unaries {
				want := make([]float64, n)
				for i := range want {
					want[i] = c.want(x[i])
				}
				makeOperand := func() *tensor.Dense { return tensorOf(e, tensor.Float64, x, shape) }
				checkShape(t, fmt.Sprintf("%s %s of %v", which, c.name, shape), e, shape, want, false, makeOperand,
					func(a *tensor.Dense, opts ...tensor.FuncOpt) (tensor.Tensor, error) { return c.run(a, opts...) })
			}
		}
	}
}

func checkShape(t *testing.T, what string, e tensor.Engine, shape []int, want []float64, truth bool, operand func() *tensor.Dense,
	run func(a *tensor.Dense, opts ...tensor.FuncOpt) (tensor.Tensor, error)) {
	t.Helper()
	check := func(how string, factor float64, a *tensor.Dense, opts ...tensor.FuncOpt) {
		t.Helper()
		got, err := run(a, opts...)
		if !assert.NoError(t, err, what+how) {
			return
		}
		assert.Truef(t, got.Shape().Eq(tensor.Shape(shape)), "%s%s: shape %v", what, how, got.Shape())
		scaled := make([]float64, len(want))
		for i := range want {
			scaled[i] = factor * want[i]
		}
		closeTo(t, scaled, elements(t, got), got.Dtype(), what+how)
	}
	check("", 1, operand())
	check(" UseUnsafe", 1, operand(), tensor.UseUnsafe())
	if truth {
		check(" into bools", 1, operand(), tensor.WithReuse(tensor.New(tensor.Of(tensor.Bool), tensor.WithShape(shape...), tensor.WithEngine(e))))
		check(" AsSameType", 1, operand(), tensor.AsSameType())
		return
	}
	to := tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(shape...), tensor.WithEngine(e))
	check(" into", 1, operand(), tensor.WithReuse(to))
	check(" added", 2, operand(), tensor.WithIncr(to))
}

// TestReduceShapes reduces tensors of border shapes along each axis and all.
func TestReduceShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for which, e := range engines(t) {
		for _, shape := range shapes {
			for axis := -1; axis < len(shape); axis++ {
				x := drawn(rng, tensor.Shape(shape).TotalSize())
				a := tensorOf(e, tensor.Float64, x, shape)
				got, err := tensor.Sum(a, axes(axis)...)
				what := fmt.Sprintf("%s Sum of %v along %d", which, shape, axis)
				require.NoError(t, err, what)
				want := []float64{sum(x)}
				if axis >= 0 {
					want = make([]float64, got.Shape().TotalSize())
					for k, v := range x {
						want[without(shape, axis, k)] += v
					}
				}
				closeTo(t, want, elements(t, got), tensor.Float64, what)
			}
		}
	}
}
