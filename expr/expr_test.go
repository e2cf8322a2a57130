package expr_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// filled is a tensor of numbers from 0 on, divided.
func filled(t testing.TB, divisor float32, shape ...int) *expr.Tensor[float32] {
	x, err := expr.New[float32](shape...)
	require.NoError(t, err)
	for i := range x.Data() {
		x.Data()[i] = float32(i) / divisor
	}
	return x
}

func num(v float64) expr.Value[float32] { return expr.Num[float32](v) }

// TestKernels: how many kernels assignments are, and what memory they need beside their tensors.
func TestKernels(t *testing.T) {
	a, b, c, row := filled(t, 100, 40, 30), filled(t, 7, 40, 30), filled(t, 9, 30, 20), filled(t, 3, 20)
	flat, long := filled(t, 100, 1200), filled(t, 1000, 100_000)
	out := func(shape ...int) *expr.Tensor[float32] { return filled(t, 1, shape...) }
	tiled := machine.Active() == machine.LevelGeneric // chains keep intermediate values in tiles there, in vector registers elsewhere
	for _, x := range []struct {
		name    string
		what    expr.Assignment
		kernels []string
		arena   bool // memory for intermediate values is needed
	}{
		{"sigmoid written out", expr.Into(out(40, 30), num(1).(expr.Expr[float32]).Div(expr.Exp(a).Add(num(1)))), []string{"Exp Add Reciprocal"}, false},
		{"the sum of a sum", expr.Into(out(), expr.ReduceSum(a.Add(b), false)), []string{"Add ReduceSum"}, true},
		{"windows on both sides", expr.Into(flat.Slice(expr.Span(0, 500)), flat.Slice(expr.Span(600, 1100)).Mul(num(2)).Add(b.Reshape(1200).Slice(expr.Span(5, 505)))), []string{"Mul Add"}, tiled},
		{"columns", expr.Into(a.Slice(expr.All, expr.Span(0, 10)), expr.Exp(b.Slice(expr.All, expr.Span(5, 15)))), []string{"Exp"}, true},
		{"a product of a sum", expr.Into(out(40, 20), expr.Dot(a.Add(b), c)), []string{"Add", "MatMul"}, true},
		{"a product, a row and an activation", expr.Into(out(40, 20), expr.Relu(expr.Dot[float32](a, c).Add(row))), []string{"Gemm Relu"}, true},
		{"a product and an activation", expr.Into(out(40, 20), expr.Sigmoid(expr.Dot[float32](a, c))), []string{"MatMul Sigmoid"}, true},
		{"a product of a transposed matrix", expr.Into(out(30, 30), expr.Dot[float32](a.Transpose(), b)), []string{"Gemm"}, true},
		{"a product of a transposed view", expr.Into(out(30, 30), expr.Dot(expr.Transpose[float32](a), b)), []string{"Gemm"}, true},
		{"in place", expr.Into(long, long.Add(num(1))), []string{"Add"}, false},
		{"in place, read three times", expr.Into(long, expr.Tanh(long).Mul(long).Add(long)), []string{"Tanh Mul Add"}, true},
		{"a window in place", expr.Into(a.Slice(expr.Span(3, 9)), expr.Neg(a.Slice(expr.Span(3, 9)))), []string{"Neg"}, false},
		{"windows that overlap", expr.Into(flat.Slice(expr.Span(0, 500)), flat.Slice(expr.Span(1, 501)).Add(num(1))), []string{"Add", "Copy"}, true},
		{"a softmax of rows", expr.Into(out(40, 30), expr.Softmax(a.Mul(num(2)), -1)), []string{"Mul Softmax"}, false},
		{"a softmax written out", expr.Into(out(40, 30), softmax(a)), []string{"Softmax"}, false},
		{"a view of a function", expr.Into(out(30, 40), expr.Exp(a).Transpose()), []string{"Exp"}, true},
		{"a copy", expr.Into(out(40, 30), a), []string{"Copy"}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			p, err := expr.NewEngine(expr.Options{Threads: 1}).Prepare(t.Context(), x.what)
			require.NoError(t, err)
			assert.Equal(t, x.kernels, p.Kernels())
			assert.Equal(t, x.arena, p.ArenaBytes() > 0, "%d bytes", p.ArenaBytes())
		})
	}
}

func softmax(x *expr.Tensor[float32]) expr.Expr[float32] {
	e := expr.Exp(x.Sub(expr.ReduceMax(x, true, -1)))
	return e.Div(expr.ReduceSum(e, true, -1))
}

// TestInPlace counts up in place.
func TestInPlace(t *testing.T) {
	x := filled(t, 1, 100)
	next := x.Add(num(1))
	for range 5 {
		require.NoError(t, expr.Assign(t.Context(), x, next))
	}
	assert.Equal(t, float32(5), x.Data()[0])
	assert.Equal(t, float32(104), x.Data()[99])
}

// TestOverlap moves windows over themselves in both directions, on two threads.
func TestOverlap(t *testing.T) {
	const n = 300_000
	for _, by := range []int{-1, 1, 70_000, -70_000} {
		x := filled(t, 1, n)
		from, to := max(0, -by), max(0, by)
		count := n - max(by, -by)
		e := expr.NewEngine(expr.Options{Threads: 2})
		require.NoError(t, e.Assign(t.Context(), expr.Into(x.Slice(expr.Span(to, to+count)), x.Slice(expr.Span(from, from+count)).Mul(num(2)))))
		for i := range count {
			require.Equal(t, float32(2*(from+i)), x.Data()[to+i], "moved by %d", by)
		}
	}
}

// TestStructures: an engine tells expressions apart that differ in how their operands are divided among operators, 114 being
// the number 57 and the mark of a source that was there before.
func TestStructures(t *testing.T) {
	x := filled(t, 1, 4)
	nodes := []expr.Value[float32]{x, expr.Exp(x)}
	for len(nodes) < 61 {
		nodes = append(nodes, expr.Abs(nodes[len(nodes)-1]))
	}
	last := nodes[60]
	one, three := func() expr.Expr[float32] { return expr.Sum(last) }, func() expr.Expr[float32] { return expr.Sum[float32](last, nodes[57], x) }
	e := expr.NewEngine(expr.Options{})
	for i, of := range []expr.Expr[float32]{expr.Concat[float32](0, last, one(), x.Reshape(4), three()), expr.Concat[float32](0, last, three(), one(), x.Reshape(4))} {
		got, want := filled(t, 1, 16), filled(t, 1, 16)
		require.NoError(t, e.Assign(t.Context(), expr.Into(got, of)))
		require.NoError(t, expr.NewEngine(expr.Options{}).Assign(t.Context(), expr.Into(want, of)))
		assert.Equal(t, want.Data(), got.Data(), "expression %d", i)
	}
	assert.Equal(t, 2, e.Plans())
}

// TestDepth: an expression of more nodes one upon the other than walks over it can follow is an error, whatever reads it.
func TestDepth(t *testing.T) {
	x := filled(t, 1, 4)
	for name, next := range map[string]func(e expr.Expr[float32]) expr.Expr[float32]{
		"elementwise": func(e expr.Expr[float32]) expr.Expr[float32] { return expr.Neg(e) },
		"general":     func(e expr.Expr[float32]) expr.Expr[float32] { return expr.CumSum(e, 0) },
		"views":       func(e expr.Expr[float32]) expr.Expr[float32] { return expr.Slice(e, expr.All) },
	} {
		e := expr.Neg(x)
		for range 300_000 {
			e = next(e)
		}
		assert.ErrorContains(t, e.Err(), "more than 100000 operators deep", name)
		assert.ErrorContains(t, expr.Assign(t.Context(), x, e), "assign a part of it to a tensor", name)
	}
}

// TestBatch runs assignments that read what others write.
func TestBatch(t *testing.T) {
	x, y, z := filled(t, 1, 64), filled(t, 1, 64), filled(t, 1, 64)
	list := []expr.Assignment{
		expr.Into(y, x.Add(num(1))),
		expr.Into(z, y.Mul(x)), // reads the new y
		expr.Into(x, z.Sub(y)),
	}
	p, err := expr.Prepare(t.Context(), list...)
	require.NoError(t, err)
	assert.Len(t, p.Kernels(), 1, "%v", p.Kernels())
	require.NoError(t, p.Execute(t.Context()))
	for i := range 64 {
		v := float32(i)
		assert.Equal(t, []float32{v*v - 1, v + 1, v * (v + 1)}, []float32{x.Data()[i], y.Data()[i], z.Data()[i]})
	}
	assert.Zero(t, testing.AllocsPerRun(20, func() { _ = p.Execute(context.Background()) }))
}

// TestSecondTime: nothing is allocated for the same expression, nothing compiled for one of the same structure.
func TestSecondTime(t *testing.T) {
	e := expr.NewEngine(expr.Options{Threads: 2})
	x, y := filled(t, 1, 1000), filled(t, 1, 1000)
	list := []expr.Assignment{expr.Into(y, expr.Exp(x.Mul(num(0.001))).Add(y))}
	require.NoError(t, e.Assign(t.Context(), list...))
	ctx := context.Background()
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = e.Assign(ctx, list...) }))
	for i := range 10 {
		u, v := filled(t, 1, 3000), filled(t, 1, 1000)
		w := u.Slice(expr.Span(i, i+1000))
		require.NoError(t, e.Assign(ctx, expr.Into(v, expr.Exp(w.Mul(num(0.001))).Add(v))))
		assert.InDelta(t, math.Exp(float64(i+500)*0.001)+500, v.Data()[500], 1e-4)
	}
	assert.Equal(t, 1, e.Plans())
}

// TestMapOfGo maps Go functions inside of kernels.
func TestMapOfGo(t *testing.T) {
	clamp, err := expr.NewFunc("clamp to a tenth", func(v float32) float32 { return min(max(v, -0.1), 0.1) })
	require.NoError(t, err)
	count, err := expr.NewFunc("round up", func(v float32) int32 { return int32(math.Ceil(float64(v))) })
	require.NoError(t, err)
	_, err = expr.NewFunc("round up", func(v float32) int32 { return 0 })
	require.Error(t, err)
	x, y, n := filled(t, 10_000, 100, 200), filled(t, 1, 100, 200), mustNew[int32](t, 200, 100)
	p, err := expr.Prepare(t.Context(), expr.Into(y, expr.Map(clamp, expr.Neg(x)).Add(num(1))), expr.Into(n, expr.Transpose(expr.Map(count, x))))
	require.NoError(t, err)
	assert.Equal(t, []string{"Neg Call Add", "Call"}, p.Kernels())
	require.NoError(t, p.Execute(t.Context()))
	for i := range 100 {
		for j := range 200 {
			v := x.Data()[i*200+j]
			require.Equal(t, min(max(-v, -0.1), 0.1)+1, y.Data()[i*200+j])
			require.Equal(t, int32(math.Ceil(float64(v))), n.Data()[j*100+i])
		}
	}
}

// TestMapOfGoEnds: a panic in a function is told as one of the function, and a function that takes long is not called for many
// elements once the context has ended.
func TestMapOfGoEnds(t *testing.T) {
	boom, err := expr.NewFunc("that panics", func(v float32) float32 { panic("boom") })
	require.NoError(t, err)
	var calls atomic.Int64
	var ctx context.Context
	var cancel context.CancelFunc
	endless, err := expr.NewFunc("that takes long", func(v float32) float32 {
		if calls.Add(1) == 500 {
			cancel()
		}
		return v
	})
	require.NoError(t, err)
	x := filled(t, 1, 100_000)
	for _, threads := range []int{1, 4} {
		e := expr.NewEngine(expr.Options{Threads: threads})
		var of *berth.PanicError
		require.ErrorAs(t, e.Assign(t.Context(), expr.Into(x, expr.Map(boom, x))), &of)
		assert.Equal(t, `the function "that panics"`, of.Of)
		calls.Store(0)
		ctx, cancel = context.WithCancel(t.Context())
		assert.ErrorIs(t, e.Assign(ctx, expr.Into(x, expr.Neg(expr.Map(endless, x)))), context.Canceled)
		assert.LessOrEqual(t, calls.Load(), int64(500+64*threads))
		cancel()
	}
}

// TestFirstParts: operators that ask for memory read the first part of an expression, in any order of its dimensions, not all of it.
func TestFirstParts(t *testing.T) {
	x, last := filled(t, 1, 3, 4), mustNew[int64](t, 1)
	last.Data()[0] = -1
	rows := expr.Slice(expr.Neg(x), expr.Span(0, 2))
	for _, c := range []struct {
		name string
		of   expr.Expr[float32]
		rows int
		want []float32
	}{
		{"the last of the first rows", expr.Gather(rows, last, 0), 1, []float32{-4, -5, -6, -7}},
		{"first rows turned", expr.Gather(rows.Transpose(), last, 1), 4, []float32{-4, -5, -6, -7}},
		{"a part of a turned view", expr.Gather(expr.Slice(expr.Neg(x).Transpose(), expr.Span(0, 2)), last, 0), 1, []float32{-1, -5, -9}},
		{"a sum of columns", expr.Dot(expr.Slice(expr.Neg(x), expr.All, expr.Span(0, 1)).Transpose(), filled(t, 1, 3, 2)), 1, []float32{-40, -52}},
	} {
		got := filled(t, 1, c.rows, len(c.want)/c.rows)
		require.NoError(t, expr.Assign(t.Context(), got, c.of), c.name)
		assert.Equal(t, c.want, got.Data(), c.name)
	}
}

func mustNew[T expr.Elem](t testing.TB, shape ...int) *expr.Tensor[T] {
	x, err := expr.New[T](shape...)
	require.NoError(t, err)
	return x
}

// TestRegister makes a composition an operator.
func TestRegister(t *testing.T) {
	require.NoError(t, expr.Register("SquaredDistance", func(x ...expr.Expr[float32]) expr.Expr[float32] {
		d := x[0].Sub(x[1])
		return d.Mul(d)
	}))
	require.Error(t, expr.Register("SquaredDistance", func(x ...expr.Expr[float32]) expr.Expr[float32] { return x[0] }))
	require.Error(t, expr.Register("Add", func(x ...expr.Expr[float32]) expr.Expr[float32] { return x[0] }))
	x, y, out := filled(t, 1, 8), filled(t, 2, 8), filled(t, 1, 8)
	require.NoError(t, expr.Assign(t.Context(), out, expr.Apply[float32]("SquaredDistance", x, y)))
	assert.Equal(t, float32(12.25), out.Data()[7])
	require.Error(t, expr.Assign(t.Context(), out, expr.Apply[float32]("SquaredDistance", x)), "an operand is missing")
}

// TestHalf computes in a half type.
func TestHalf(t *testing.T) {
	x, y := mustNew[berth.Float16](t, 10), mustNew[berth.Float16](t, 10)
	wide := filled(t, 4, 10)
	require.NoError(t, expr.Assign(t.Context(), x, expr.Cast[berth.Float16](wide)))
	require.NoError(t, expr.Assign(t.Context(), y, x.Mul(expr.Num[berth.Float16](0.5))))
	require.NoError(t, expr.Assign(t.Context(), wide, expr.Cast[float32](y)))
	assert.Equal(t, float32(9)/8, wide.Data()[9])
}

// TestErrors has assignments that are refused, by the type of the error.
func TestErrors(t *testing.T) {
	x, y, small := filled(t, 1, 3, 4), filled(t, 1, 3, 4), filled(t, 1, 3)
	ints, flags := mustNew[int32](t, 3, 4), mustNew[bool](t, 3, 4)
	for _, c := range []struct {
		name string
		what expr.Assignment
		want any
	}{
		{"shapes that do not broadcast", expr.Into(x, x.Add(small)), new(*expr.ShapeError)},
		{"an expression of another shape", expr.Into(small, x), new(*expr.ShapeError)},
		{"a slice with too many ranges", expr.Into(small, small.Slice(expr.All, expr.All)), new(*expr.ShapeError)},
		{"an index outside", expr.Into(small, expr.Pick[float32](x, 1, 4)), new(*expr.ShapeError)},
		{"axes that are none", expr.Into(x, expr.Transpose[float32](x, 0, 0)), new(*expr.ShapeError)},
		{"a reshape to another size", expr.Into(x.Reshape(5), x.Reshape(5)), new(*expr.ShapeError)},
		{"a product of other shapes", expr.Into(x, expr.MatMul[float32](x, y)), new(*expr.TypeError)},
		{"integers where floats are needed", expr.Into(ints, expr.Exp[int32](ints)), new(*expr.TypeError)},
		{"booleans that are added", expr.Into(flags, expr.Add[bool](flags, flags)), new(*expr.TypeError)},
		{"an operator that is none", expr.Into(x, expr.Apply[float32]("Frobnicate", x)), new(*expr.TypeError)},
		{"a destination that is repeated", expr.Into(mustBroadcast(t, small), x), new(*expr.AliasError)},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := expr.Batch(t.Context(), c.what)
			require.ErrorAs(t, err, c.want)
			t.Log(err)
		})
	}
	require.Error(t, expr.Assign[float32](t.Context(), nil, x))
	require.Error(t, expr.Assign[float32](t.Context(), x, nil))
	require.Error(t, expr.Assign[float32](t.Context(), x, expr.Expr[float32]{}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, expr.Assign(ended, x, expr.Exp(y)), context.Canceled)
}

// mustBroadcast is a window in which an element stands for several.
func mustBroadcast(t *testing.T, x *expr.Tensor[float32]) *expr.Tensor[float32] {
	w := x.Reshape(3, 1).Broadcast(3, 4)
	require.NoError(t, w.Err())
	return w
}

// TestGatherOutside: an index that does not exist is an error of the run.
func TestGatherOutside(t *testing.T) {
	x, out := filled(t, 1, 4, 2), filled(t, 1, 3, 2)
	at, err := expr.Of([]int64{0, -1, 4}, 3)
	require.NoError(t, err)
	err = expr.Assign(t.Context(), out, expr.Gather[float32](x, at, 0))
	require.Error(t, err)
	at.Data()[2] = 2
	require.NoError(t, expr.Assign(t.Context(), out, expr.Gather[float32](x, at, 0)))
	assert.Equal(t, []float32{0, 1, 6, 7, 4, 5}, out.Data())
	assert.False(t, errors.Is(err, context.Canceled))
}

// TestEpilogues: what follows a product in its kernel is what follows it in kernels of their own, also where the destination is an
// operand, or is added.
func TestEpilogues(t *testing.T) {
	for _, size := range []int{3, 20, 64} {
		a, b, row := filled(t, 100, size, size), filled(t, 300, size, size), filled(t, 9, size)
		want := make([]float32, size*size)
		for i := range size {
			for j := range size {
				sum := float64(row.Data()[j])
				for k := range size {
					sum += float64(a.Data()[i*size+k]) * float64(b.Data()[k*size+j])
				}
				want[i*size+j] = float32(1 / (1 + math.Exp(-sum/float64(size*size))))
			}
		}
		scale := expr.Num[float32](1 / float64(size*size))
		same := func(name string, got *expr.Tensor[float32], added func(i int) float32) {
			for i, w := range want {
				require.InDelta(t, float64(w+added(i)), float64(got.Data()[i]), 1e-5, "%s, size %d, element %d", name, size, i)
			}
		}
		e := func(x expr.Value[float32]) expr.Expr[float32] {
			return expr.Sigmoid(expr.Dot(x, expr.Value[float32](b)).Add(row).Mul(scale))
		}
		y, nothing := filled(t, 1, size, size), func(int) float32 { return 0 }
		require.NoError(t, expr.Assign(t.Context(), y, e(a)))
		same("apart", y, nothing)
		old := slices.Clone(a.Data())
		require.NoError(t, expr.Assign(t.Context(), a, e(a)))
		same("over an operand", a, nothing)
		copy(a.Data(), old)
		copy(y.Data(), old)
		require.NoError(t, expr.Assign(t.Context(), y, e(a).Add(y)))
		same("added to itself", y, func(i int) float32 { return old[i] })
	}
}

// TestZeroEngine: an engine that was not made by NewEngine is refused, and no engine is that of Assign.
func TestZeroEngine(t *testing.T) {
	x, err := expr.New[float32](3)
	require.NoError(t, err)
	assert.ErrorContains(t, new(expr.Engine).Assign(t.Context(), expr.Into(x, x.Add(x))), "NewEngine")
	_, err = new(expr.Engine).Prepare(t.Context(), expr.Into(x, x.Add(x)))
	assert.ErrorContains(t, err, "NewEngine")
	assert.NoError(t, (*expr.Engine)(nil).Assign(t.Context(), expr.Into(x, x.Add(x))))
}

// TestNamedErrors: what expressions are refused for, by name.
func TestNamedErrors(t *testing.T) {
	require.NoError(t, expr.Register("endless", func(x ...expr.Expr[float32]) expr.Expr[float32] {
		return expr.Apply[float32]("endless", x[0]).Add(expr.Apply[float32]("endless", x[0]))
	}))
	require.NoError(t, expr.Register("halves", func(x ...expr.Expr[float32]) expr.Expr[float32] {
		if len(x) == 1 {
			return x[0]
		}
		var low, high []expr.Value[float32]
		for i, v := range x {
			if i < len(x)/2 {
				low = append(low, v)
			} else {
				high = append(high, v)
			}
		}
		return expr.Apply("halves", low...).Add(expr.Apply("halves", high...))
	}))
	require.NoError(t, expr.Register("first", func(x ...expr.Expr[float32]) expr.Expr[float32] { return x[0] }))
	require.NoError(t, expr.Register("of two types", func(x ...expr.Expr[float64]) expr.Expr[float64] { return x[0] }))
	require.NoError(t, expr.Register("of two types", func(x ...expr.Expr[int8]) expr.Expr[int8] { return x[0] }))
	one := num(1)
	require.ErrorContains(t, expr.Apply[float32]("halves").Err(), "without end")
	require.NoError(t, expr.Apply("halves", one, one, one, one, one).Err())
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"applies itself", expr.Apply[float32]("endless", one).Err(), "endless: it applies itself without end"},
		{"panics", expr.Apply[float32]("first").Err(), `the function that builds "first" panicked`},
		{"registered for another type", expr.Apply("halves", expr.Num[int32](1)).Err(), "halves: it is registered for float32, not for int32"},
		{"registered for other types", expr.Apply("of two types", one).Err(), "of two types: it is registered for float64, int8, not for float32"},
		{"no integer", expr.Num[int32](0.5).Err(), "Num: 0.5 is no number of int32"},
		{"not of the type", expr.Num[uint8](300).Err(), "Num: 300 is no number of uint8"},
		{"NaN of integers", expr.Num[int64](math.NaN()).Err(), "Num: NaN is no number of int64"},
		{"of integers", expr.Num[int64](-1 << 62).Err(), ""},
		{"rounded", expr.Num[berth.Float16](0.1).Err(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				require.NoError(t, tt.err)
				return
			}
			require.ErrorContains(t, tt.err, tt.want)
		})
	}
}
