package rewrite

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestAlgebra(t *testing.T) {
	testRewrite(t, []*Pass{Algebra, Dead}, []rewriteCase{
		{name: "square", before: `in %x: float32[N] const %k: float32[] = 2 %y = Pow(%x, %k) out %y`, after: `in %x: float32[N] %y = Mul(%x, %x) out %y`},
		{name: "square of integers by a float exponent", exact: true, before: `in %x: int32[N] const %k: float32[] = 2 %y = Pow(%x, %k) out %y`, after: `in %x: int32[N] %y = Mul(%x, %x) out %y`},
		{name: "cube stays", before: `in %x: float32[N] const %k: float32[] = 3 %y = Pow(%x, %k) out %y`},
		{name: "reciprocal", exact: true, before: `in %x: float32[N] const %k: float32[1] = [1] %y = Div(%k, %x) out %y`, after: `in %x: float32[N] %y = Reciprocal(%x) out %y`},
		{name: "division by powers of two", exact: true, before: `in %x: float32[N,2] const %k: float32[2] = [4, -0.5] %y = Div(%x, %k) out %y`,
			after: `in %x: float32[N,2] const %k: float32[2] = [0.25, -2] %y = Mul(%x, %k) out %y`},
		{name: "division by three stays", before: `in %x: float32[N] const %k: float32[] = 3 %y = Div(%x, %k) out %y`},
		{name: "integer division stays", before: `in %x: int64[N] const %k: int64[] = 2 %y = Div(%x, %k) out %y`},
		{name: "subtract a constant", exact: true, before: `in %x: float32[N] const %k: float32[] = 3 %y = Sub(%x, %k) out %y`, after: `in %x: float32[N] const %k: float32[] = -3 %y = Add(%x, %k) out %y`},
		{name: "negatives", exact: true, before: `in %x: float32[N] in %z: float32[N] %m = Neg(%z) %a = Add(%m, %x) %y = Sub(%a, %m) out %y`,
			after: `in %x: float32[N] in %z: float32[N] %a = Sub(%x, %z) %y = Add(%a, %z) out %y`},
		{name: "sums of constants", before: `in %x: float32[N,2] const %k: float32[2] = [1, 2] const %l: float32[] = 3 %a = Add(%x, %k) %y = Add(%l, %a) out %y`,
			after: `in %x: float32[N,2] const %k: float32[2] = [4, 5] %y = Add(%x, %k) out %y`},
		{name: "rounding by a large constant stays", before: `in %x: float32[N] const %k: float32[] = 12582912 const %l: float32[] = -12582912 %a = Add(%x, %k) %y = Add(%a, %l) out %y`},
		{name: "products of constants", before: `in %x: float32[N] const %k: float32[] = 3 const %l: float32[] = 5 %a = Mul(%x, %k) %y = Mul(%l, %a) out %y`,
			after: `in %x: float32[N] const %k: float32[] = 15 %y = Mul(%x, %k) out %y`},
		{name: "a product that overflows stays", before: `in %x: float32[N] const %k: float32[] = 1e+30 const %l: float32[] = 1e+30 %a = Mul(%x, %k) %y = Mul(%a, %l) out %y`},
		{name: "sums that would grow stay", before: `in %x: float32[2,2] const %k: float32[2,1] = [1, 2] const %l: float32[1,2] = [5, 7] %a = Add(%x, %k) %y = Add(%a, %l) out %y`},
		{name: "times the reciprocal", before: `in %x: float32[N] in %z: float32[N] %r = Reciprocal(%z) %y = Mul(%r, %x) out %y`, after: `in %x: float32[N] in %z: float32[N] %y = Div(%x, %z) out %y`},
		{name: "min of max", exact: true, before: `in %x: float32[N] const %a: float32[] = -1 const %b: float32[] = 1 %m = Max(%x, %a) %y = Min(%b, %m) out %y`,
			after: `in %x: float32[N] const %a: float32[] = -1 const %b: float32[] = 1 %y = Clip(%x, %a, %b) out %y`},
		{name: "min of relu", exact: true, before: `in %x: float32[N] const %b: float32[] = 1 %m = Relu(%x) %y = Min(%m, %b) out %y`,
			after: `in %x: float32[N] const %a: float32[] = 0 const %b: float32[] = 1 %y = Clip(%x, %a, %b) out %y`},
		{name: "clip after relu", exact: true, before: `in %x: float32[N] const %a: float32[] = -1 const %b: float32[] = 1 %m = Relu(%x) %y = Clip(%m, %a, %b) out %y`,
			after: `in %x: float32[N] const %a: float32[] = 0 const %b: float32[] = 1 %y = Clip(%x, %a, %b) out %y`},
		{name: "clip of clip, the limits apart", exact: true, before: `in %x: float32[N] const %a: float32[] = -2 const %b: float32[] = -1 const %z: float32[] = 0 const %o: float32[] = 1 %m = Clip(%x, %a, %b) %y = Clip(%m, %z, %o) out %y`,
			after: `in %x: float32[N] const %a: float32[] = 0 const %b: float32[] = 0 %y = Clip(%x, %a, %b) out %y`},
		{name: "relu after a clip that is narrower", exact: true, before: `in %x: float32[N] const %a: float32[] = 0.5 const %b: float32[] = 1 %m = Clip(%x, %a, %b) %n = Relu(%m) %y = Neg(%n) out %y`,
			after: `in %x: float32[N] const %a: float32[] = 0.5 const %b: float32[] = 1 %m = Clip(%x, %a, %b) %y = Neg(%m) out %y`},
		{name: "clip from zero to the largest number is no Relu", exact: true, before: `in %x: float32[N] const %a: float32[] = 0 %y = Clip(%x, %a) out %y`},
		{name: "clip from zero to infinity", exact: true, before: `in %x: float32[N] const %a: float32[] = 0 const %b: float32[] = inf %y = Clip(%x, %a, %b) out %y`, after: `in %x: float32[N] %y = Relu(%x) out %y`},
		{name: "both operands of a product scaled", before: `in %x: float32[2,8] in %z: float32[8,3] const %k: float32[] = 0.5 const %l: float32[1] = [4] %a = Mul(%x, %k) %b = Div(%z, %l) %y = MatMul(%a, %b) out %y`,
			after: `in %x: float32[2,8] in %z: float32[8,3] const %k: float32[] = 0.125 %a = Mul(%x, %k) %y = MatMul(%a, %z) out %y`},
		{name: "mean over the image", before: `in %x: float32[N,2,3,3] const %a: int64[2] = [-1, 2] %y = ReduceMean(%x, %a) out %y`, after: `in %x: float32[N,2,3,3] %y = GlobalAveragePool(%x) out %y`},
	})
}

func TestGemm(t *testing.T) {
	testRewrite(t, []*Pass{Gemm, Dead}, []rewriteCase{
		{name: "an addend that rounds", before: `in %x: float32[N,2] const %w: float32[2,2] = [1, 2, 3, 4] const %k: float32[2] = [0, 12582912]
			%a = MatMul(%x, %w) %y = Add(%a, %k) out %y`},
		{name: "matmul and add", before: `in %x: float32[N,2] in %w: float32[2,3] in %b: float32[3] %a = MatMul(%x, %w) %y = Add(%b, %a) out %y`,
			after: `in %x: float32[N,2] in %w: float32[2,3] in %b: float32[3] %y = Gemm(%x, %w, %b) out %y`},
		{name: "gemm and add", before: `in %x: float32[N,2] in %w: float32[3,2] in %b: float32[N,3] %a = Gemm(%x, %w) [transB=1, alpha=2.0, beta=3.0] %y = Add(%a, %b) out %y`,
			after: `in %x: float32[N,2] in %w: float32[3,2] in %b: float32[N,3] %y = Gemm(%x, %w, %b) [transB=1, alpha=2.0] out %y`},
		{name: "an addend that grows the result stays", before: `in %x: float32[1,2] in %w: float32[2,3] in %b: float32[4,3] %a = MatMul(%x, %w) %y = Add(%b, %a) out %y`},
		{name: "rank 3 stays", before: `in %x: float32[N,2,2] in %w: float32[2,3] in %b: float32[3] %a = MatMul(%x, %w) %y = Add(%b, %a) out %y`},
		{name: "integers stay", before: `in %x: int32[N,2] in %w: int32[2,3] in %b: int32[3] %a = MatMul(%x, %w) %y = Add(%b, %a) out %y`},
		{name: "transposed operands", before: `in %x: float32[2,N] in %w: float32[3,2] in %b: float32[3] %xt = Transpose(%x) %wt = Transpose(%w) [perm=[1, 0]] %a = MatMul(%xt, %wt) %y = Add(%b, %a) out %y`,
			after: `in %x: float32[2,N] in %w: float32[3,2] in %b: float32[3] %y = Gemm(%x, %w, %b) [transA=1, transB=1] out %y`},
		{name: "transposed twice", before: `in %x: float32[N,2] in %w: float32[2,3] %wt = Transpose(%w) %y = Gemm(%x, %wt) [transB=1] out %y`,
			after: `in %x: float32[N,2] in %w: float32[2,3] %y = Gemm(%x, %w) out %y`},
	})
}

func TestFuse(t *testing.T) {
	passes := []*Pass{Fuse, FoldAffine, Dead}
	const gelu = `in %x: float32[N,4] const %r: float32[] = 1.4142135 const %one: float32[] = 1 const %half: float32[] = 0.5 %a = Div(%x, %r) %b = Erf(%a) %c = Add(%b, %one) `
	testRewrite(t, passes, []rewriteCase{
		{name: "gelu", before: gelu + `%d = Mul(%x, %c) %y = Mul(%d, %half) out %y`, after: `in %x: float32[N,4] %y = Gelu(%x) out %y`},
		{name: "gelu, half first", before: gelu + `%d = Mul(%x, %half) %y = Mul(%d, %c) out %y`, after: `in %x: float32[N,4] %y = Gelu(%x) out %y`},
		{name: "gelu of another constant stays", before: replaceOnce(gelu, "1.4142135", "1.5") + `%d = Mul(%x, %half) %y = Mul(%d, %c) out %y`},
		{name: "gelu whose parts are read stays", before: gelu + `%d = Mul(%x, %half) %y = Mul(%d, %c) out %y, %c`},
		{name: "gelu is too new", opts: Options{MaxOpset: 19}, before: gelu + `%d = Mul(%x, %c) %y = Mul(%d, %half) out %y`},
		{name: "gelu by tanh", before: `in %x: float32[N,4] const %k: float32[] = 0.044715 const %s: float32[] = 0.7978846 const %one: float32[] = 1 const %half: float32[] = 0.5 const %three: float32[] = 3
			%p = Pow(%x, %three) %q = Mul(%p, %k) %r = Add(%x, %q) %t = Mul(%s, %r) %u = Tanh(%t) %v = Add(%one, %u) %w = Mul(%half, %x) %y = Mul(%w, %v) out %y`,
			after: `in %x: float32[N,4] %y = Gelu(%x) [approximate="tanh"] out %y`},
		{name: "hard swish", before: `in %x: float32[N,4] const %three: float32[] = 3 const %z: float32[] = 0 const %six: float32[] = 6 %a = Add(%x, %three) %b = Clip(%a, %z, %six) %c = Mul(%x, %b) %y = Div(%c, %six) out %y`,
			after: `in %x: float32[N,4] %y = HardSwish(%x) out %y`},
		{name: "hard swish before operator set 14", opts: Options{MaxOpset: 11}, before: `in %x: float32[N,4] const %three: float32[] = 3 const %z: float32[] = 0 const %six: float32[] = 6 %a = Add(%x, %three) %b = Clip(%a, %z, %six) %c = Mul(%x, %b) %y = Div(%c, %six) out %y`,
			after: `in %x: float32[N,4] %c = HardSigmoid(%x) [alpha=0.16666667, beta=0.5] %y = Mul(%x, %c) out %y`},
		{name: "hard sigmoid", before: `in %x: float32[N,4] const %three: float32[] = 3 const %z: float32[] = 0 const %six: float32[] = 6 %a = Add(%x, %three) %b = Clip(%a, %z, %six) %y = Div(%b, %six) out %y`,
			after: `in %x: float32[N,4] %y = HardSigmoid(%x) [alpha=0.16666667, beta=0.5] out %y`},
		{name: "hard sigmoid without division", before: `in %x: float32[N,4] const %h: float32[] = 0.5 const %k: float32[] = 0.25 const %z: float32[] = 0 const %one: float32[] = 1 %m = Mul(%x, %k) %a = Add(%m, %h) %y = Clip(%a, %z, %one) out %y`,
			after: `in %x: float32[N,4] %y = HardSigmoid(%x) [alpha=0.25, beta=0.5] out %y`},
		{name: "hard swish from hard sigmoid", before: `in %x: float32[N,4] %c = HardSigmoid(%x) [alpha=0.16666667, beta=0.5] %y = Mul(%c, %x) out %y`, after: `in %x: float32[N,4] %y = HardSwish(%x) out %y`},
		{name: "swish, mish, sigmoid", before: `in %x: float32[N,4] const %k: float32[] = 1.5 const %one: float32[] = 1 %m = Mul(%x, %k) %s = Sigmoid(%m) %a = Mul(%s, %x)
			%p = Softplus(%a) %t = Tanh(%p) %b = Mul(%t, %a) %c = Neg(%b) %e = Exp(%c) %f = Add(%one, %e) %y = Reciprocal(%f) out %y`,
			after: `in %x: float32[N,4] %a = Swish(%x) [alpha=1.5] %b = Mish(%a) %y = Sigmoid(%b) out %y`},
		{name: "softmax", before: `in %x: float32[N,4] const %a: int64[1] = [1] %m = ReduceMax(%x, %a) %d = Sub(%x, %m) %e = Exp(%d) %s = ReduceSum(%e, %a) %y = Div(%e, %s) out %y`,
			after: `in %x: float32[N,4] %y = Softmax(%x) [axis=1] out %y`},
		{name: "layer norm with scale and bias", before: `in %x: float32[N,2,4] const %a: int64[1] = [-1] const %two: float32[] = 2 const %eps: float32[] = 1e-05 const %g: float32[4] = [1, 2, 3, 4] const %h: float32[4] = [5, 6, 7, 8]
			%m = ReduceMean(%x, %a) %d = Sub(%x, %m) %p = Pow(%d, %two) %v = ReduceMean(%p, %a) %e = Add(%v, %eps) %s = Sqrt(%e) %n = Div(%d, %s) %o = Mul(%n, %g) %y = Add(%o, %h) out %y`,
			after: `in %x: float32[N,2,4] const %g: float32[4] = [1, 2, 3, 4] const %h: float32[4] = [5, 6, 7, 8] %y = LayerNormalization(%x, %g, %h) [axis=-1, epsilon=1e-05] out %y`},
		{name: "rms norm with scale", before: `in %x: float32[N,2,4] const %a: int64[1] = [-1] const %eps: float32[] = 1e-05 const %g: float32[4] = [1, 2, 3, 4]
			%p = Mul(%x, %x) %v = ReduceMean(%p, %a) %e = Add(%v, %eps) %s = Sqrt(%e) %n = Div(%x, %s) %y = Mul(%n, %g) out %y`,
			after: `in %x: float32[N,2,4] const %g: float32[4] = [1, 2, 3, 4] %y = RMSNormalization(%x, %g) [axis=-1, epsilon=1e-05] out %y`},
		{name: "layer norm over an unknown length stays", before: `in %x: float32[2,N] const %a: int64[1] = [-1] const %two: float32[] = 2 const %eps: float32[] = 1e-05
			%m = ReduceMean(%x, %a) %d = Sub(%x, %m) %p = Pow(%d, %two) %v = ReduceMean(%p, %a) %e = Add(%v, %eps) %s = Sqrt(%e) %y = Div(%d, %s) out %y`},
		{name: "group norm", before: `in %x: float32[N,4,3,3] const %r: int64[3] = [0, 2, -1] const %g: float32[2] = [1, 2] const %h: float32[2] = [0, 1] const %k: float32[4,1,1] = [1, 2, 3, 4] const %b: int64[4] = [0, 4, 3, 3]
			%a = Reshape(%x, %r) %i = InstanceNormalization(%a, %g, %h) %o = Reshape(%i, %b) %y = Mul(%o, %k) out %y`,
			after: `in %x: float32[N,4,3,3] const %g: float32[4] = [1, 2, 6, 8] const %h: float32[4] = [0, 0, 3, 4] %y = GroupNormalization(%x, %g, %h) [num_groups=2, epsilon=1e-05] out %y`},
	})
}

// TestPlainPairs compares sums and products that are made without the interpreter with those that it makes, bit for bit.
func TestPlainPairs(t *testing.T) {
	nan := math.Float32frombits(0x7fc12345)
	inf, tiny := float32(math.Inf(1)), math.Float32frombits(3)
	vs := []float32{0, float32(math.Copysign(0, -1)), 1, -1.5, 1e-30, 3e38, -3e38, tiny, -tiny, inf, -inf, nan, 1 + 1.0/(1<<23), 1.0 / 3}
	var a, b []float32
	for _, x := range vs {
		for _, y := range vs {
			a, b = append(a, x), append(b, y)
		}
	}
	x, y := ndarray.Of(a, len(vs), len(vs)), ndarray.Of(b, len(vs), len(vs))
	for _, op := range []string{"Add", "Mul"} {
		g, err := ssa.ParseGraph(`graph "g" { in %x: float32[14,14] in %y: float32[14,14] %z = ` + op + `(%x, %y) out %z }`)
		require.NoError(t, err)
		c := &Context{ctx: t.Context()}
		asked := 0
		made := c.combinePlain(plainPairs(g.Nodes[0], x, y), x, y, func(ndarray.DType, float64, float64, float64) bool { asked++; return true })
		assert.Equal(t, x.Len(), asked)
		got, err := made.Array()
		require.NoError(t, err)
		assert.Nil(t, c.combinePlain(plainPairs(g.Nodes[0], x, y), x, y, func(ndarray.DType, float64, float64, float64) bool { asked--; return asked > 100 }), "a refused pair")
		assert.Equal(t, 100, asked, "ends it")
		call := &ops.Call{Ctx: t.Context(), Node: g.Nodes[0], Threads: 1, In: []ndarray.Value{x, y}, Out: make([]ndarray.Value, 1)}
		require.NoError(t, ops.Eval(call))
		want := call.Out[0].(*ndarray.Array)
		assert.Equal(t, want.Shape, got.Shape)
		assert.Equal(t, want.Data, got.Data, op)
	}
}
