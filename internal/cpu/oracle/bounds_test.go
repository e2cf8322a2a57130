package oracle

import (
	"math"
	"math/rand"
	randv2 "math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ordered are the operators whose kernels compute each element by the operations of its formula in their order, move elements, or add up
// integers, which is exact: there is nothing that another order could change. Elementwise functions are within a few units of the last
// place, which TestUnary, TestBinary and package vec hold.
const ordered = `ms:DynamicQuantizeLSTM DynamicQuantizeLinear Sinh LeakyRelu Less MatMulInteger Concat Reciprocal Softsign Max MaxPool Split Acosh Ceil Swish Shrink
	QuantizeLinear Reshape Sum Min Slice ScatterND Erf Abs Sign HardSigmoid Transpose Pad Log Cosh BitwiseAnd Softplus Pow Or LessOrEqual Cast
	TensorScatter Shape Trilu BitwiseOr GreaterOrEqual ms:BiasGelu Gelu Xor SpaceToDepth Cos ThresholdedRelu SwiGLU OneHot Atan GlobalMaxPool
	Greater Dropout ScatterElements Neg ms:QuickGelu BitwiseNot IsInf Div Identity Gather ConstantOfShape Equal ArgMin Expand Not Sqrt Sin
	DequantizeLinear Acos GatherND HardSwish Sub And ArgMax Size ms:Gelu RotaryEmbedding TopK Exp Atanh CastLike Mul BitwiseXor Round Tan Clip
	Where Tile DepthToSpace Relu IsNaN Flatten Tanh Asin BitShift Unsqueeze Floor Celu Add PRelu Asinh Elu ms:FastGelu ReduceMin ConvInteger
	GatherElements Mean ReduceMax Squeeze Range Sigmoid Mish Selu Mod
	in:BlockedMaxPool in:FromBlocked in:ToBlocked in:BlockedAdd in:BlockedMul in:BlockedGlobalMaxPool`

// reordered are all other operators: their kernels add up or factor in another order than the formula. Each line names where the error
// bound is stated, and the test that holds it against float64 on inputs that are hard to sum: a large mean, terms that cancel, magnitudes of
// many orders.
var reordered = []struct{ ops, stated, test string }{
	{"MatMul Gemm ms:FusedMatMul ms:TransposeMatMul ms:FusedGemm in:MatMul in:Gemm", "kern/gemm/doc.go", "kern/gemm TestErrorBounds"},
	{"ms:FusedMatMulActivation ms:GemmFastGelu", "kern/gemm/doc.go", "kern/gemm TestErrorBounds"}, // functions of such sums
	{"ms:MatMulNBits", "kern/gemm/nbits_bytes.go", "kern/gemm TestNBitsBytesWithinBound"},
	{"in:ConvWeights in:Accumulate in:MaxPoolGradient", "oracle/bounds_test.go", "oracle TestLinearBounds"},
	{"Conv ms:FusedConv in:Conv in:BlockedConv in:BlockedFusedConv", "kern/convolve/doc.go", "kern/convolve TestErrorBounds"},
	{"AveragePool in:BlockedAveragePool GlobalAveragePool in:BlockedGlobalAveragePool", "kern/convolve/doc.go", "kern/convolve TestPoolErrorBounds"},
	{"ReduceSum ReduceMean ReduceL1 ReduceSumSquare Softmax LogSoftmax LayerNormalization RMSNormalization", "kern/vec/doc.go", "kern/vec TestErrorBounds"},
	{"SimplifiedLayerNormalization ms:SimplifiedLayerNormalization ms:SkipLayerNormalization ms:SkipSimplifiedLayerNormalization", "kern/vec/doc.go", "kern/vec TestErrorBounds"},
	{"Attention ms:MultiHeadAttention ms:GroupQueryAttention in:Attention", "kern/attend/doc.go", "kern/attend TestErrorBounds"},
	{"QLinearMatMul QLinearConv in:BlockedQLinearConv ms:QLinearAdd in:BlockedQLinearAdd", "oracle/bounds_test.go", "oracle TestRequantizeBound"},
	{"in:Fused", "kern/vec/doc.go", "fused_test.go TestFusedIsSingleNodes"},
	{"ConvTranspose in:ConvTranspose Einsum CumSum Resize in:BlockedResize GridSample RoiAlign", "oracle/bounds_test.go", "oracle TestLinearBounds"},
	{"ReduceL2 ReduceLogSum ReduceLogSumExp ReduceProd LRN InstanceNormalization GroupNormalization", "oracle/bounds_test.go", "oracle TestRelativeBounds"},
	{"BatchNormalization in:BatchNormalization in:BlockedBatchNormalization", "oracle/bounds_test.go", "oracle TestFoldedBatchNormalization"},
	{"RNN GRU LSTM", "oracle/bounds_test.go", "oracle TestRecurrentBounds"},
}

// TestBoundsAreListed: each operator of the backend's table is in one of the lists, so that one that is new has to be put there; the
// statements and tests that the lists name are there.
func TestBoundsAreListed(t *testing.T) {
	listed := map[ops.Key]int{}
	add := func(names string) {
		for _, name := range strings.Fields(names) {
			domain, op, found := strings.Cut(name, ":")
			if !found {
				domain, op = "", name
			}
			listed[ops.Key{Domain: map[string]string{"ms": microsoft, "in": ops.Private}[domain], Name: op}]++
		}
	}
	add(ordered)
	for _, r := range reordered {
		add(r.ops)
		text, err := os.ReadFile(filepath.Join("..", r.stated))
		require.NoError(t, err, r.ops)
		assert.Regexp(t, regexp.MustCompile(`(?i)within|bound`), string(text), "%s states no bound", r.stated)
		where, name, _ := strings.Cut(r.test, " ")
		files, err := filepath.Glob(filepath.Join("..", where, "*_test.go"))
		require.NoError(t, err)
		if strings.HasSuffix(where, ".go") {
			files = []string{filepath.Join("..", where)}
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {")
		}
		assert.True(t, found, "%s: there is no %s", r.ops, r.test)
	}
	for _, key := range cpu.Operators() {
		assert.Equal(t, 1, listed[key], "%v: say whether its kernel adds up or factors in another order than the formula, and which bound it keeps", key)
		delete(listed, key)
	}
	assert.Empty(t, listed, "these have no kernel")
}

// hardInputs are the operands of sums: those of package kerntest, and numbers from 1e-30 to 1e30 of both signs by such near 1.
func hardInputs(f func(name string, x, w func(rng *randv2.Rand, x, w []float32))) {
	for name, fill := range kerntest.HardInputs {
		f(name, fill, func(rng *randv2.Rand, w, x []float32) { fill(rng, x, w) })
	}
	whole := func(rng *randv2.Rand, x, _ []float32) {
		for i := range x {
			x[i] = float32(math.Copysign(math.Pow(10, 60*rng.Float64()-30), rng.Float64()-0.5))
		}
	}
	f("magnitudes from 1e-30 to 1e30", whole, func(rng *randv2.Rand, w, _ []float32) {
		for i := range w {
			w[i] = float32(rng.NormFloat64())
		}
	})
}

// hard fills an operand.
func (a arg) hard(fill func(rng *randv2.Rand, x, w []float32)) arg {
	a.fill = func(r *rand.Rand, x *ndarray.Array) {
		y := make([]float32, x.Len())
		fill(randv2.New(randv2.NewPCG(r.Uint64(), 1)), ndarray.Slice[float32](x), y)
	}
	return a
}

// wide is the result of the reference kernel in float64: of the operands, with the magnitudes of those whose bit is set.
func (b *bench) wide(t *testing.T, magnitudes int) []*ndarray.Array {
	k := b.opCase
	k.in = append([]arg(nil), k.in...)
	for i, a := range k.in {
		if a.absent {
			continue
		}
		x := b.in[i]
		if a.dt == ndarray.Float32 {
			a.dt = ndarray.Float64
		}
		a.fill = func(_ *rand.Rand, y *ndarray.Array) {
			for j := range y.Len() {
				if v := x.Float(j); magnitudes>>i&1 != 0 && y.DType.IsFloat() {
					y.SetFloat(j, math.Abs(v))
				} else {
					y.SetFloat(j, v)
				}
			}
		}
		k.in[i] = a
	}
	return k.build(t, 1).want
}

// TestLinearBounds: an operator that is linear in each of its operands has an error of at most roundings·2⁻²⁴ times its result for the
// magnitudes of the operands, which is Σ|terms|, in any order of its sums. Roundings are one for each term of a sum, one for each factor of a term, and
// those of the coefficients that a kernel derives from coordinates.
func TestLinearBounds(t *testing.T) {
	scales := func(v ...float32) arg {
		return arg{dt: ndarray.Float32, shape: []int{len(v)}, konst: true, fill: func(_ *rand.Rand, a *ndarray.Array) { copy(ndarray.Slice[float32](a), v) }}
	}
	linear := []ssa.Attr{ssa.StringAttr("mode", "linear")}
	hardInputs(func(name string, x, w func(*randv2.Rand, []float32, []float32)) {
		for _, c := range []struct {
			k         opCase
			roundings float64
		}{
			{opCase{op: "MatMul", in: []arg{f32s(9, 700).hard(x), f32s(700, 33).hard(w)}}, 702},
			{opCase{op: "MatMul", in: []arg{f32s(3, 1, 4099).hard(x), f32s(4099, 40).hard(w).c()}}, 4101},
			{opCase{op: "Gemm", in: []arg{f32s(20, 300).hard(x), f32s(300, 17).hard(w), f32s(17).hard(x)}}, 304},
			{opCase{op: "Conv", in: []arg{f32s(1, 40, 9, 9).hard(x), f32s(17, 40, 5, 5).hard(w).c()}}, 1003},
			{opCase{op: "Conv", in: []arg{f32s(1, 300, 5, 6).hard(x), f32s(20, 300, 1, 1).hard(w).c()}}, 303},
			{opCase{op: "ConvTranspose", in: []arg{f32s(1, 40, 6, 7).hard(x), f32s(40, 9, 3, 3).hard(w).c()}, attrs: lists("strides", []int{2, 2})}, 364},
			{opCase{op: "ConvTranspose", in: []arg{f32s(1, 8, 30).hard(x), f32s(8, 5, 4).hard(w)}}, 36},
			{einsumCase("ik,kj->ij", false).refilled(x, w), 64},
			{opCase{op: "Einsum", in: []arg{f32s(2, 3, 400).hard(x), f32s(2, 5, 400).hard(w)}, attrs: strs("equation", "bik,bjk->bij")}, 403},
			{opCase{op: "Einsum", in: []arg{f32s(7, 90).hard(x), f32s(90, 5).hard(w), f32s(5, 6).hard(w)}, attrs: strs("equation", "ij,jk,kl->il")}, 100},
			{opCase{op: "CumSum", in: []arg{f32s(3, 1000).hard(x), scalarOf(ndarray.Int64, 1)}}, 1001},
			{opCase{op: "CumSum", in: []arg{f32s(1000, 3).hard(x), scalarOf(ndarray.Int64, 0)}, attrs: []ssa.Attr{ssa.IntAttr("reverse", 1)}}, 1001},
			{opCase{op: "ReduceSum", in: []arg{f32s(5, 3000).hard(x), ints(1)}}, 3001},
			{opCase{op: "ReduceMean", in: []arg{f32s(3000, 5).hard(x), ints(0)}}, 3002},
			{opCase{op: "GlobalAveragePool", in: []arg{f32s(2, 5, 40, 41).hard(x)}}, 1642},
			{opCase{op: "AveragePool", in: []arg{f32s(1, 17, 20, 21).hard(x)}, attrs: lists("kernel_shape", []int{7, 5}, "strides", []int{2, 1})}, 37},
			{backwardCase("ConvWeights", f32s(2, 20, 30, 31), 9, []int{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1, 1, 1}).refilled(x, w), 1863},
			{backwardCase("MaxPoolGradient", f32s(2, 3, 30, 31), 3, []int{3, 3}, []int{1, 1}, []int{1, 1}, []int{0, 0, 0, 0}).gradient(w), 10},
			{opCase{domain: ops.Private, op: "Accumulate", in: []arg{f32s(700, 30).hard(x), f32s(700, 50).hard(w), f32s(30, 50).hard(x)}, attrs: []ssa.Attr{ssa.IntAttr("transA", 1)}}, 704},
			{opCase{op: "Resize", in: []arg{f32s(1, 17, 9, 10).hard(x), absent, scales(1, 1, 2, 2)}, attrs: linear}, 10},
			{opCase{op: "Resize", in: []arg{f32s(1, 3, 29, 30).hard(x), absent, scales(1, 1, 0.3, 0.7)}, attrs: append(linear, ssa.IntAttr("antialias", 1))}, 40},
		} {
			c.k.name = name
			t.Run(c.k.String(), func(t *testing.T) {
				b := c.k.build(t, 1)
				of, chooses := summed[c.k.op]
				if !chooses {
					of = -1
				}
				exact, terms := b.wide(t, 0), b.wide(t, of)
				claimed := 0
				b.eachLevel(t, func(level string, i int, _, got *ndarray.Array) {
					claimed++
					requireWithin(t, level, exact[i], got, func(j int) float64 { return c.roundings * 0x1p-24 * terms[i].Float(j) })
				})
				require.NotZero(t, claimed, "there is no kernel")
			})
		}
		// Weights of neighbours of a coordinate are off by roundings of 1, not of themselves: the bound is one of the largest of their terms.
		grid, regions := f32s(2, 20, 30, 2).between(-1.4, 1.4), f32s(9, 4).between(-6, 30)
		for _, k := range []opCase{
			{op: "GridSample", in: []arg{f32s(2, 3, 7, 9).hard(x), grid}, attrs: strs("mode", "linear", "padding_mode", "border")},
			{op: "RoiAlign", in: []arg{f32s(2, 19, 8, 9).hard(x), regions, tensor(ndarray.Int64, 9).between(0, 1)}, attrs: []ssa.Attr{ssa.IntAttr("output_height", 3), ssa.IntAttr("output_width", 5)}},
		} {
			k.name = name
			t.Run(k.String(), func(t *testing.T) {
				b, most, claimed := k.build(t, 1), 0.0, 0
				exact := b.wide(t, 0)
				for i := range b.in[0].Len() {
					most = max(most, math.Abs(b.in[0].Float(i)))
				}
				b.eachLevel(t, func(level string, i int, _, got *ndarray.Array) {
					claimed++
					requireWithin(t, level, exact[i], got, func(int) float64 { return 64 * 0x1p-24 * most })
				})
				require.NotZero(t, claimed, "there is no kernel")
			})
		}
	})
}

// summed are the operands that are added up, by bits, where others choose or are coordinates.
var summed = map[string]int{"MaxPoolGradient": 1 << 1}

// requireWithin reports the first element that is further away than the bound allows, beside what underflow loses.
func requireWithin(t *testing.T, what string, want, got *ndarray.Array, bound func(i int) float64) {
	t.Helper()
	for i := range want.Len() {
		if w, g := want.Float(i), got.Float(i); !(math.Abs(g-w) <= bound(i)+1e-37) {
			require.Fail(t, "out of bound", "%s: element %d is %g instead of %g: %g, where the bound is %g", what, i, g, w, math.Abs(g-w), bound(i))
		}
	}
}

// refilled gives both operands of a product hard numbers.
func (k opCase) refilled(x, w func(*randv2.Rand, []float32, []float32)) opCase {
	k.in = []arg{k.in[0].hard(x), k.in[1].hard(w)}
	return k
}

// gradient gives operand 1 hard numbers.
func (k opCase) gradient(w func(*randv2.Rand, []float32, []float32)) opCase {
	k.in = []arg{k.in[0], k.in[1].hard(w)}
	return k
}

// TestRequantizeBound: what is made of an exact sum of integers by r roundings of float32 is the integer that the real number rounds to, but where
// that lies within r·2⁻²⁴ of itself, and of the zero points by their factors in a QLinearAdd, of the middle between two.
func TestRequantizeBound(t *testing.T) {
	value := func(b *bench, i int) float64 { return b.in[i].Float(0) }
	for _, dt := range []ndarray.DType{u8, i8} {
		for _, k := range []int{7, 300, 3000} {
			scale := func(v float64) arg { return f32s().between(v/2, v) }
			x, w := tensor(dt, 9, k), tensor(dt, k, 33)
			for _, c := range []struct {
				k     opCase
				exact func(b *bench, o int) (v, slack float64)
			}{
				{opCase{op: "QLinearMatMul", in: []arg{x, scale(0.1), tensor(dt), w.c(), scale(0.1), tensor(dt), scale(float64(k) / 3), tensor(dt)}}, func(b *bench, o int) (float64, float64) {
					sum := 0.0
					for j := range k {
						sum += (b.in[0].Float(o/33*k+j) - value(b, 2)) * (b.in[3].Float(j*33+o%33) - value(b, 5))
					}
					v := sum * value(b, 1) * value(b, 4) / value(b, 6)
					return v + value(b, 7), 5 * 0x1p-24 * math.Abs(v)
				}},
				{opCase{op: "QLinearConv", in: []arg{tensor(dt, 1, k, 3, 3), scale(0.1), tensor(dt), tensor(dt, 33, k, 1, 1).c(), scale(0.1), tensor(dt).c(), scale(float64(k) / 3), tensor(dt)}}, func(b *bench, o int) (float64, float64) {
					sum := 0.0
					for j := range k {
						sum += (b.in[0].Float(j*9+o%9) - value(b, 2)) * (b.in[3].Float(o/9*k+j) - value(b, 5))
					}
					v := sum * value(b, 1) * value(b, 4) / value(b, 6)
					return v + value(b, 7), 5 * 0x1p-24 * math.Abs(v)
				}},
				{opCase{domain: microsoft, op: "QLinearAdd", in: []arg{tensor(dt, k), scale(0.1), tensor(dt), tensor(dt, k), scale(0.3), tensor(dt), scale(0.2), tensor(dt)}}, func(b *bench, o int) (float64, float64) {
					fa, fb := value(b, 1)/value(b, 6), value(b, 4)/value(b, 6)
					v := (b.in[0].Float(o)-value(b, 2))*fa + (b.in[3].Float(o)-value(b, 5))*fb + value(b, 7)
					return v, 3 * 0x1p-24 * (512*fa + 512*fb + 256)
				}},
			} {
				t.Run(c.k.String(), func(t *testing.T) {
					b, claimed := c.k.build(t, 2), 0
					least := map[ndarray.DType]float64{u8: 0, i8: -128}[dt]
					b.eachLevel(t, func(level string, _ int, _, got *ndarray.Array) {
						claimed++
						for o := range got.Len() {
							v, slack := c.exact(b, o)
							v = min(max(v, least), least+255)
							require.LessOrEqual(t, math.Abs(got.Float(o)-v), 0.5+slack, "%s: element %d is %g, not %g", level, o, got.Float(o), v)
						}
					})
					require.NotZero(t, claimed, "there is no kernel")
				})
			}
		}
	}
}

// TestRelativeBounds: functions of sums, with u = 2⁻²⁴ and n elements that are added up or multiplied:
//
//	ReduceProd                    n·u relative
//	ReduceL2                      (n/2 + 2)·u relative
//	ReduceLogSum                  (n + 2)·u + 2u·|y|, for positive elements
//	ReduceLogSumExp               (n + 8)·u + 2u·(|y| + max|x|)
//	LRN                           (size + 16)·u relative
//	Instance-, GroupNormalization (n + 4)·u·(mean|x|/σ + |z|·n)·|scale| + 3u·(|z·scale| + |bias|), z = (x − mean)/σ
func TestRelativeBounds(t *testing.T) {
	const u, n = 0x1p-24, 1000
	epsilon := []ssa.Attr{ssa.FloatAttr("epsilon", 1e-3)}
	for _, axis := range []int64{0, 1} {
		shape := []int{5, n}
		if axis == 0 {
			shape = []int{n, 5}
		}
		relative := func(r float64) func(y float64, _ *bench) float64 {
			return func(y float64, _ *bench) float64 { return r * u * math.Abs(y) }
		}
		within := func(k opCase, bound func(y float64, b *bench) float64) {
			t.Run(k.String(), func(t *testing.T) {
				b, claimed := k.build(t, 3), 0
				exact := b.wide(t, 0)
				b.eachLevel(t, func(level string, i int, _, got *ndarray.Array) {
					claimed++
					requireWithin(t, level, exact[i], got, func(j int) float64 { return bound(exact[i].Float(j), b) })
				})
				require.NotZero(t, claimed, "there is no kernel")
			})
		}
		within(opCase{op: "ReduceProd", in: []arg{f32s(shape...).between(-1.6, 1.6), ints(axis)}}, relative(n))
		within(opCase{op: "ReduceProd", in: []arg{f32s(shape...).between(0.9, 1.1), ints(axis)}}, relative(n))
		hardInputs(func(name string, x, _ func(*randv2.Rand, []float32, []float32)) {
			magnitude := func(a arg) arg {
				fill := a.fill
				a.fill = func(r *rand.Rand, x *ndarray.Array) {
					fill(r, x)
					for i := range x.Len() {
						x.SetFloat(i, math.Abs(x.Float(i)))
					}
				}
				return a
			}
			h := f32s(shape...).hard(x)
			if !strings.HasPrefix(name, "magnitudes") { // whose squares leave float32
				within(opCase{op: "ReduceL2", name: name, in: []arg{h, ints(axis)}}, relative(n/2+2))
			}
			within(opCase{op: "ReduceLogSum", name: name, in: []arg{magnitude(h), ints(axis)}}, func(y float64, _ *bench) float64 { return (n+2)*u + 2*u*math.Abs(y) })
			if axis == 0 {
				return // left to the reference kernel
			}
			within(opCase{op: "ReduceLogSumExp", name: name, in: []arg{h, ints(axis)}}, func(y float64, b *bench) float64 {
				most := 0.0
				for i := range b.in[0].Len() {
					most = max(most, math.Abs(b.in[0].Float(i)))
				}
				return (n+8)*u + 2*u*(math.Abs(y)+most)
			})
		})
	}
	hardInputs(func(name string, x, _ func(*randv2.Rand, []float32, []float32)) {
		if strings.HasPrefix(name, "magnitudes") {
			return
		}
		k := opCase{op: "LRN", name: name, in: []arg{f32s(2, 33, 4, 5).hard(x)}, attrs: []ssa.Attr{ssa.IntAttr("size", 5), ssa.FloatAttr("alpha", 1e-2)}}
		t.Run(k.String(), func(t *testing.T) {
			b := k.build(t, 4)
			exact := b.wide(t, 0)
			b.eachLevel(t, func(level string, i int, _, got *ndarray.Array) {
				requireWithin(t, level, exact[i], got, func(j int) float64 { return 21 * u * math.Abs(exact[i].Float(j)) })
			})
		})
		for _, k := range []opCase{
			{op: "InstanceNormalization", name: name, in: []arg{f32s(2, 3, 20, 25).hard(x), f32s(3), f32s(3)}, attrs: epsilon},
			{op: "GroupNormalization", name: name, in: []arg{f32s(1, 6, 10, 25).hard(x), f32s(6), f32s(6)}, attrs: append([]ssa.Attr{ssa.IntAttr("num_groups", 3)}, epsilon...)},
		} {
			t.Run(k.String(), func(t *testing.T) {
				b := k.build(t, 4)
				exact := b.wide(t, 0)
				const group = 500
				b.eachLevel(t, func(level string, i int, _, got *ndarray.Array) {
					channels := b.in[1].Len()
					requireWithin(t, level, exact[i], got, func(j int) float64 {
						first, c := j/group*group, j/(got.Len()/got.Shape[0]/channels)%channels
						mean, abs, variance := 0.0, 0.0, 0.0
						for m := range group {
							v := b.in[0].Float(first + m)
							mean, abs = mean+v/group, abs+math.Abs(v)/group
						}
						for m := range group {
							v := b.in[0].Float(first+m) - mean
							variance += v * v / group
						}
						sigma := math.Sqrt(variance + 1e-3)
						z, scale, bias := (b.in[0].Float(j)-mean)/sigma, b.in[1].Float(c), b.in[2].Float(c)
						return (group+4)*u*(abs/sigma+math.Abs(z)*group)*math.Abs(scale) + 3*u*(math.Abs(z*scale)+math.Abs(bias))
					})
				})
			})
		}
	})
}

// TestFoldedBatchNormalization: x·a + b with a = scale/√(variance + ε) and b = bias − mean·a is within 4·2⁻²⁴·(|x·a| + |mean·a| + |bias|).
func TestFoldedBatchNormalization(t *testing.T) {
	hardInputs(func(name string, x, _ func(*randv2.Rand, []float32, []float32)) {
		for _, konst := range []bool{true, false} {
			k := opCase{op: "BatchNormalization", name: name, in: []arg{f32s(2, 5, 9, 11).hard(x), f32s(5), f32s(5), f32s(5).between(9e3, 1.1e4), f32s(5).between(0.1, 2)}}
			for i := 1; konst && i < 5; i++ {
				k.in[i] = k.in[i].c()
			}
			t.Run(k.String(), func(t *testing.T) {
				b, claimed := k.build(t, 5), 0
				exact := b.wide(t, 0)
				b.eachLevel(t, func(level string, i int, _, got *ndarray.Array) {
					claimed++
					requireWithin(t, level, exact[i], got, func(j int) float64 {
						c := j / 99 % 5
						a := math.Abs(b.in[1].Float(c)) / math.Sqrt(b.in[4].Float(c)+1e-5)
						return 4 * 0x1p-24 * (math.Abs(b.in[0].Float(j))*a + math.Abs(b.in[3].Float(c))*a + math.Abs(b.in[2].Float(c)))
					})
				})
				require.NotZero(t, claimed, "there is no kernel")
			})
		}
	})
}

// TestRecurrentBounds: a step of a layer with n inputs, from a state of zeros, has an error of at most 3e/2 + 16·2⁻²⁴, where e = (n + 4)·2⁻²⁴·Σ|w·x|,
// biases among the terms, bounds that of a gate's sum: no activation is steeper than 1, and gates lie between 0 and 1. A step that
// starts from a state with an error δ has a term more, Σ|r|·δ, in e.
func TestRecurrentBounds(t *testing.T) {
	const input, hidden = 300, 16
	for op, gates := range gatesOf {
		hardInputs(func(name string, x, w func(*randv2.Rand, []float32, []float32)) {
			if strings.HasPrefix(name, "magnitudes") {
				return // no gate is anything but saturated
			}
			k := layer(op, 1, 2, input, hidden, 1, true)
			k.name = name
			k.in[0], k.in[1] = k.in[0].hard(x), k.in[1].hard(w).c()
			t.Run(k.String(), func(t *testing.T) {
				b, claimed := k.build(t, 6), 0
				exact := b.wide(t, 0)
				b.eachLevel(t, func(level string, i int, _, got *ndarray.Array) {
					claimed++
					if i == 2 {
						return // the cells are a product of gates, which the states bound
					}
					requireWithin(t, level, exact[i], got, func(j int) float64 {
						e, batch, unit := 0.0, j/hidden%2, j%hidden
						for g := range gates {
							row := g*hidden + unit
							sum := math.Abs(b.in[3].Float(row)) + math.Abs(b.in[3].Float(gates*hidden+row))
							for m := range input {
								sum += math.Abs(b.in[0].Float(batch*input+m) * b.in[1].Float(row*input+m))
							}
							e = max(e, (input+4)*0x1p-24*sum)
						}
						return 1.5*e + 16*0x1p-24
					})
				})
				require.NotZero(t, claimed, "there is no kernel")
			})
		})
	}
}
