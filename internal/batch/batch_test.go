package batch_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/batch"
	_ "github.com/berth-onnx/berth/internal/ops/backward"
	_ "github.com/berth-onnx/berth/internal/ops/drawn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	_ "github.com/berth-onnx/berth/ops/standard"
	"github.com/berth-onnx/berth/ssa"
)

// cases are nodes between inputs x (and y, of the batch, where there are) and w, which is the same for all of the batch. Results that
// are sums or are joined count.
var cases = []struct {
	name, text string
	of         []string // inputs that may be the batch
	whole      bool     // nothing is in parts
}{
	{"elementwise", `in %x: float32[4,3] in %w: float32[3] %a = Mul(%x, %w) %b = Tanh(%a) out %b`, []string{"x"}, false},
	{"broadcast from an operand of the batch", `in %x: float32[4,1] in %w: float32[1,3] %a = Add(%x, %w) out %a`, []string{"x"}, false},
	{"operands of the whole size are cut", `in %x: float32[4,3] in %w: float32[4,3] const %k: float32[4,3] = [1,2,3,4,5,6,7,8,9,10,11,12] %a = Mul(%x, %w) %b = Add(%a, %k) out %b`, []string{"x"}, false},
	{"rows of a product", `in %x: float32[4,2,3] in %w: float32[3,5] %a = MatMul(%x, %w) out %a`, []string{"x"}, false},
	{"columns of a product", `in %x: float32[3,4] in %w: float32[5,3] %a = MatMul(%w, %x) out %a`, []string{"x"}, false},
	{"products of a batch", `in %x: float32[4,2,3] in %y: float32[4,3,5] %a = MatMul(%x, %y) out %a`, []string{"x", "y"}, false},
	{"a sum of products", `in %x: float32[4,3] in %y: float32[4,5] in %w: float32[3,5] %a = Gemm(%x, %y, %w) [transA=1, beta=0.5] out %a`, []string{"x", "y"}, false},
	{"a sum of products with a whole operand", `in %x: float32[4,3] in %w: float32[4,5] %a = Gemm(%x, %w) [transA=1] out %a`, []string{"x"}, false},
	{"rows of Gemm with C of rows", `in %x: float32[4,3] in %w: float32[3,5] in %c: float32[4,1] %a = Gemm(%x, %w, %c) out %a`, []string{"x"}, false},
	{"batch and rows in one dimension", `in %x: float32[4,2,3] in %w: float32[3,5] const %s: int64[2] = [-1,3] const %t: int64[3] = [4,2,5]
		%a = Reshape(%x, %s) %b = MatMul(%a, %w) %c = Reshape(%b, %t) out %c`, []string{"x"}, false},
	{"rows before the batch", `in %x: float32[2,4,3] in %y: float32[2,4,5] const %s: int64[2] = [-1,3] const %t: int64[2] = [-1,5]
		%a = Reshape(%x, %s) %b = Reshape(%y, %t) %c = Gemm(%a, %b) [transA=1] out %c`, []string{"x", "y"}, false},
	{"heads", `in %x: float32[4,3,6] const %s: int64[4] = [4,3,2,3] const %t: int64[3] = [4,3,6] %a = Reshape(%x, %s) %b = Transpose(%a) [perm=[0,2,1,3]] %c = Softmax(%b)
		%d = Transpose(%c) [perm=[0,2,1,3]] %e = Reshape(%d, %t) out %e`, []string{"x"}, false},
	{"sums and means", `in %x: float32[4,3] %e = Exp(%x) %a = ReduceSum(%e) [keepdims=0] %b = ReduceMean(%e) [keepdims=0] %c = Add(%a, %b) out %c`, []string{"x"}, false},
	{"behind a mean", `in %x: float32[4,3] const %o: int64[1] = [0] %a = ReduceMean(%x, %o) [keepdims=1] %b = Sub(%x, %a) %c = Mul(%b, %b) %d = ReduceSum(%c, %o) [keepdims=1] %e = Div(%b, %d) out %e`, []string{"x"}, false},
	{"a largest element", `in %x: float32[4,3] const %o: int64[1] = [0] %a = Exp(%x) %b = ReduceMax(%a, %o) [keepdims=0] %c = Neg(%b) out %c`, []string{"x"}, false},
	{"parts are joined", `in %x: float32[4,3] const %z: int64[] = 0 %e = Exp(%x) %a = Tanh(%e) %b = CumSum(%a, %z) %c = Neg(%b) out %c`, []string{"x"}, false},
	{"shapes", `in %x: float32[4,1,3] const %a1: int64[1] = [1] const %s: int64[3] = [4,2,3] %a = Squeeze(%x, %a1) %b = Unsqueeze(%a, %a1) %c = Expand(%b, %s) %d = Flatten(%c) out %d`, []string{"x"}, false},
	{"joined and cut", `in %x: float32[4,3] in %y: float32[4,1] %a = Concat(%x, %y) [axis=1] %b, %c = Split(%a) [axis=1, num_outputs=2] %d = Add(%b, %c) out %d`, []string{"x", "y"}, false},
	{"slices", `in %x: float32[4,6] const %f: int64[1] = [1] const %t: int64[1] = [5] const %a1: int64[1] = [1] %a = Slice(%x, %f, %t, %a1) %b = Neg(%a) out %b`, []string{"x"}, false},
	{"rows of a table", `in %x: float32[4,3] in %i: int64[4,2] const %k: int64[] = 1 in %w: float32[3,5] %a = Gather(%w, %i) %b = Gather(%x, %k) [axis=1] %c = ReduceSum(%a) [keepdims=0] %d = Add(%b, %c) out %d`, []string{"x", "i"}, false},
	{"additions to a table", `in %x: float32[4,5] in %i: int64[4,1] in %w: float32[3,5] %a = Tanh(%x) %b = ScatterND(%w, %i, %a) [reduction="add"] out %b`, []string{"x", "i"}, false},
	{"additions along the batch", `in %x: float32[4,5] const %k: int64[1] = [2] const %z: float32[3,4,5] = splat 0 %a = Tanh(%x) %b = ScatterND(%z, %k, %a) [reduction="add"] %c = Neg(%b) out %c`, []string{"x"}, false},
	{"convolutions", `in %x: float32[4,2,5,5] in %w: float32[3,2,3,3] %a = Conv(%x, %w) [pads=[1,1,1,1]] %b = MaxPool(%a) [kernel_shape=[2,2], strides=[2,2]] %c = GlobalAveragePool(%b) out %c`, []string{"x"}, false},
	{"derivatives of convolutions", `in %x: float32[4,2,5,5] in %y: float32[4,3,5,5] %e = Exp(%x) %a = berth.internal::ConvWeights(%e, %y) [kernel_shape=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1]] out %a`, []string{"x", "y"}, false},
	{"normalizations", `in %x: float32[4,2,6] in %w: float32[6] in %v: float32[2] %a = LayerNormalization(%x, %w) %b = InstanceNormalization(%a, %v, %v) %c = LogSoftmax(%b) [axis=1] out %c`, []string{"x"}, false},
	{"a batch normalization", `in %x: float32[4,2,6] in %w: float32[2] in %m: float32[2] in %v: float32[2] %e = Exp(%x) %a, %b, %c = BatchNormalization(%e, %w, %w, %m, %v) [training_mode=1] %d = Neg(%a) %f = Mul(%d, %e)
		out %f, %b, %c`, []string{"x"}, false},
	{"a batch normalization alone", `in %x: float32[4,2,6] in %w: float32[2] in %m: float32[2] in %v: float32[2] %a, %b, %c = BatchNormalization(%x, %w, %w, %m, %v) [training_mode=1] out %a, %b, %c`, []string{"x"}, false},
	{"a whole operand of another arrangement", `in %x: float32[2,4,3] in %y: float32[4,90] in %w: float32[8,5] const %s: int64[2] = [-1,3] %a = Reshape(%x, %s) %e = Exp(%a) %c = Gemm(%e, %w) [transA=1]
		%f = Exp(%y) %d = ReduceSum(%f) [keepdims=0] out %c, %d`, []string{"x", "y"}, false},
	{"attention", `in %x: float32[4,3,4] in %y: float32[4,5,4] const %m: float32[3,5] = splat 0.5 %a = Attention(%x, %y, %y, %m) [q_num_heads=2, kv_num_heads=2] out %a`, []string{"x", "y"}, false},
	{"dropout", `in %x: float32[4,3] const %r: float32[] = 0.5 const %n: int64[] = 7 %a = berth.internal::StepDropout(%x, %r, %n) out %a`, []string{"x"}, false},
	{"dropout behind rows", `in %x: float32[2,4] const %r: float32[] = 0.5 const %n: int64[] = 7 %e = Exp(%x) %a = berth.internal::StepDropout(%e, %r, %n) out %a`, []string{"x"}, false},
	{"a recurrent layer", `in %x: float32[5,4,3] in %w: float32[1,6,3] in %v: float32[1,6,2] %a, %b = GRU(%x, %w, %v) [hidden_size=2] %c = Neg(%a) %d = Neg(%b) out %c, %d`, []string{"x"}, false},
	{"a scan", `in %x: float32[5,4,3] in %w: float32[3,3] const %z: float32[4,3] = splat 0 %h, %all = Scan(%z, %x | %w) [num_scan_inputs=1] { body: graph "b" { in %h: float32[4,3] in %x: float32[4,3] in %w: float32[3,3]
		%p = MatMul(%h, %w) %s = Add(%p, %x) %n = Tanh(%s) out %n, %n } } %a = Neg(%h) %b = Neg(%all) out %a, %b`, []string{"x"}, false},
	{"a scan that sums over the batch", `in %x: float32[5,4,3] const %z: float32[3,3] = splat 0 %e = Exp(%x) %h, %n = Scan(%z, %e) [num_scan_inputs=1] { body: graph "b" { in %h: float32[3,3] in %x: float32[4,3]
		%s = Gemm(%x, %x, %h) [transA=1] const %o: float32[] = 2 %m = Mul(%o, %o) out %s, %m } } out %h, %n`, []string{"x"}, false},
	{"a scan whose sum is scaled", `in %x: float32[5,4,1] const %z: float32[1] = splat 0 %e = Exp(%x) %h = Scan(%z, %e) [num_scan_inputs=1] { body: graph "b" { in %h: float32[1] in %x: float32[4,1]
		const %k: float32[] = 0.5 const %i: int64[1] = [0] %c = ReduceSum(%x, %i) [keepdims=0] %d = Mul(%h, %k) %s = Add(%d, %c) out %s } } out %h`, []string{"x"}, false},
	{"a scan whose sum is stacked", `in %x: float32[5,4,1] const %z: float32[1] = splat 0 %e = Exp(%x) %h, %all = Scan(%z, %e) [num_scan_inputs=1] { body: graph "b" { in %h: float32[1] in %x: float32[4,1]
		const %i: int64[1] = [0] %c = ReduceSum(%x, %i) [keepdims=0] %s = Add(%h, %c) out %s, %s } } out %h, %all`, []string{"x"}, false},
	{"a scan whose sum is read by another", `in %x: float32[5,4,1] const %z: float32[1] = splat 0 %e = Exp(%x) %h, %t = Scan(%z, %z, %e) [num_scan_inputs=1] { body: graph "b" { in %h: float32[1] in %t: float32[1] in %x: float32[4,1]
		const %i: int64[1] = [0] %c = ReduceSum(%x, %i) [keepdims=0] %s = Add(%h, %c) %u = Add(%t, %s) out %s, %u } } out %h, %t`, []string{"x"}, false},
	{"a scan whose sums change places", `in %x: float32[5,4,1] const %z: float32[1] = splat 0 %e = Exp(%x) %h, %t = Scan(%z, %z, %e) [num_scan_inputs=1] { body: graph "b" { in %h: float32[1] in %t: float32[1] in %x: float32[4,1]
		const %i: int64[1] = [0] %c = ReduceSum(%x, %i) [keepdims=0] %s = Add(%h, %c) %u = Sub(%t, %c) out %u, %s } } out %h, %t`, []string{"x"}, false},
	{"a scan that draws", `in %x: float32[5,4,1] %e = Exp(%x) %y, %r = Scan(%e) [num_scan_inputs=1] { body: graph "b" { in %x: float32[4,1]
		%r = RandomNormal() [seed=1.0, shape=[3]] %y = Add(%x, %r) out %y, %r } } %b = Neg(%y) out %b, %r`, []string{"x"}, true},
	{"a scan whose sum begins with ones", `in %x: float32[5,4,3] const %z: float32[3,3] = splat 1 %h = Scan(%z, %x) [num_scan_inputs=1] { body: graph "b" { in %h: float32[3,3] in %x: float32[4,3]
		%s = Gemm(%x, %x, %h) [transA=1] out %s } } out %h`, []string{"x"}, true},
	{"a scan over the batch", `in %x: float32[4] const %z: float32[] = 0 %h = Scan(%z, %x) [num_scan_inputs=1] { body: graph "b" { in %h: float32[] in %x: float32[] %s = Add(%h, %x) out %s } } out %h`, []string{"x"}, true},
	{"a loop", `in %x: float32[5,4,3] const %m: int64[] = 5 const %z: float32[4,3] = splat 0 %h, %ts = Loop(%m, _, %z | %x) { body: graph "b" { in %t: int64[] in %go: bool[] in %h: float32[4,3] in %x: float32[5,4,3]
		%k = Gather(%x, %t) %s = Add(%h, %k) %n = Tanh(%s) out %go, %n, %t } } %a = Neg(%h) out %a, %ts`, []string{"x"}, false},
	{"no batch", `in %x: float32[4] const %z: int64[] = 0 %a = CumSum(%x, %z) out %a`, []string{"x"}, true},
}

// TestParts: a graph in parts computes what it computed.
func TestParts(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { ` + c.text + ` }`)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			var args []ndarray.Value
			for k, p := range g.Params {
				args = append(args, drawn(p, k))
			}
			want, err := ops.Interpret(t.Context(), g, args, nil)
			require.NoError(t, err)
			axes, err := batch.Find(t.Context(), g, c.of)
			require.NoError(t, err)
			if c.whole {
				assert.Nil(t, axes)
				return
			}
			require.NotNil(t, axes)
			for _, parts := range axes.Parts() {
				cut, _ := g.Clone()
				require.NoError(t, batch.Split(t.Context(), cut, axes, parts))
				require.NoError(t, ssa.Check(cut))
				require.Greater(t, len(cut.Nodes), len(g.Nodes))
				got, err := ops.Interpret(t.Context(), cut, args, nil)
				require.NoError(t, err)
				for i := range want {
					near(t, want[i].(*ndarray.Array), got[i].(*ndarray.Array), fmt.Sprintf("%d parts, result %d", parts, i))
				}
			}
		})
	}
}

// drawn is an operand.
func drawn(p *ssa.Value, k int) *ndarray.Array {
	shape, _ := p.Type.Static()
	a := ndarray.Must(p.Type.DType, shape...)
	for i := range a.Len() {
		if a.DType == ndarray.Float32 {
			a.SetFloat(i, math.Sin(float64(i*7+k*3+1)))
		} else {
			a.SetInt(i, int64(i*5+1)%3)
		}
	}
	return a
}

// near compares within 16 roundings of the largest element: sums over the batch are of some hundred terms, in another order.
func near(t *testing.T, want, got *ndarray.Array, what string) {
	require.Equal(t, want.Shape, got.Shape, what)
	largest := 1.0
	for i := range want.Len() {
		largest = max(largest, math.Abs(want.Float(i)))
	}
	for i := range want.Len() {
		require.InDelta(t, want.Float(i), got.Float(i), largest*16/(1<<24), "%s, element %d", what, i)
	}
}

// TestWhole: what can not be cut is told.
func TestWhole(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[4,3] %y: float32[4,3] = Exp(%x) out %y }`)
	require.NoError(t, err)
	axes, err := batch.Find(t.Context(), g, []string{"x"})
	require.NoError(t, err)
	assert.Equal(t, []int{2, 4}, axes.Parts())
	assert.ErrorIs(t, batch.Split(t.Context(), g, axes, 3), batch.ErrWhole)
	assert.ErrorIs(t, batch.Split(t.Context(), g, nil, 2), batch.ErrWhole)
	assert.Nil(t, (*batch.Axes)(nil).Parts())
}

// TestMeanOfHalves: means of parts are not added up in a half type, whose range their sum may be beyond.
func TestMeanOfHalves(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float16[4,3] %e = Neg(%x) %y = ReduceMean(%e) [keepdims=0] out %y }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	x := ndarray.Must(ndarray.Float16, 4, 3)
	for i := range x.Len() {
		x.SetFloat(i, -40000)
	}
	axes, err := batch.Find(t.Context(), g, []string{"x"})
	require.NoError(t, err)
	for _, parts := range axes.Parts() {
		cut, _ := g.Clone()
		require.NoError(t, batch.Split(t.Context(), cut, axes, parts))
		require.NoError(t, ssa.Check(cut))
		got, err := ops.Interpret(t.Context(), cut, []ndarray.Value{x}, nil)
		require.NoError(t, err)
		assert.Equal(t, 40000.0, got[0].(*ndarray.Array).Float(0), "%d parts", parts)
	}
}
