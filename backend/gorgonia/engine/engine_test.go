package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
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
			{"Argmax", func(a *tensor.Dense, axis int) (tensor.Tensor, error) { return tensor.Argmax(a, axis) }, first(up), true},
			{"Argmin", func(a *tensor.Dense, axis int) (tensor.Tensor, error) { return tensor.Argmin(a, axis) }, first(down), true},
		} {
			for _, dt := range dtypes {
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

// TestProducts compares products of matrices and vectors with sums in float64.
func TestProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for which, e := range engines(t) {
		for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
			for _, la := range layouts {
				for _, lb := range layouts {
					m, k, n := 2+rng.IntN(5), 2+rng.IntN(5), 2+rng.IntN(5)
					x, y, v, w := drawn(rng, m*k), drawn(rng, k*n), drawn(rng, k), drawn(rng, n)
					what := fmt.Sprintf("%s %s, %s and %s", which, dt, la, lb)
					a, b := laid(t, e, la, dt, x, m, k), laid(t, e, lb, dt, y, k, n)
					vec, other := laid(t, e, lb, dt, v, k), laid(t, e, la, dt, w, n)
					same := laid(t, e, la, dt, v, k)
					want := multiply(x, y, m, k, n)
					got, err := tensor.MatMul(a, b)
					require.NoError(t, err, what)
					closeTo(t, want, elements(t, got), dt, "MatMul "+what)
					into(t, "MatMul "+what, e, dt, []int{m, n}, want, func(opts ...tensor.FuncOpt) (tensor.Tensor, error) { return product(a, b, opts) })
					for name, c := range map[string]struct {
						f     func() (tensor.Tensor, error)
						shape []int
						want  []float64
					}{
						"MatVecMul": {func() (tensor.Tensor, error) { return tensor.MatVecMul(a, vec) }, []int{m}, multiply(x, v, m, k, 1)},
						"Outer":     {func() (tensor.Tensor, error) { return tensor.Outer(vec, other) }, []int{k, n}, multiply(v, w, k, 1, n)},
						"Dot":       {func() (tensor.Tensor, error) { return tensor.Dot(a, b) }, []int{m, n}, want},
						"Dot left":  {func() (tensor.Tensor, error) { return tensor.Dot(vec, b) }, []int{n}, multiply(v, y, 1, k, n)},
						"Dot right": {func() (tensor.Tensor, error) { return tensor.Dot(a, vec) }, []int{m}, multiply(x, v, m, k, 1)},
						"Inner": {func() (tensor.Tensor, error) {
							s, err := e.(tensor.InnerProder).Inner(same, vec) // the method of Dense compares sizes of memory
							if err != nil {
								return nil, err
							}
							return tensor.New(tensor.FromScalar(s)), nil
						}, []int{}, multiply(v, v, 1, k, 1)},
					} {
						got, err := c.f()
						require.NoError(t, err, "%s %s", name, what)
						assert.True(t, tensor.Shape(c.shape).Eq(got.Shape()), "%s %s: shape %v", name, what, got.Shape())
						closeTo(t, c.want, elements(t, got), dt, name+" "+what)
					}
					closeTo(t, x, elements(t, a), dt, what+": the operand stays")
				}
			}
		}
	}
}

// product is MatMul; with WithIncr, tensors of package tensor need another for the product.
func product(a, b *tensor.Dense, opts []tensor.FuncOpt) (tensor.Tensor, error) {
	if given := tensor.ParseFuncOpts(opts...); given.Incr() != nil {
		p, err := tensor.MatMul(a, b)
		if err != nil {
			return nil, err
		}
		return tensor.Add(given.Incr(), p, tensor.UseUnsafe())
	}
	return tensor.MatMul(a, b, opts...)
}

func multiply(x, y []float64, m, k, n int) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				out[i*n+j] += x[i*k+l] * y[l*n+j]
			}
		}
	}
	return out
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
