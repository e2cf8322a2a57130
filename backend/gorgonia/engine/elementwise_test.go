package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"
)

type binary struct {
	name   string
	run    func(a, b any, opts ...tensor.FuncOpt) (tensor.Tensor, error)
	want   func(x, y float64) float64
	floats bool // only for floats
	truth  bool // the result is of bool
}

var binaries = []binary{
	{"Add", tensor.Add, func(x, y float64) float64 { return x + y }, false, false},
	{"Sub", tensor.Sub, func(x, y float64) float64 { return x - y }, false, false},
	{"Mul", tensor.Mul, func(x, y float64) float64 { return x * y }, false, false},
	{"Div", tensor.Div, func(x, y float64) float64 { return x / y }, true, false},
	{"Pow", tensor.Pow, math.Pow, true, false},
	{"Mod", tensor.Mod, math.Mod, false, false},
	{"MinBetween", tensor.MinBetween, math.Min, false, false},
	{"MaxBetween", tensor.MaxBetween, math.Max, false, false},
	{"Lt", tensor.Lt, func(x, y float64) float64 { return truth(x < y) }, false, true},
	{"Lte", tensor.Lte, func(x, y float64) float64 { return truth(x <= y) }, false, true},
	{"Gt", tensor.Gt, func(x, y float64) float64 { return truth(x > y) }, false, true},
	{"Gte", tensor.Gte, func(x, y float64) float64 { return truth(x >= y) }, false, true},
	{"ElEq", tensor.ElEq, func(x, y float64) float64 { return truth(x == y) }, false, true},
	{"ElNe", tensor.ElNe, func(x, y float64) float64 { return truth(x != y) }, false, true},
}

// TestBinary computes all pairs of layouts, into new memory, given memory of each layout, over an operand, and added up.
func TestBinary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for which, e := range engines(t) {
		for _, c := range binaries {
			for _, dt := range dtypes {
				if c.floats && dt != tensor.Float32 && dt != tensor.Float64 {
					continue
				}
				for _, la := range layouts {
					for _, lb := range layouts {
						shape := []int{2 + rng.IntN(3), 2 + rng.IntN(3)}
						n := shape[0] * shape[1]
						x, y := drawn(rng, n), drawn(rng, n)
						want := make([]float64, n)
						for i := range want {
							want[i] = wrap(dt, c.want(x[i], y[i]))
						}
						what := fmt.Sprintf("%s %s of %s, %s and %s", which, c.name, dt, la, lb)
						a, b := laid(t, e, la, dt, x, shape...), laid(t, e, lb, dt, y, shape...)
						got, err := c.run(a, b)
						require.NoError(t, err, what)
						closeTo(t, want, elements(t, got), got.Dtype(), what)
						closeTo(t, x, elements(t, a), dt, what+": the operand stays")
						if c.truth {
							assert.Equal(t, tensor.Bool, got.Dtype())
							got, err = c.run(a, b, tensor.AsSameType())
							require.NoError(t, err, what)
							assert.Equal(t, dt, got.Dtype())
							closeTo(t, want, elements(t, got), dt, what+" AsSameType")
							continue
						}
						into(t, what, e, dt, shape, want, func(opts ...tensor.FuncOpt) (tensor.Tensor, error) { return c.run(a, b, opts...) })
						got, err = c.run(a, b, tensor.UseUnsafe())
						require.NoError(t, err, what)
						assert.Same(t, a, got)
						closeTo(t, want, elements(t, a), dt, what+" UseUnsafe")
						scalar, err := c.run(b, number(dt, 2))
						require.NoError(t, err, what)
						for i := range want {
							want[i] = wrap(dt, c.want(y[i], 2))
						}
						closeTo(t, want, elements(t, scalar), dt, what+" scalar")
						scalar, err = c.run(number(dt, 2), b)
						require.NoError(t, err, what)
						for i := range want {
							want[i] = wrap(dt, c.want(2, y[i]))
						}
						closeTo(t, want, elements(t, scalar), dt, what+" scalar on the left")
					}
				}
			}
		}
	}
}

type unary struct {
	name   string
	run    func(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error)
	want   func(x float64) float64
	floats bool
}

var unaries = []unary{
	{"Neg", tensor.Neg, func(x float64) float64 { return -x }, true},
	{"Inv", tensor.Inv, func(x float64) float64 { return 1 / x }, true},
	{"Square", tensor.Square, func(x float64) float64 { return x * x }, false},
	{"Cube", tensor.Cube, func(x float64) float64 { return x * x * x }, false},
	{"Exp", tensor.Exp, math.Exp, true},
	{"Tanh", tensor.Tanh, math.Tanh, true},
	{"Log", tensor.Log, math.Log, true},
	{"Log2", tensor.Log2, math.Log2, true},
	{"Log10", tensor.Log10, math.Log10, true},
	{"Sqrt", tensor.Sqrt, math.Sqrt, true},
	{"Cbrt", tensor.Cbrt, math.Cbrt, true},
	{"InvSqrt", tensor.InvSqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }, true},
	{"Abs", tensor.Abs, math.Abs, true},
	{"Sign", tensor.Sign, func(x float64) float64 { return truth(x > 0) - truth(x < 0) }, true},
	{"Clamp", func(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
		return tensor.Clamp(a, number(a.Dtype(), 2), number(a.Dtype(), 4), opts...)
	}, func(x float64) float64 { return min(max(x, 2), 4) }, false},
	{"Map", func(a tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
		if a.Dtype() == tensor.Float32 {
			return a.Apply(func(x float32) float32 { return x + 7 }, opts...)
		}
		return a.Apply(func(x float64) float64 { return x + 7 }, opts...)
	}, func(x float64) float64 { return x + 7 }, true},
}

func TestUnary(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for which, e := range engines(t) {
		for _, c := range unaries {
			for _, dt := range dtypes {
				if c.floats && dt != tensor.Float32 && dt != tensor.Float64 {
					continue
				}
				for _, layout := range layouts {
					shape := []int{2, 2 + rng.IntN(3), 2}
					x := drawn(rng, tensor.Shape(shape).TotalSize())
					want := make([]float64, len(x))
					for i := range x {
						want[i] = wrap(dt, c.want(x[i]))
					}
					what := fmt.Sprintf("%s %s of %s, %s", which, c.name, dt, layout)
					a := laid(t, e, layout, dt, x, shape...)
					got, err := c.run(a)
					require.NoError(t, err, what)
					closeTo(t, want, elements(t, got), dt, what)
					into(t, what, e, dt, shape, want, func(opts ...tensor.FuncOpt) (tensor.Tensor, error) { return c.run(a, opts...) })
					got, err = c.run(a, tensor.UseUnsafe())
					require.NoError(t, err, what)
					assert.Same(t, a, got)
					closeTo(t, want, elements(t, got), dt, what+" UseUnsafe")
				}
			}
		}
	}
}
