package ops_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// attrs is a node's attribute list.
type attrs = []ssa.Attr

var (
	nan  = math.NaN()
	inf  = math.Inf(1)
	zero = math.Copysign(0, -1) // minus zero
)

// array makes an array of any numeric type from numbers.
func array(dt ndarray.DType, shape []int, v ...float64) *ndarray.Array {
	a := ndarray.Must(dt, shape...)
	for i, x := range v {
		a.SetFloat(i, x)
	}
	return a
}

// vec, mat and num make float32 arrays.
func vec(v ...float64) *ndarray.Array { return array(ndarray.Float32, []int{len(v)}, v...) }

func mat(r, c int, v ...float64) *ndarray.Array { return array(ndarray.Float32, []int{r, c}, v...) }

func num(v float64) *ndarray.Array { return array(ndarray.Float32, nil, v) }

func i64(v ...float64) *ndarray.Array { return array(ndarray.Int64, []int{len(v)}, v...) }

func i64s(v float64) *ndarray.Array { return array(ndarray.Int64, nil, v) }

func bools(v ...bool) *ndarray.Array { return ndarray.Of(v, len(v)) }

func typed(dt ndarray.DType, v ...float64) *ndarray.Array { return array(dt, []int{len(v)}, v...) }

// numbers reads an array back.
func numbers(a *ndarray.Array) []float64 {
	out := make([]float64, a.Len())
	for i := range out {
		out[i] = a.Float(i)
	}
	return out
}

// evalOp runs one node. What its rule infers, from types alone and from constant
// operands, must fit what the kernel gives.
func evalOp(t *testing.T, op string, at attrs, numOut int, in ...*ndarray.Array) ([]*ndarray.Array, error) {
	t.Helper()
	var out []*ndarray.Array
	for _, constant := range []bool{false, true} {
		g := ssa.NewGraph(op)
		var args []ndarray.Value
		var operands []*ssa.Value
		for i, a := range in {
			name := fmt.Sprintf("x%d", i)
			switch {
			case a == nil:
				operands = append(operands, nil)
			case constant:
				operands = append(operands, g.AddConst(name, ssa.NewConstant(a)))
			default:
				operands = append(operands, g.AddParam(name, ssa.StaticTensor(a.DType, a.Shape...)))
				args = append(args, a)
			}
		}
		n := g.NewNode(op, operands, numOut, at...)
		g.Results = n.Out
		if err := ops.Infer(n); err != nil {
			return nil, err
		}
		res, err := ops.Interpret(context.Background(), g, args, nil)
		if err != nil {
			return nil, err
		}
		out = nil
		for i, v := range res {
			a := v.(*ndarray.Array)
			out = append(out, a)
			fits(t, op, n.Out[i], a)
		}
	}
	return out, nil
}

// fits checks a computed result against inferred facts.
func fits(t *testing.T, op string, v *ssa.Value, a *ndarray.Array) {
	t.Helper()
	real := ssa.StaticTensor(a.DType, a.Shape...)
	_, ok := v.Type.Refine(real)
	assert.Truef(t, ok, "%s gives %s, inferred %s", op, real, v.Type)
	if v.Content != nil {
		require.Lenf(t, v.Content, a.Len(), "%s: content", op)
	}
	for i, d := range v.Content {
		if k, ok := d.Const(); ok {
			assert.EqualValuesf(t, a.Float(i), k, "%s: content element %d", op, i)
		}
	}
}

// mustEval is evalOp for one result without error.
func mustEval(t *testing.T, op string, at attrs, in ...*ndarray.Array) *ndarray.Array {
	t.Helper()
	out, err := evalOp(t, op, at, 1, in...)
	require.NoError(t, err, op)
	return out[0]
}

// sameNumbers compares with NaN equal to NaN and zeros by sign.
func sameNumbers(t *testing.T, want, got []float64, tol float64, msg string) {
	t.Helper()
	require.Len(t, got, len(want), msg)
	for i, w := range want {
		g := got[i]
		switch {
		case math.IsNaN(w):
			assert.Truef(t, math.IsNaN(g), "%s: element %d is %v, want NaN", msg, i, g)
		case w == 0 && math.Signbit(w):
			assert.Truef(t, g == 0 && math.Signbit(g), "%s: element %d is %v, want -0", msg, i, g)
		case math.IsInf(w, 0) || tol == 0:
			assert.Equalf(t, w, g, "%s: element %d", msg, i)
		default:
			assert.InDeltaf(t, w, g, tol*math.Max(1, math.Abs(w)), "%s: element %d", msg, i)
		}
	}
}

func TestUnary(t *testing.T) {
	for _, c := range []struct {
		op   string
		at   attrs
		x, y []float64
	}{
		{"Abs", nil, []float64{-1, zero, -inf, nan}, []float64{1, 0, inf, nan}},
		{"Neg", nil, []float64{-1, 0, inf}, []float64{1, zero, -inf}},
		{"Sign", nil, []float64{-3, zero, 0, 5, nan}, []float64{-1, 0, 0, 1, nan}},
		{"Floor", nil, []float64{-1.5, 1.5, inf}, []float64{-2, 1, inf}},
		{"Ceil", nil, []float64{-1.5, 1.5, -0.5}, []float64{-1, 2, zero}},
		{"Round", nil, []float64{0.5, 1.5, -2.5, -0.5, nan}, []float64{0, 2, -2, zero, nan}},
		{"Sqrt", nil, []float64{4, zero, -1}, []float64{2, zero, nan}},
		{"Reciprocal", nil, []float64{4, 0, zero}, []float64{0.25, inf, -inf}},
		{"Exp", nil, []float64{0, 1000, -1000}, []float64{1, inf, 0}},
		{"Log", nil, []float64{1, 0, -1}, []float64{0, -inf, nan}},
		{"Erf", nil, []float64{0, inf, 0.5}, []float64{0, 1, 0.5204998778}},
		{"Tanh", nil, []float64{0, inf, -1000}, []float64{0, 1, -1}},
		{"Sigmoid", nil, []float64{0, 1000, -1000, nan}, []float64{0.5, 1, 0, nan}},
		{"HardSigmoid", nil, []float64{-3, 0, 3, nan}, []float64{0, 0.5, 1, nan}},
		{"HardSigmoid", attrs{ssa.FloatAttr("alpha", 1), ssa.FloatAttr("beta", 0)}, []float64{0.25}, []float64{0.25}},
		{"HardSwish", nil, []float64{-4, 0, 4}, []float64{zero, 0, 4}},
		{"Swish", attrs{ssa.FloatAttr("alpha", 2)}, []float64{0, 1}, []float64{0, 0.8807970}},
		{"Relu", nil, []float64{-1, 2, nan}, []float64{0, 2, nan}},
		{"LeakyRelu", nil, []float64{-100, 2}, []float64{-1, 2}},
		{"ThresholdedRelu", nil, []float64{1, 1.5}, []float64{0, 1.5}},
		{"Elu", attrs{ssa.FloatAttr("alpha", 2)}, []float64{-1000, 3}, []float64{-2, 3}},
		{"Selu", nil, []float64{1, -1000}, []float64{1.0507010, -1.7580993}},
		{"Celu", attrs{ssa.FloatAttr("alpha", 2)}, []float64{3, -1000}, []float64{3, -2}},
		{"Softplus", nil, []float64{1000, -1000, 0}, []float64{1000, 0, math.Ln2}},
		{"Softsign", nil, []float64{1, -3}, []float64{0.5, -0.75}},
		{"Mish", nil, []float64{0, 20}, []float64{0, 20}},
		{"Gelu", nil, []float64{0, 1, -1}, []float64{0, 0.8413447, -0.1586553}},
		{"Gelu", attrs{ssa.StringAttr("approximate", "tanh")}, []float64{1}, []float64{0.8411920}},
		{"Shrink", attrs{ssa.FloatAttr("lambd", 1), ssa.FloatAttr("bias", 0.5)}, []float64{-2, 0, 2}, []float64{-1.5, 0, 1.5}},
		{"Clip", nil, []float64{-3, 5, nan}, []float64{-3, 5, nan}},
		{"Acosh", nil, []float64{1, 0.5}, []float64{0, nan}},
		{"Atanh", nil, []float64{0, 1, 2}, []float64{0, inf, nan}},
	} {
		for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.BFloat16} {
			tol := map[ndarray.DType]float64{ndarray.Float32: 1e-6, ndarray.Float64: 1e-6, ndarray.Float16: 2e-3, ndarray.BFloat16: 2e-2}[dt]
			got := mustEval(t, c.op, c.at, typed(dt, c.x...))
			sameNumbers(t, c.y, numbers(got), tol, fmt.Sprintf("%s %s", c.op, dt))
		}
		empty := mustEval(t, c.op, c.at, array(ndarray.Float32, []int{2, 0}))
		assert.Equal(t, []int{2, 0}, empty.Shape, c.op)
		assert.Empty(t, mustEval(t, c.op, c.at, num(c.x[0])).Shape, c.op)
	}
}

func TestUnaryIntegers(t *testing.T) {
	for _, c := range []struct {
		op   string
		dt   ndarray.DType
		x, y []float64
	}{
		{"Abs", ndarray.Int8, []float64{-128, -5, 7}, []float64{-128, 5, 7}},
		{"Neg", ndarray.Int16, []float64{-32768, 3}, []float64{-32768, -3}},
		{"Abs", ndarray.Uint64, []float64{7}, []float64{7}},
		{"Sign", ndarray.Int64, []float64{-9, 0, 9}, []float64{-1, 0, 1}},
		{"Sign", ndarray.Uint8, []float64{0, 200}, []float64{0, 1}},
		{"Relu", ndarray.Int32, []float64{-9, 9}, []float64{0, 9}},
		{"BitwiseNot", ndarray.Uint8, []float64{0, 255, 1}, []float64{255, 0, 254}},
		{"BitwiseNot", ndarray.Int32, []float64{0, -1}, []float64{-1, 0}},
		{"Neg", ndarray.Int4, []float64{-8, 7}, []float64{-8, -7}},
	} {
		got := mustEval(t, c.op, nil, typed(c.dt, c.x...))
		assert.Equal(t, c.y, numbers(got), "%s %s", c.op, c.dt)
	}
}

func TestPredicates(t *testing.T) {
	x := []float64{1, nan, inf, -inf}
	for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.BFloat16} {
		a := typed(dt, x...)
		assert.Equal(t, []float64{0, 1, 0, 0}, numbers(mustEval(t, "IsNaN", nil, a)))
		assert.Equal(t, []float64{0, 0, 1, 1}, numbers(mustEval(t, "IsInf", nil, a)))
		assert.Equal(t, []float64{0, 0, 1, 0}, numbers(mustEval(t, "IsInf", attrs{ssa.IntAttr("detect_negative", 0)}, a)))
		assert.Equal(t, []float64{0, 0, 0, 1}, numbers(mustEval(t, "IsInf", attrs{ssa.IntAttr("detect_positive", 0)}, a)))
	}
	f8 := &ndarray.Array{DType: ndarray.Float8E5M2, Shape: []int{3}, Data: []byte{0x7c, 0x7f, 0xfc}}
	assert.Equal(t, []float64{1, 0, 1}, numbers(mustEval(t, "IsInf", nil, f8)))
	assert.Equal(t, []float64{0, 1, 0}, numbers(mustEval(t, "IsNaN", nil, f8)))
	assert.Equal(t, []float64{0, 1}, numbers(mustEval(t, "Not", nil, bools(true, false))))
}

// TestEndsOfRange: functions of the smallest numbers, and those whose results are the largest.
func TestEndsOfRange(t *testing.T) {
	most := math.Exp2(1023.75)
	for _, c := range []struct {
		op   string
		x, y float64
	}{
		{"Log", math.SmallestNonzeroFloat64, -1074 * math.Ln2}, {"Log", 0x1p-1030, -1030 * math.Ln2}, {"Log", 0x1p-1022, -1022 * math.Ln2},
		{"ReduceLogSum", math.SmallestNonzeroFloat64, -1074 * math.Ln2},
		{"Exp", 1023.75 * math.Ln2, most}, {"Exp", 710, inf}, {"Exp", inf, inf}, {"Exp", nan, nan},
		{"Sinh", 1024.75 * math.Ln2, most}, {"Sinh", -1024.75 * math.Ln2, -most}, {"Sinh", -711, -inf},
		{"Cosh", 1024.75 * math.Ln2, most}, {"Cosh", -1024.75 * math.Ln2, most}, {"Cosh", -711, inf},
	} {
		got := mustEval(t, c.op, nil, typed(ndarray.Float64, c.x)).Float(0)
		assert.True(t, math.Abs(got-c.y) <= 1e-12*math.Abs(c.y) || got == c.y || got != got && c.y != c.y, "%s(%g) is %g, not %g", c.op, c.x, got, c.y)
	}
}

var numericTypes = []ndarray.DType{
	ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.BFloat16, ndarray.Int8, ndarray.Int16, ndarray.Int32,
	ndarray.Int64, ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64,
}

func TestArithmeticTypes(t *testing.T) {
	for _, dt := range numericTypes {
		a, b := typed(dt, 7, 12, 9), typed(dt, 2, 3, 9)
		for op, want := range map[string][]float64{
			"Add": {9, 15, 18}, "Sub": {5, 9, 0}, "Mul": {14, 36, 81}, "Min": {2, 3, 9}, "Max": {7, 12, 9},
			"Sum": {9, 15, 18}, "Mod": {1, 0, 0},
		} {
			assert.Equal(t, want, numbers(mustEval(t, op, nil, a, b)), "%s %s", op, dt)
		}
		assert.Equal(t, []float64{3, 4, 1}, numbers(mustEval(t, "Div", nil, typed(dt, 6, 12, 9), b)), dt)
		for op, want := range map[string][]float64{
			"Equal": {0, 0, 1}, "Less": {0, 0, 0}, "Greater": {1, 1, 0}, "LessOrEqual": {0, 0, 1}, "GreaterOrEqual": {1, 1, 1},
		} {
			got := mustEval(t, op, nil, a, b)
			assert.Equal(t, ndarray.Bool, got.DType)
			assert.Equal(t, want, numbers(got), "%s %s", op, dt)
		}
	}
}

func TestArithmeticWraps(t *testing.T) {
	for _, c := range []struct {
		op    string
		dt    ndarray.DType
		a, b  float64
		want  float64
		extra attrs
	}{
		{"Add", ndarray.Int8, 127, 1, -128, nil},
		{"Add", ndarray.Uint8, 255, 1, 0, nil},
		{"Sub", ndarray.Uint16, 0, 1, 65535, nil},
		{"Mul", ndarray.Int16, 256, 256, 0, nil},
		{"Div", ndarray.Int32, -7, 2, -3, nil},
		{"Div", ndarray.Int8, -128, -1, -128, nil},
		{"Mod", ndarray.Int32, -7, 2, 1, nil},
		{"Mod", ndarray.Int32, 7, -2, -1, nil},
		{"Mod", ndarray.Int32, -7, 2, -1, attrs{ssa.IntAttr("fmod", 1)}},
		{"Mod", ndarray.Float32, -7, 2, 1, nil},
		{"Mod", ndarray.Float32, 3, -inf, -inf, nil},
		{"Mod", ndarray.Float32, 3, inf, 3, nil},
		{"Mod", ndarray.Float32, 0, -2, zero, nil},
		{"Mod", ndarray.Float32, inf, 2, nan, nil},
		{"Mod", ndarray.Float32, -7, 2, -1, attrs{ssa.IntAttr("fmod", 1)}},
		{"BitShift", ndarray.Uint8, 129, 1, 2, attrs{ssa.StringAttr("direction", "LEFT")}},
		{"BitShift", ndarray.Uint8, 129, 1, 64, attrs{ssa.StringAttr("direction", "RIGHT")}},
		{"BitShift", ndarray.Int8, -2, 1, -1, attrs{ssa.StringAttr("direction", "RIGHT")}},
		{"BitShift", ndarray.Int8, -2, 8, -1, attrs{ssa.StringAttr("direction", "RIGHT")}},
		{"BitShift", ndarray.Int8, -2, -1, -1, attrs{ssa.StringAttr("direction", "RIGHT")}},
		{"BitShift", ndarray.Int16, 5, 16, 0, attrs{ssa.StringAttr("direction", "LEFT")}},
		{"BitShift", ndarray.Int8, 64, 1, -128, attrs{ssa.StringAttr("direction", "LEFT")}},
		{"BitwiseAnd", ndarray.Int8, -1, 12, 12, nil},
		{"BitwiseXor", ndarray.Uint32, 6, 3, 5, nil},
		{"BitwiseOr", ndarray.Int64, 6, 1, 7, nil},
	} {
		got := mustEval(t, c.op, c.extra, typed(c.dt, c.a), typed(c.dt, c.b))
		sameNumbers(t, []float64{c.want}, numbers(got), 0, fmt.Sprintf("%s %s", c.op, c.dt))
	}
}

func TestDivisionByZero(t *testing.T) {
	for _, op := range []string{"Div", "Mod"} {
		_, err := evalOp(t, op, nil, 1, i64(1), i64(0))
		assert.ErrorContains(t, err, "division by zero")
		empty := mustEval(t, op, nil, array(ndarray.Int64, []int{0}), i64(0))
		assert.Zero(t, empty.Len())
	}
	sameNumbers(t, []float64{inf, -inf, nan}, numbers(mustEval(t, "Div", nil, vec(1, -1, 0), vec(0, 0, 0))), 0, "Div")
}

func TestPow(t *testing.T) {
	for _, c := range []struct {
		x, y    ndarray.DType
		a, b, w float64
	}{
		{ndarray.Float32, ndarray.Float32, 2, 0.5, math.Sqrt2},
		{ndarray.Float32, ndarray.Int64, 2, -2, 0.25},
		{ndarray.Float64, ndarray.Uint8, 3, 2, 9},
		{ndarray.Float16, ndarray.Float32, 4, 0.5, 2},
		{ndarray.Int32, ndarray.Int32, -3, 3, -27},
		{ndarray.Int64, ndarray.Int64, 3, 39, 4052555153018976267},
		{ndarray.Int32, ndarray.Float32, 9, 0.5, 3},
		{ndarray.Int32, ndarray.Int8, -1, -3, -1},
		{ndarray.Int32, ndarray.Int8, 2, -1, 0},
	} {
		got := mustEval(t, "Pow", nil, typed(c.x, c.a), typed(c.y, c.b))
		assert.Equal(t, c.x, got.DType)
		sameNumbers(t, []float64{c.w}, numbers(got), 1e-6, fmt.Sprint(c.x, c.y))
	}
}

func TestBroadcastForms(t *testing.T) {
	for _, c := range []struct{ a, b, want []int }{
		{[]int{2, 3}, []int{2, 3}, []int{2, 3}},
		{[]int{2, 3}, nil, []int{2, 3}},
		{nil, []int{2, 3}, []int{2, 3}},
		{[]int{4, 1}, []int{1, 5}, []int{4, 5}},
		{[]int{2, 3, 4, 5}, []int{3, 1, 1}, []int{2, 3, 4, 5}},
		{[]int{2, 1, 4}, []int{3, 1}, []int{2, 3, 4}},
		{[]int{0, 3}, []int{1, 3}, []int{0, 3}},
		{[]int{1}, []int{0}, []int{0}},
		{[]int{1, 1}, []int{1}, []int{1, 1}},
	} {
		a, b := ramp(c.a), ramp(c.b)
		got := mustEval(t, "Sub", nil, a, b)
		assert.Equal(t, c.want, append([]int(nil), got.Shape...))
		kit.EachBroadcast(nil, got.Shape, a.Shape, b.Shape, func(o, i, j int) {
			assert.Equal(t, a.Float(i)-b.Float(j), got.Float(o))
		})
		where := mustEval(t, "Where", nil, mustEval(t, "Greater", nil, a, b), a, b)
		kit.EachBroadcast(nil, got.Shape, a.Shape, b.Shape, func(o, i, j int) {
			assert.Equal(t, math.Max(a.Float(i), b.Float(j)), where.Float(o))
		})
		three := mustEval(t, "Sum", nil, a, b, num(1))
		kit.EachBroadcast(nil, got.Shape, a.Shape, b.Shape, func(o, i, j int) {
			assert.Equal(t, a.Float(i)+b.Float(j)+1, three.Float(o))
		})
	}
	_, err := evalOp(t, "Add", nil, 1, vec(1, 2, 3), vec(1, 2))
	assert.ErrorContains(t, err, "do not broadcast")
}

// ramp is a float32 array 1, 2, 3, ….
func ramp(shape []int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64(i%11+1))
	}
	return a
}

func TestVariadic(t *testing.T) {
	sameNumbers(t, []float64{nan, nan, 1}, numbers(mustEval(t, "Max", nil, vec(nan, 1, 1), vec(0, nan, 0))), 0, "Max")
	sameNumbers(t, []float64{nan, nan, 0}, numbers(mustEval(t, "Min", nil, vec(nan, 1, 1), vec(0, nan, 0), num(7))), 0, "Min")
	assert.Equal(t, []float64{2, 3}, numbers(mustEval(t, "Mean", nil, vec(1, 2), vec(3, 4))))
	assert.Equal(t, []float64{5}, numbers(mustEval(t, "Mean", nil, vec(5))))
	half := typed(ndarray.Float16, 2048)
	one := typed(ndarray.Float16, 1)
	assert.Equal(t, []float64{2050}, numbers(mustEval(t, "Sum", nil, half, one, one)), "rounded once")
}

func TestLogic(t *testing.T) {
	a, b := bools(true, true, false, false), bools(true, false, true, false)
	assert.Equal(t, []float64{1, 0, 0, 0}, numbers(mustEval(t, "And", nil, a, b)))
	assert.Equal(t, []float64{1, 1, 1, 0}, numbers(mustEval(t, "Or", nil, a, b)))
	assert.Equal(t, []float64{0, 1, 1, 0}, numbers(mustEval(t, "Xor", nil, a, b)))
	_, err := evalOp(t, "And", nil, 1, vec(1), vec(1))
	assert.Error(t, err)
}

func TestClip(t *testing.T) {
	for _, dt := range numericTypes {
		x := typed(dt, 1, 5, 9)
		lo, hi := array(dt, nil, 2), array(dt, nil, 6)
		assert.Equal(t, []float64{2, 5, 6}, numbers(mustEval(t, "Clip", nil, x, lo, hi)), dt)
		assert.Equal(t, []float64{2, 5, 9}, numbers(mustEval(t, "Clip", nil, x, lo)), dt)
		assert.Equal(t, []float64{1, 5, 6}, numbers(mustEval(t, "Clip", nil, x, nil, hi)), dt)
		assert.Equal(t, []float64{2, 2, 2}, numbers(mustEval(t, "Clip", nil, x, hi, lo)), "min above max, %s", dt)
	}
	sameNumbers(t, []float64{nan}, numbers(mustEval(t, "Clip", nil, vec(nan), num(0), num(1))), 0, "NaN")
}

func TestWhereTypes(t *testing.T) {
	cond := bools(true, false)
	for dt := ndarray.Float32; dt < ndarray.NumDTypes; dt++ {
		if dt == ndarray.String {
			continue
		}
		got := mustEval(t, "Where", nil, cond, typed(dt, 1, 1), typed(dt, 2))
		assert.Equal(t, []float64{1, typed(dt, 2).Float(0)}, numbers(got), dt)
	}
	x, y := ndarray.Strings([]string{"a", "b"}, 2), ndarray.Strings([]string{"c"}, 1)
	assert.Equal(t, []string{"a", "c"}, mustEval(t, "Where", nil, cond, x, y).Str)
	assert.Equal(t, []float64{0, 1}, numbers(mustEval(t, "Equal", nil, x, ndarray.Strings([]string{"b"}))))
}

// TestMathNeverPanics feeds every operator of the table odd operands: an error
// or a result may come back, never a panic.
func TestMathNeverPanics(t *testing.T) {
	odd := []*ndarray.Array{
		nil, num(1), vec(), vec(1, 2, 3), mat(2, 3, 1, 2, 3, 4, 5, 6), array(ndarray.Float32, []int{0, 0}), array(ndarray.Float32, []int{2, 0, 3}),
		i64(-1), i64s(0), i64s(math.MinInt64), i64(1, 1), bools(true, false), ndarray.Strings([]string{"x"}, 1),
		typed(ndarray.Float8E4M3FN, 1, 2), typed(ndarray.Int4, -8), typed(ndarray.Complex64, 1, 2), typed(ndarray.Float16, 3),
	}
	for _, name := range mathNames {
		o := ops.Lookup("", name)
		require.NotNil(t, o, name)
		eachOdd(o, odd, 3, func(in []*ndarray.Array) {
			for _, at := range []attrs{nil, oddAttrs} {
				callOdd(t, o, at, in)
			}
		})
	}
}

// eachOdd calls f for lists of operands, made of each two alternating: all counts that an operator takes, up to most.
func eachOdd(o *ops.Op, operands []*ndarray.Array, most int, f func(in []*ndarray.Array)) {
	if o.MaxIn >= 0 {
		most = min(most, o.MaxIn)
	}
	for _, a := range operands {
		for _, b := range operands {
			for k := o.MinIn; k <= most; k++ {
				f([]*ndarray.Array{a, b, a, b}[:k])
			}
		}
	}
}

// oddCall is a node of an operator with operands that are all present in the call, made by operand in the graph.
func oddCall(o *ops.Op, domain string, at attrs, in []*ndarray.Array, operand func(g *ssa.Graph, a *ndarray.Array) *ssa.Value) *ops.Call {
	g := ssa.NewGraph(o.Name)
	c := &ops.Call{Threads: 1}
	var operands []*ssa.Value
	for _, a := range in {
		if a == nil {
			operands, c.In = append(operands, nil), append(c.In, nil)
			continue
		}
		operands, c.In = append(operands, operand(g, a)), append(c.In, a)
	}
	c.Node = g.NewNode(o.Name, operands, max(o.MinOut, 1), at...)
	c.Node.Domain = domain
	return c
}

var oddAttrs = attrs{
	ssa.IntAttr("axis", 5), ssa.IntAttr("to", 16), ssa.StringAttr("equation", "ij,j->i"), ssa.StringAttr("direction", "LEFT"),
	ssa.IntsAttr("shape", 2, 3), ssa.IntAttr("k", math.MinInt64), ssa.IntAttr("dtype", 7), ssa.IntAttr("keepdims", 0),
	ssa.IntAttr("sample_size", 3), ssa.IntAttr("output_datatype", 6),
}

func callOdd(t *testing.T, o *ops.Op, at attrs, in []*ndarray.Array) {
	t.Helper()
	c := oddCall(o, "", at, in, func(g *ssa.Graph, a *ndarray.Array) *ssa.Value {
		return g.AddParam("x", ssa.StaticTensor(a.DType, a.Shape...))
	})
	_ = ops.Infer(c.Node)
	err := ops.Eval(c)
	var p *ops.PanicError
	if errors.As(err, &p) {
		assert.Failf(t, "panic", "%s of %v: %v\n%s", o.Name, in, p.Value, p.Stack)
	}
}

// mathNames are the operators of this family.
var mathNames = []string{
	"Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "Bernoulli",
	"BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "BlackmanWindow", "Cast",
	"CastLike", "Ceil", "Celu", "Clip", "Cos", "Cosh", "CumProd", "CumSum", "Det", "Div", "Einsum", "Elu",
	"Equal", "Erf", "Exp", "EyeLike", "Floor", "Gelu", "Gemm", "Greater", "GreaterOrEqual", "HammingWindow",
	"HannWindow", "HardSigmoid", "HardSwish", "Hardmax", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual",
	"Log", "LogSoftmax", "MatMul", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Multinomial", "Neg", "Not",
	"Or", "PRelu", "Pow", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range",
	"Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
	"ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Round", "Selu", "Shrink", "Sigmoid",
	"Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh",
	"ThresholdedRelu", "TopK", "Trilu", "Where", "Xor",
}

// TestClipInfinities: an absent limit is the least or largest number of the type,
// by the operator's text.
func TestClipInfinities(t *testing.T) {
	for dt, most := range map[ndarray.DType]float64{
		ndarray.Float16: 65504, ndarray.BFloat16: math.Ldexp(255, 120), ndarray.Float32: math.MaxFloat32, ndarray.Float64: math.MaxFloat64,
	} {
		x := typed(dt, inf, -inf, 1)
		assert.Equal(t, []float64{most, -most, 1}, numbers(mustEval(t, "Clip", nil, x)), dt)
		assert.Equal(t, []float64{most, 0, 1}, numbers(mustEval(t, "Clip", nil, x, array(dt, nil, 0))), dt)
		assert.Equal(t, []float64{inf, 0, 1}, numbers(mustEval(t, "Clip", nil, x, array(dt, nil, 0), array(dt, nil, inf))), dt)
	}
}
