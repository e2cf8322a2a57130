package rewrite

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestNumbersStay has constants that would overflow, lose digits or move the range of an intermediate result if they merged.
func TestNumbersStay(t *testing.T) {
	testRewrite(t, []*Pass{Algebra, FoldAffine, FoldBefore, Dead}, []rewriteCase{
		{name: "a sum that overflows float16", before: `in %x: float16[4] const %k: float16[] = 40000 const %l: float16[] = 40000 %a = Add(%x, %k) %y = Add(%a, %l) out %y`},
		{name: "a sum that overflows float32", before: `in %x: float32[4] const %k: float32[] = 3e+38 const %l: float32[] = 3e+38 %a = Add(%x, %k) %y = Add(%a, %l) out %y`},
		{name: "a detour that overflows", before: `in %x: float16[4] const %k: float16[] = 40000 const %l: float16[] = -20000 %a = Add(%x, %k) %y = Add(%a, %l) out %y`},
		{name: "small addends make no overflow", before: `in %x: float16[4] const %k: float16[] = 4 const %l: float16[] = -2 %a = Add(%x, %k) %y = Add(%a, %l) out %y`,
			after: `in %x: float16[4] const %k: float16[] = 2 %y = Add(%x, %k) out %y`},
		{name: "integers wrap", exact: true, before: `in %x: int32[4] const %k: int32[] = 2147483647 const %l: int32[] = 2147483647 %a = Add(%x, %k) %y = Add(%a, %l) out %y`,
			after: `in %x: int32[4] const %k: int32[] = -2 %y = Add(%x, %k) out %y`},
		{name: "a subnormal product", before: `in %x: float16[4] const %k: float16[] = 0.0005 const %l: float16[] = 0.0005 %a = Mul(%x, %k) %y = Mul(%a, %l) out %y`},
		{name: "a product of nothing", before: `in %x: float32[4] const %k: float32[] = 0 const %l: float32[] = inf %a = Mul(%x, %k) %y = Mul(%a, %l) out %y`},
		{name: "nothing times what overflows", before: `in %x: float32[4] const %k: float32[] = 3e+38 const %l: float32[] = 0 %a = Mul(%x, %k) %y = Mul(%a, %l) out %y`},
		{name: "nothing times what stays finite", before: `in %x: float32[4] const %k: float32[] = 3 const %l: float32[] = 0 %a = Mul(%x, %k) %y = Mul(%a, %l) out %y`,
			after: `in %x: float32[4] const %k: float32[] = 0 %y = Mul(%x, %k) out %y`},
		{name: "there and back", before: `in %x: float32[4] const %k: float32[] = 1e+20 const %l: float32[] = 1e-20 %a = Mul(%x, %k) %y = Mul(%a, %l) out %y`},
		{name: "a little in float16", before: `in %x: float16[4] const %k: float16[] = 100 const %l: float16[] = 0.125 %a = Mul(%x, %k) %y = Mul(%a, %l) out %y`},
		{name: "scales that vanish", before: `in %x: float16[2,8] in %z: float16[8,3] const %k: float16[] = 0.0001 %a = Mul(%x, %k) %b = Mul(%z, %k) %y = MatMul(%a, %b) out %y`},
		{name: "scales that overflow", before: `in %x: float16[2,8] in %z: float16[8,3] const %k: float16[] = 300 %a = Mul(%x, %k) %b = Mul(%z, %k) %y = MatMul(%a, %b) out %y`},
		{name: "scales that are finite, one operand times both is not", before: `in %x: float16[2,8] in %z: float16[8,3] const %k: float16[] = 100 %a = Mul(%x, %k) %b = Mul(%z, %k) %y = MatMul(%a, %b) out %y`},
		{name: "scales far from 1", before: `in %x: float32[2,8] in %z: float32[8,3] const %k: float32[] = 1e-14 %a = Mul(%x, %k) %b = Mul(%z, %k) %y = MatMul(%a, %b) out %y`},
		{name: "weights that lose digits", before: `in %x: float16[2,2] const %w: float16[2,2] = [0.01, 0.02, 0.03, 0.04] const %k: float16[] = 2e-05 %a = MatMul(%x, %w) %y = Mul(%a, %k) out %y`},
		{name: "equal weights that lose digits", before: `in %x: float16[2,20] const %w: float16[20,20] = splat 0.01 const %k: float16[] = 2e-05 %a = MatMul(%x, %w) %y = Mul(%a, %k) out %y`},
		{name: "weights that lose digits behind a scale", before: `in %x: float16[2,2] const %w: float16[2,2] = [0.01, 0.02, 0.03, 0.04] const %k: float16[] = 2e-05 %a = Mul(%x, %k) %y = MatMul(%a, %w) out %y`},
		{name: "float32 weights that lose digits", before: `in %x: float32[2,1] const %w: float32[1,2] = [1e-22, 2e-22] const %k: float32[] = 1e-22 %a = MatMul(%x, %w) %y = Mul(%a, %k) out %y`},
		{name: "a dead weight does not matter", before: `in %x: float32[2,1] const %w: float32[1,2] = [1e-38, 2] const %k: float32[] = 0.25 %a = MatMul(%x, %w) %y = Mul(%a, %k) out %y`,
			after: `in %x: float32[2,1] const %w: float32[1,2] = [2.5e-39, 0.5] %y = MatMul(%x, %w) out %y`},
		{name: "a shift that overflows", before: `in %x: float16[2,2] const %w: float16[2,2] = [1, 2, 3, 4] const %k: float16[] = 40000 const %l: float16[] = 40000 %a = MatMul(%x, %w) %b = Add(%a, %k) %y = Add(%b, %l) out %y`},
	})
}

// TestKeepsPrecision draws the border between numbers that may be stored and those that may not.
func TestKeepsPrecision(t *testing.T) {
	for _, c := range []struct {
		dt    ndarray.DType
		exact float64
		want  bool
	}{
		{ndarray.Float16, 0, true}, {ndarray.Float16, 0x1p-14, true}, {ndarray.Float16, 0x1p-24, true}, {ndarray.Float16, 0x1.8p-24, false},
		{ndarray.Float16, 0x1.004p-15, false}, {ndarray.Float16, 0x1p-25, false}, {ndarray.Float16, 65519, true}, {ndarray.Float16, 65520, false},
		{ndarray.BFloat16, 0x1p-126, true}, {ndarray.BFloat16, 0x1.1p-130, false},
		{ndarray.Float32, 0x1.000001p-126, true}, {ndarray.Float32, 0x1.000001p-127, true}, {ndarray.Float32, 0x1.001p-140, false}, {ndarray.Float32, 1e39, false},
		{ndarray.Float64, 1e308, true}, {ndarray.Float64, 0x1p-1074, true},
	} {
		assert.Equal(t, c.want, keepsPrecision(c.dt, c.exact, rounded(c.dt, c.exact)), "%v %g", c.dt, c.exact)
	}
}

// TestFormats compares the table with the types.
func TestFormats(t *testing.T) {
	for _, dt := range []ndarray.DType{ndarray.Float16, ndarray.BFloat16, ndarray.Float32, ndarray.Float64} {
		f := formats[dt]
		assert.Equal(t, f.least, rounded(dt, f.least), "%v", dt)
		assert.Equal(t, 1+2*f.unit, rounded(dt, 1+2*f.unit), "%v", dt)
		assert.Equal(t, 1.0, rounded(dt, 1+f.unit), "%v: half a unit in the last place goes to even", dt)
		if dt != ndarray.Float64 { // numbers are computed in it
			assert.False(t, keepsPrecision(dt, f.least*(0.5+f.unit), rounded(dt, f.least*(0.5+f.unit))), "%v: half of it has a digit less", dt)
		}
		assert.False(t, math.IsInf(f.moderate*f.moderate, 0))
	}
}

// TestRanksStay has patterns whose constants give the result more dimensions than the operand has.
func TestRanksStay(t *testing.T) {
	const sigmoid = `const %k: float32[1,1] = [1] const %o: float32[] = 1 %n = Neg(%x) %e = Exp(%n) %s = Add(%e, %k) %y = Div(%o, %s) out %y`
	const hardSigmoid = `const %k: float32[] = 6 const %l: float32[1,1] = [3] const %o: float32[] = 1 const %z: float32[] = 0 %n = Mul(%x, %k) %s = Add(%n, %l) %y = Clip(%s, %z, %o) out %y`
	const swish = `const %k: float32[1,1] = [2] %n = Mul(%x, %k) %s = Sigmoid(%n) %y = Mul(%x, %s) out %y`
	const gelu = `const %k: float32[1,1] = [0.70710677] const %o: float32[] = 1 const %h: float32[1,1] = [0.5] %n = Mul(%x, %k) %e = Erf(%n) %s = Add(%e, %o) %u = Mul(%x, %s) %y = Mul(%u, %h) out %y`
	const hardSwish = `const %k: float32[1,1] = [3] const %six: float32[] = 6 const %z: float32[] = 0 %s = Add(%x, %k) %c = Clip(%s, %z, %six) %u = Mul(%x, %c) %y = Div(%u, %six) out %y`
	const rms = `const %k: float32[1,1,1] = [1e-05] const %a: int64[1] = [-1] %q = Mul(%x, %x) %m = ReduceMean(%q, %a) %s = Add(%m, %k) %r = Sqrt(%s) %y = Div(%x, %r) out %y`
	const layer = `const %k: float32[1,1,1] = [1e-05] const %a: int64[1] = [-1] %u = ReduceMean(%x, %a) %d = Sub(%x, %u) %q = Mul(%d, %d) %m = ReduceMean(%q, %a) %s = Add(%m, %k) %r = Sqrt(%s) %y = Div(%d, %r) out %y`
	const square = `const %k: float32[1,1,1] = [2] const %e: float32[] = 1e-05 const %a: int64[1] = [-1] %q = Pow(%x, %k) %m = ReduceMean(%q, %a) %s = Add(%m, %e) %r = Sqrt(%s) %y = Div(%x, %r) out %y`
	for _, x := range []string{`in %x: float32[3] `, `in %x: float32[N] `} {
		testRewrite(t, []*Pass{Fuse}, []rewriteCase{
			{name: "sigmoid", before: x + sigmoid}, {name: "hard sigmoid", before: x + hardSigmoid}, {name: "swish", before: x + swish},
			{name: "gelu", before: x + gelu}, {name: "hard swish", before: x + hardSwish},
		})
	}
	for _, x := range []string{`in %x: float32[2,4] `, `in %x: float32[N,4] `} {
		testRewrite(t, []*Pass{Fuse}, []rewriteCase{{name: "rms norm", before: x + rms}, {name: "layer norm", before: x + layer}, {name: "rms norm by a power", before: x + square}})
	}
}

// TestFusedOtherwise has what only looks like a pattern.
func TestFusedOtherwise(t *testing.T) {
	const gelu = `const %k: float32[] = 0.044715 const %s: float32[] = 0.7978846 const %one: float32[] = 1 const %half: float32[] = 0.5 %q = Mul(%p, %k) %r = Add(%x, %q) %t = Mul(%s, %r) %u = Tanh(%t) %v = Add(%one, %u) %w = Mul(%half, %x) %y = Mul(%w, %v) out %y`
	testRewrite(t, []*Pass{Fuse, Dead}, []rewriteCase{
		{name: "a power that is not whole", before: `in %x: float32[4] const %e: float32[] = 3.5 %p = Pow(%x, %e) ` + gelu},
		{name: "a power that is not constant", before: `in %x: float32[4] in %e: float32[4] %a = Mul(%x, %x) %b = Mul(%a, %x) %c = Pow(%x, %e) %p = Mul(%b, %c) ` + gelu},
		{name: "a power below zero", before: `in %x: float32[4] const %e: float32[] = -1 const %f: float32[] = 4 %b = Pow(%x, %f) %c = Pow(%x, %e) %p = Mul(%b, %c) ` + gelu},
		{name: "rounding on purpose", before: `in %x: float32[4] const %k: float32[] = 12582915 const %l: float32[] = -12582912 const %z: float32[] = 0 const %o: float32[] = 1 %a = Add(%x, %k) %b = Add(%a, %l) %y = Clip(%b, %z, %o) out %y`},
		{name: "a slope that no attribute holds", before: `in %x: float64[4] const %k: float64[] = 0.2 const %l: float64[] = 0.5 const %z: float64[] = 0 const %o: float64[] = 1 %a = Mul(%x, %k) %b = Add(%a, %l) %y = Clip(%b, %z, %o) out %y`},
		{name: "a slope that vanishes", before: `in %x: float32[4] const %k: float32[] = 1e-30 const %z: float32[] = 0 const %o: float32[] = 1 %a = Mul(%x, %k) %b = Mul(%a, %k) %y = Clip(%b, %z, %o) out %y`},
		{name: "groups of unknown rank", before: `in %x: float32[1,4,3,3] const %s: int64[3] = [1, 2, -1] const %d: bool[3] = splat true const %g: float32[2] = [1, 2] const %h: float32[2] = [0, 1] const %b: int64[4] = [1, 4, 3, 3]
			%t = Compress(%s, %d) %a = Reshape(%x, %t) %i = InstanceNormalization(%a, %g, %h) %y = Reshape(%i, %b) out %y`},
	})
}

// TestEmptyOperands has shapes that a -1 can not stand for where a dimension is 0.
func TestEmptyOperands(t *testing.T) {
	testRewrite(t, []*Pass{ShapeFold, Targets, Views, Dead}, []rewriteCase{
		{name: "flattened and put back", exact: true, before: `in %x: float32[N,S,T] const %a: int64[1] = [0] %f = Flatten(%x) %u = Unsqueeze(%f, %a) %z = Squeeze(%u, %a) %y = Relu(%z) out %y`},
		{name: "a product beside a copy", exact: true, before: `in %x: float32[N,S,4] %s = Shape(%x) const %i: int64[1] = [0] const %j: int64[1] = [1] const %four: int64[1] = [4]
			%n = Gather(%s, %i) %k = Gather(%s, %j) %m = Mul(%k, %four) %t = Concat(%n, %m) [axis=0] %y = Reshape(%x, %t) out %y`},
		{name: "symbols that a transposition moves", exact: true, before: `in %x: float32[1,N,S] %y = Transpose(%x) [perm=[1, 0, 2]] out %y`},
		{name: "a -1 that the model wrote", exact: true, before: `in %x: float32[N,S,4] %s = Shape(%x) const %i: int64[1] = [0] const %two: int64[2] = [-1, 2]
			%n = Gather(%s, %i) %t = Concat(%n, %two) [axis=0] %y = Reshape(%x, %t) out %y`,
			after: `in %x: float32[N,S,4] const %t: int64[3] = [0, -1, 2] %y = Reshape(%x, %t) out %y`},
	})
}

// TestSpecialNumbers has weights and zeros for which a rewrite would change the result.
func TestSpecialNumbers(t *testing.T) {
	testRewrite(t, []*Pass{Views, Identity, Dead}, []rewriteCase{
		{name: "padding times infinity", before: `in %x: float32[1,1,4,4] const %w: float32[1,1,2,2] = [inf, 2, 3, 4] const %p: int64[8] = [0, 0, 1, 0, 0, 0, 2, 3] %a = Pad(%x, %p) %y = Conv(%a, %w) out %y`},
		{name: "padding times unknown weights", before: `in %x: float32[1,1,4,4] in %w: float32[1,1,2,2] const %p: int64[8] = [0, 0, 1, 0, 0, 0, 2, 3] %a = Pad(%x, %p) %y = Conv(%a, %w) out %y`},
		{name: "a sum of one is not -0.0", before: `in %x: float32[1,4] const %a: int64[1] = [0] %s = ReduceSum(%x, %a) %y = Reciprocal(%s) out %y`},
		{name: "where no reader sees the sign", before: `in %x: float32[1,4] const %a: int64[1] = [0] %s = ReduceSum(%x, %a) %y = Exp(%s) out %y`, after: `in %x: float32[1,4] %y = Exp(%x) out %y`},
	})
}

// TestCommonKernels: a list for other runtimes makes no operator that they lack for the element type.
func TestCommonKernels(t *testing.T) {
	const mean = `const %a: int64[2] = [2, 3] %y = ReduceMean(%x, %a) out %y`
	const hardSigmoid = `const %k: FLOAT[] = 0.25 const %l: FLOAT[] = 0.5 const %z: FLOAT[] = 0 const %o: FLOAT[] = 1 %a = Mul(%x, %k) %b = Add(%a, %l) %y = Clip(%b, %z, %o) out %y`
	const hardSwish = `const %k: FLOAT[] = 3 const %six: FLOAT[] = 6 const %z: FLOAT[] = 0 %s = Add(%x, %k) %c = Clip(%s, %z, %six) %u = Mul(%x, %c) %y = Div(%u, %six) out %y`
	for _, c := range []struct{ name, inside, made string }{
		{"mean", mean, "GlobalAveragePool"}, {"hard sigmoid", hardSigmoid, "HardSigmoid"}, {"hard swish", hardSwish, "HardSwish"},
	} {
		for dt, want := range map[string]bool{"float32": true, "float64": false} {
			text := replaceOnce(`in %x: FLOAT[1,2,3,3] `+c.inside, "FLOAT", dt)
			for text != replaceOnce(text, "FLOAT", dt) {
				text = replaceOnce(text, "FLOAT", dt)
			}
			m := &ssa.Module{Graph: parseCase(t, text)}
			_, err := Run(t.Context(), m, Options{List: &Portable, MaxOpset: -1})
			require.NoError(t, err)
			n := m.Graph.Nodes[0]
			assert.Equal(t, want, len(m.Graph.Nodes) == 1 && n.Op == c.made, "%s of %s:\n%s", c.name, dt, m.Graph)
		}
	}
}

// TestCommonKernelsByOpset: a list for other runtimes makes no operator that they lack in the operator set of the model.
func TestCommonKernelsByOpset(t *testing.T) {
	for version, want := range map[int]int{23: 2, 24: 1, 25: 2, 28: 2} {
		m := &ssa.Module{Graph: parseCase(t, `in %x: float32[2,3] %a = Sigmoid(%x) %y = Mul(%x, %a) out %y`), Opsets: []ssa.Opset{{Version: version}}}
		_, err := Run(t.Context(), m, Options{List: &Portable})
		require.NoError(t, err)
		assert.Len(t, m.Graph.Nodes, want, "operator set %d:\n%s", version, m.Graph)
	}
}

// TestScaledRows: a row with zeros, subnormal numbers or numbers that overflow scales as its elements do one by one.
func TestScaledRows(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		row    []float32
		factor float64
		want   bool
	}{
		{[]float32{1, -2, 0x1p-126}, 1.5, true},
		{[]float32{1, 0, -3}, 0.1, true},
		{[]float32{1, 0x1p-140, 3}, 0.3, true}, // of a channel that died
		{[]float32{1, 0x1.8p-99, 3}, 0x1.234568p-40, false},
		{[]float32{1, 0x1p100, 3}, 0x1p30, false},
		{[]float32{1, inf, -inf, float32(math.NaN())}, 2, true},
		{[]float32{1, 0x1p-130, 2}, 0x1p300, false},
		{nil, 1, true},
	} {
		d, each := make([]float32, len(c.row)), true
		assert.Equal(t, c.want, scaleFloats(d, c.row, c.factor), "%g * %g", c.row, c.factor)
		for i, x := range c.row {
			exact := float64(x) * c.factor
			each = each && (x == 0 && exact == 0 || scalesWell(ndarray.Float32, float64(x), exact, float64(float32(exact))))
			if c.want {
				assert.Equal(t, math.Float32bits(float32(exact)), math.Float32bits(d[i]))
			}
		}
		assert.Equal(t, c.want, each, "%g * %g", c.row, c.factor)
	}
}
