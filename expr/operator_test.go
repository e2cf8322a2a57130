package expr_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/expr"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// entropy is the mean of -Σ y·log softmax(z) over rows, and softmax(z), whose derivative by z is (p - y)/rows.
func entropy(x *expr.Executor) {
	z, y := expr.Operand[float32](x, 0), expr.Operand[float32](x, 1)
	top := z.Sub(expr.ReduceMax(z, true, 1))
	n := top.Sub(expr.Log(expr.ReduceSum(expr.Exp(top), true, 1)))
	expr.Yield(x, 0, expr.ReduceMean(expr.ReduceSum(y.Mul(n), false, 1), false).Neg())
	expr.Yield(x, 1, expr.Exp(n))
}

func entropySlope(x *expr.Executor) {
	p, y := expr.Yielded[float32](x, 1), expr.Operand[float32](x, 1)
	rows := expr.Num[float32](float64(p.Shape()[0]))
	expr.YieldSlope(x, 0, p.Sub(y).Mul(expr.Slope[float32](x, 0)).Div(rows))
}

const own = "test.operators"

// kept notes the error of a definition, for TestDefine.
var kept = []error{
	expr.Define(expr.Operator{Domain: own, Name: "Entropy", Inputs: 2, Outputs: 2, Forward: entropy, Backward: entropySlope}),
	expr.Define(expr.Operator{Domain: own, Name: "PlainEntropy", Inputs: 2, Outputs: 2, Forward: entropy}),
	expr.Define(expr.Operator{Domain: own, Name: "Scaled", Inputs: 1, Outputs: 1, Attrs: []*ops.AttrSpec{ops.FloatAttr("by", 2)}, Forward: func(x *expr.Executor) {
		expr.Yield(x, 0, expr.Operand[float32](x, 0).Mul(expr.Num[float32](float64(ops.Float(x.Node(), "by")))))
	}}),
	expr.Define(expr.Operator{Domain: own, Name: "Cubed", Inputs: 1, Outputs: 1, Forward: func(x *expr.Executor) {
		v := expr.Operand[float32](x, 0)
		expr.Yield(x, 0, v.Mul(v).Mul(v))
	}, Backward: func(x *expr.Executor) {
		v := expr.Operand[float32](x, 0)
		expr.YieldSlope(x, 0, expr.Slope[float32](x, 0).Mul(v).Mul(v).Mul(expr.Num[float32](3)))
	}}),
	expr.Define(expr.Operator{Domain: own, Name: "Grown", Inputs: 1, Outputs: 1, Forward: func(x *expr.Executor) { expr.Yield(x, 0, expr.Exp(expr.Operand[float32](x, 0))) }, Backward: func(x *expr.Executor) {
		expr.YieldSlope(x, 0, expr.Slope[float32](x, 0).Mul(expr.Yielded[float32](x, 0)))
	}}),
	expr.Define(expr.Operator{Domain: own, Name: "Unfinished", Inputs: 1, Outputs: 2, Forward: func(x *expr.Executor) { expr.Yield(x, 0, expr.Operand[float32](x, 0)) }}),
	expr.Define(expr.Operator{Domain: own, Name: "WrongType", Inputs: 1, Outputs: 1, Forward: func(x *expr.Executor) { expr.Yield(x, 0, expr.Operand[int64](x, 0)) }}),
	expr.Define(expr.Operator{Domain: own, Name: "NoSlope", Inputs: 1, Outputs: 1, Forward: func(x *expr.Executor) { expr.Yield(x, 0, expr.Operand[float32](x, 0)) }, Backward: func(*expr.Executor) {}}),
	expr.Define(expr.Operator{Domain: own, Name: "Deaf", Inputs: 1, Outputs: 1, Forward: func(x *expr.Executor) { expr.Yield(x, 0, expr.Operand[float32](x, 0)) }, Backward: func(x *expr.Executor) {
		expr.YieldSlope(x, 0, expr.Num[float32](1))
	}}),
	expr.Define(expr.Operator{Domain: own, Name: "Panics", Inputs: 1, Outputs: 1, Forward: func(*expr.Executor) { panic("not today") }}),
}

// ownGraph is a graph in text form.
func ownGraph(t *testing.T, text string) *ssa.Graph {
	g, err := ssa.ParseGraph(`graph "g" {` + text + `}`)
	require.NoError(t, err)
	return g
}

const entropyText = `in %x: float32[3,4] in %w: float32[4,5] in %y: float32[3,5] %z = MatMul(%x, %w) %loss, %p = test.operators::Entropy(%z, %y) out %loss, %p`

func entropyInputs() map[string]ndarray.Value {
	x, w, y := ndarray.Must(ndarray.Float32, 3, 4), ndarray.Must(ndarray.Float32, 4, 5), ndarray.Must(ndarray.Float32, 3, 5)
	for i := range x.Len() {
		x.SetFloat(i, math.Sin(float64(i)))
	}
	for i := range w.Len() {
		w.SetFloat(i, math.Cos(float64(2*i)))
	}
	for i := range 3 {
		y.SetFloat(i*5+2*i, 1)
	}
	return map[string]ndarray.Value{"x": x, "w": w, "y": y}
}

// TestDefine: an operator of the program runs in a model, by its reference kernel and fused with other nodes, also after it was written
// to a file and read, and with shapes that the file leaves open.
func TestDefine(t *testing.T) {
	for _, err := range kept {
		require.NoError(t, err)
	}
	assert.ErrorContains(t, expr.Define(expr.Operator{Domain: own, Name: "Entropy", Inputs: 2, Outputs: 2, Forward: entropy}), "already")
	assert.ErrorContains(t, expr.Define(expr.Operator{Domain: own, Name: "Empty"}), "Forward")
	in := entropyInputs()
	for _, text := range []string{entropyText, `in %x: float32[N,4] in %w: float32[4,5] in %y: float32[N,5] %z = MatMul(%x, %w) %loss, %p = test.operators::Entropy(%z, %y) out %loss, %p`} {
		g := ownGraph(t, text)
		require.NoError(t, ops.InferGraph(g))
		m := berth.FromModule(&ssa.Module{Graph: g})
		file := filepath.Join(t.TempDir(), "own.onnx")
		require.NoError(t, m.Save(file, berth.SaveOptions{}))
		read, err := berth.Open(file)
		require.NoError(t, err)
		defer read.Close()
		want, err := ops.Interpret(t.Context(), g, []ndarray.Value{in["x"], in["w"], in["y"]}, nil)
		require.NoError(t, err)
		for _, m := range []*berth.Model{m, read} {
			p, err := m.Compile(t.Context(), berth.WithShape("x", 3, 4), berth.WithShape("y", 3, 5))
			require.NoError(t, err)
			assert.Zero(t, p.Plan().ReferenceOps)
			out, err := p.RunValues(t.Context(), in)
			require.NoError(t, err)
			for i, name := range []string{"loss", "p"} {
				got, want := out[name].(*ndarray.Array), want[i].(*ndarray.Array)
				require.Equal(t, want.Len(), got.Len())
				for k := range want.Len() {
					assert.InDelta(t, want.Float(k), got.Float(k), 1e-6)
				}
			}
			open, err := m.RunValues(t.Context(), in)
			require.NoError(t, err)
			assert.InDelta(t, want[0].(*ndarray.Array).Float(0), open["loss"].(*ndarray.Array).Float(0), 1e-6)
		}
	}
}

// slopes are the derivatives of the first result by w, computed by the reference kernels.
func slopes(t *testing.T, text string) []float32 {
	g := ownGraph(t, text)
	require.NoError(t, ops.InferGraph(g))
	d, err := gradient.Of(t.Context(), g, g.Results[0], g.Params[1])
	require.NoError(t, err)
	g.Results = d
	in := entropyInputs()
	out, err := ops.Interpret(t.Context(), g, []ndarray.Value{in["x"], in["w"], in["y"]}, nil)
	require.NoError(t, err)
	return out[0].(*ndarray.Array).Floats32()
}

// TestBackward: the derivative p - y is that of the formula, which is that of softmax and logarithm of ONNX.
func TestBackward(t *testing.T) {
	want := slopes(t, `in %x: float32[3,4] in %w: float32[4,5] in %y: float32[3,5] const %axis: int64[1] = [1] %z = MatMul(%x, %w) %l = LogSoftmax(%z) [axis=1] %q = Mul(%l, %y)
		%s = ReduceSum(%q, %axis) [keepdims=0] %m = ReduceMean(%s) [keepdims=0] %loss = Neg(%m) out %loss`)
	for name, text := range map[string]string{
		"by hand":     entropyText,
		"by formula":  `in %x: float32[3,4] in %w: float32[4,5] in %y: float32[3,5] %z = MatMul(%x, %w) %loss, %p = test.operators::PlainEntropy(%z, %y) out %loss`,
		"by chain":    `in %x: float32[3,4] in %w: float32[4,5] in %y: float32[3,5] %z = MatMul(%x, %w) %l, %p = test.operators::Entropy(%z, %y) %k = test.operators::Scaled(%l) [by=4.0] %loss = test.operators::Scaled(%k) [by=0.25] out %loss`,
		"by defaults": `in %x: float32[3,4] in %w: float32[4,5] in %y: float32[3,5] const %h: float32[] = 0.5 %z = MatMul(%x, %w) %l, %p = test.operators::Entropy(%z, %y) %k = test.operators::Scaled(%l) %loss = Mul(%k, %h) out %loss`,
	} {
		got := slopes(t, text)
		require.Len(t, got, len(want), name)
		for i := range want {
			assert.InDelta(t, want[i], got[i], 1e-6, "%s, %d", name, i)
		}
	}
}

// TestTwice: operators of the program are differentiated again, by what Forward and Backward are written with; one whose Backward does
// not tell what a result that it reads depends on is refused by name.
func TestTwice(t *testing.T) {
	for name, want := range map[string]func(x float64) (first, second, third float64){
		"Cubed":  func(x float64) (float64, float64, float64) { return 3 * x * x, 6 * x, 6 },
		"Grown":  func(x float64) (float64, float64, float64) { return math.Exp(x), math.Exp(x), math.Exp(x) },
		"Scaled": func(x float64) (float64, float64, float64) { return 2, 0, 0 },
	} {
		g := ownGraph(t, `in %x: float32[4] %y = test.operators::`+name+`(%x) out %y`)
		require.NoError(t, ops.InferGraph(g))
		y, found := g.Results[0], []*ssa.Value{}
		for range 3 {
			r := gradient.Reversal{Graph: g, Y: y, By: g.Params[:1]}
			d, err := r.Append(t.Context())
			require.NoError(t, err, name)
			if d[0] == nil {
				break // a constant
			}
			y = d[0]
			found = append(found, y)
		}
		g.Results = found
		out, err := ops.Interpret(t.Context(), g, []ndarray.Value{ndarray.Of([]float32{-1, 0.5, 1, 2}, 4)}, nil)
		require.NoError(t, err, name)
		for i, x := range []float64{-1, 0.5, 1, 2} {
			a, b, c := want(x)
			for k, v := range []float64{a, b, c}[:len(out)] {
				assert.InEpsilon(t, 1+math.Abs(v), 1+math.Abs(out[k].(*ndarray.Array).Float(i)), 1e-5, "%s, derivative %d at %g", name, k+1, x)
			}
		}
		assert.Equal(t, name == "Scaled", len(out) == 1, name)
	}
	g := ownGraph(t, entropyText)
	require.NoError(t, ops.InferGraph(g))
	d, err := gradient.Of(t.Context(), g, g.Results[0], g.Params[1])
	require.NoError(t, err)
	_, err = gradient.Of(t.Context(), g, d[0], g.Params[1])
	var refused *gradient.Error
	require.ErrorAs(t, err, &refused)
	assert.ErrorContains(t, err, "Entropy")
}

// TestWrongOperators: what an operator of the program does wrong is an error that names it.
func TestWrongOperators(t *testing.T) {
	for name, want := range map[string]string{"Unfinished": "no result 1", "WrongType": "float32, not of int64", "Panics": "not today"} {
		outs := "%y"
		if name == "Unfinished" {
			outs = "%y, %q"
		}
		g := ownGraph(t, `in %x: float32[3] `+outs+` = test.operators::`+name+`(%x) out %y`)
		assert.ErrorContains(t, ops.InferGraph(g), want, name)
	}
	for name, want := range map[string]string{"NoSlope": "no derivative by operand 0", "Deaf": "does not read its slope"} {
		g := ownGraph(t, `in %x: float32[3] %y = test.operators::`+name+`(%x) out %y`)
		require.NoError(t, ops.InferGraph(g))
		_, err := gradient.Of(t.Context(), g, g.Results[0], g.Params[0])
		var at *gradient.Error
		require.ErrorAs(t, err, &at, name)
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, name)
	}
}
