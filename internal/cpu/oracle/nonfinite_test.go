package oracle

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The special values that are sown among the operands of drawn cases.
var (
	specials = []float64{nan, math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e-40}
	huges    = []float64{3e38, -3e38, 1e30, -1e20, 1e-40, math.Copysign(0, -1)}
)

// nonFiniteDraws is how often each operator is drawn with each set of special values.
const nonFiniteDraws = 30

// unsown are operands (-1: all) in which a special value has no agreed meaning: NaN as a
// coordinate of a region; infinite weights times the zeros of padding, which the definition of
// Conv counts and the reference kernel skips.
var unsown = map[string]int{"RoiAlign": 1, "Conv": 1, "FusedConv": 1}

// TestNonFinite: for every operator that has a fast kernel, at every level and for one, two and five
// threads, results are NaN, infinite of either sign or finite at the same places as those of the reference kernel, whatever the
// operands hold, and results that are integers are the same; a huge value changes no result that does not depend on it.
func TestNonFinite(t *testing.T) {
	for _, d := range drawers {
		for _, name := range strings.Fields(d.ops) {
			domain, op := "", name
			if rest, ok := strings.CutPrefix(name, "ms:"); ok {
				domain, op = microsoft, rest
			}
			t.Run(name, func(t *testing.T) {
				h := fnv.New64a()
				fmt.Fprint(h, "non-finite", domain, op)
				r := rand.New(rand.NewSource(int64(h.Sum64())))
				for i := range 2 * nonFiniteDraws {
					k := d.draw(&dice{r}, op)
					k.domain, k.op, k.mayFail = domain, op, true
					if i%2 == 0 {
						t.Run(fmt.Sprint("special ", i), func(t *testing.T) { k.withSpecials(t, int64(i)) })
					} else {
						t.Run(fmt.Sprint("huge ", i), func(t *testing.T) { k.withHuges(t, int64(i)) })
					}
				}
			})
		}
	}
}

// sown returns the case with up to two elements of each operand of floats replaced by some
// of the values; without values, the case that differs in these elements alone.
func (k opCase) sown(values []float64) opCase {
	k.in = slices.Clone(k.in)
	skip, has := unsown[k.op]
	for i, a := range k.in {
		if !a.absent && a.dt.IsFloat() && !(has && (skip < 0 || i == skip)) {
			k.in[i] = a.sown(values)
		}
	}
	return k
}

func (a arg) sown(values []float64) arg {
	fill := a.fill
	a.fill = func(r *rand.Rand, x *ndarray.Array) {
		fill(r, x)
		r = rand.New(rand.NewSource(r.Int63()))
		for range r.Intn(3) {
			if x.Len() > 0 && len(values) > 0 {
				x.SetFloat(r.Intn(x.Len()), values[r.Intn(len(values))])
			}
		}
	}
	return a
}

// withSpecials compares where results are NaN or infinite.
func (k opCase) withSpecials(t *testing.T, seed int64) {
	b := k.sown(specials).build(t, seed)
	b.eachLevel(t, func(level string, i int, want, got *ndarray.Array) {
		b.comparePlaces(t, fmt.Sprintf("%s result %d", level, i), want, got)
	})
}

// withHuges compares the results that a huge value does not change.
func (k opCase) withHuges(t *testing.T, seed int64) {
	k.compareUnreached(t, k.sown(huges).build(t, seed), k.sown(nil).build(t, seed))
}

// compareUnreached compares the results of a case that are the same in another one, which differs by huge values.
func (k opCase) compareUnreached(t *testing.T, b, plain *bench) {
	b.eachLevel(t, func(level string, r int, want, got *ndarray.Array) {
		if len(plain.want) == 0 || !slices.Equal(plain.want[r].Shape, want.Shape) {
			return
		}
		for i := range want.Len() {
			w, g := want.Float(i), got.Float(i)
			if w == plain.want[r].Float(i) && w != g && !(math.Abs(w-g) <= max(k.tol, 1e-4)*(1+math.Abs(w))) {
				t.Errorf("%v\n%s result %d: element %d is %g instead of %g, which no huge value reaches", b.opCase, level, r, i, g, w)
				return
			}
		}
	})
}

// eachLevel runs the fast kernel at every level, prepared for one, two and five threads, and hands over the results.
func (b *bench) eachLevel(t *testing.T, compare func(level string, i int, want, got *ndarray.Array)) {
	if b.want == nil {
		return // the reference kernel refuses such operands
	}
	was := machine.Active()
	defer func() { require.NoError(t, machine.Use(was)) }()
	for _, l := range machine.Levels() {
		require.NoError(t, machine.Use(l))
		for _, threads := range []int{1, 2, 5} {
			b.onThreads(t, threads, func(i int, want, got *ndarray.Array) {
				compare(fmt.Sprintf("%s, %d threads,", l, threads), i, want, got)
			})
		}
	}
}

// onThreads runs the fast kernel, if there is one, on so many threads.
func (b *bench) onThreads(t *testing.T, threads int, compare func(i int, want, got *ndarray.Array)) {
	p, err := cpu.New().Prepare(t.Context(), b.node, threads)
	require.NoError(t, err)
	if p.Kernel == nil {
		return
	}
	got := b.results()
	err = p.Kernel.Run(b.call(p, b.cloned(), got, threads))
	if b.fails {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	for i, want := range b.want {
		if want != nil {
			compare(i, want, got[i])
		}
	}
}

// comparePlaces reports the first element that is finite, infinite or NaN in one result
// only, or another integer.
func (b *bench) comparePlaces(t *testing.T, what string, want, got *ndarray.Array) {
	for i := range want.Len() {
		w, g := want.Float(i), got.Float(i)
		if placeOf(w) != placeOf(g) || !want.DType.IsFloat() && w != g {
			t.Errorf("%v\n%s: element %d is %g instead of %g", b.opCase, what, i, g, w)
			return
		}
	}
}

// compareFinite reports the first element that is finite in one result only.
func (b *bench) compareFinite(t *testing.T, what string, want, got *ndarray.Array) {
	for i := range want.Len() {
		if w, g := want.Float(i), got.Float(i); (w-w == 0) != (g-g == 0) {
			t.Errorf("%v\n%s: element %d is %g instead of %g", b.opCase, what, i, g, w)
			return
		}
	}
}

// placeOf is the class of a result.
func placeOf(v float64) string {
	switch {
	case v != v:
		return "NaN"
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return "finite"
}

// TestNonFiniteInEachOperand: one NaN, one infinity, one huge number at some places of each operand, for shapes by which kernels choose among their
// algorithms: products with tails, panels, splits and batches, convolutions of every kind, rows that are cut, columns.
func TestNonFiniteInEachOperand(t *testing.T) {
	conv := func(x, w []int, attrs ...ssa.Attr) opCase {
		return opCase{op: "Conv", in: []arg{f32s(x...), f32s(w...).c(), f32s(w[0])}, attrs: attrs, tol: 1e-4}
	}
	scales := func(v ...float64) arg {
		return arg{dt: ndarray.Float32, shape: []int{len(v)}, konst: true, fill: func(_ *rand.Rand, a *ndarray.Array) {
			for i := range v {
				a.SetFloat(i, v[i])
			}
		}}
	}
	pads, axis := lists("pads", []int{1, 1, 1, 1}), func(a int64) []ssa.Attr { return axisAttr(a) }
	epsilon := ssa.FloatAttr("epsilon", 1e-3)
	for _, k := range []opCase{
		{op: "MatMul", in: []arg{f32s(33, 700), f32s(700, 45)}},
		{op: "MatMul", in: []arg{f32s(33, 700), f32s(700, 45).c()}},
		{op: "MatMul", in: []arg{f32s(1, 900), f32s(900, 130).c()}},
		{op: "MatMul", in: []arg{f32s(300), f32s(300, 7)}},
		{op: "MatMul", in: []arg{f32s(5, 6, 40), f32s(5, 40, 9)}},
		{op: "MatMul", in: []arg{f32s(3, 2, 8, 24), f32s(2, 24, 50)}},
		{op: "Gemm", in: []arg{f32s(3, 70), f32s(70, 33), f32s(33)}},
		{op: "Gemm", in: []arg{f32s(70, 30), f32s(41, 30).c(), f32s(70, 1)}, attrs: []ssa.Attr{ssa.IntAttr("transB", 1), ssa.FloatAttr("beta", 0.5)}},
		{op: "FusedGemm", domain: microsoft, in: []arg{f32s(30, 70), f32s(70, 33).c(), f32s(33)}, attrs: strs("activation", "Relu")},
		{op: "FusedGemm", domain: microsoft, in: []arg{f32s(30, 70), f32s(70, 33).c(), f32s(33)}, attrs: strs("activation", "Tanh")},
		conv([]int{1, 64, 20, 21}, []int{40, 64, 3, 3}, pads...),
		conv([]int{1, 3, 30, 31}, []int{32, 3, 3, 3}, append(pads, lists("strides", []int{2, 2})...)...),
		conv([]int{1, 20, 30, 31}, []int{33, 20, 1, 1}),
		conv([]int{2, 24, 15, 16}, []int{24, 1, 3, 3}, grouped(24, pads...)...),
		conv([]int{1, 12, 15, 16}, []int{18, 4, 3, 3}, grouped(3)...),
		conv([]int{1, 16, 12, 13}, []int{20, 16, 5, 5}, lists("dilations", []int{2, 2})...),
		conv([]int{1, 8, 100}, []int{9, 8, 5}),
		conv([]int{1, 8, 6, 12, 12}, []int{16, 8, 3, 3, 3}),
		{op: "ConvTranspose", in: []arg{f32s(1, 20, 9, 10), f32s(20, 17, 4, 4).c(), f32s(17)}, attrs: lists("strides", []int{2, 2}, "pads", []int{1, 1, 1, 1})},
		{op: "ConvTranspose", in: []arg{f32s(1, 6, 9, 10), f32s(6, 3, 2, 2), f32s(6)}, attrs: grouped(2, lists("strides", []int{2, 2})...)},
		{op: "MaxPool", in: []arg{f32s(1, 33, 20, 21)}, attrs: append(pads, lists("kernel_shape", []int{3, 3}, "strides", []int{2, 2})...)},
		{op: "AveragePool", in: []arg{f32s(1, 33, 20, 21)}, attrs: append(pads, lists("kernel_shape", []int{3, 3})...)},
		{op: "GlobalAveragePool", in: []arg{f32s(2, 17, 20, 21)}}, {op: "GlobalMaxPool", in: []arg{f32s(2, 17, 20, 21)}},
		{op: "Softmax", in: []arg{f32s(5, 900)}, attrs: axis(1)}, {op: "Softmax", in: []arg{f32s(90, 70)}, attrs: axis(0)},
		{op: "LogSoftmax", in: []arg{f32s(5, 900)}, attrs: axis(1)}, {op: "LogSoftmax", in: []arg{f32s(90, 70)}, attrs: axis(0)},
		{op: "LayerNormalization", in: []arg{f32s(6, 700), f32s(700), f32s(700)}, attrs: []ssa.Attr{epsilon}},
		{op: "RMSNormalization", in: []arg{f32s(6, 700), f32s(700)}, attrs: []ssa.Attr{epsilon}},
		{op: "SkipLayerNormalization", domain: microsoft, in: []arg{f32s(2, 3, 300), f32s(2, 3, 300), f32s(300), f32s(300), f32s(300)}, outs: 4, unused: []int{1, 2}, attrs: []ssa.Attr{epsilon}},
		{op: "InstanceNormalization", in: []arg{f32s(2, 5, 20, 21), f32s(5), f32s(5)}, attrs: []ssa.Attr{epsilon}},
		{op: "GroupNormalization", in: []arg{f32s(2, 6, 20, 21), f32s(6), f32s(6)}, attrs: []ssa.Attr{epsilon, ssa.IntAttr("num_groups", 3)}},
		{op: "BatchNormalization", in: []arg{f32s(2, 6, 20, 21), f32s(6), f32s(6), f32s(6), f32s(6).between(0.1, 2)}, attrs: []ssa.Attr{epsilon}},
		{op: "BatchNormalization", in: []arg{f32s(2, 6, 20, 21), f32s(6).c(), f32s(6).c(), f32s(6).c(), f32s(6).between(0.1, 2).c()}, attrs: []ssa.Attr{epsilon}},
		{op: "LRN", in: []arg{f32s(2, 33, 9, 10)}, attrs: []ssa.Attr{ssa.IntAttr("size", 5)}},
		{op: "CumSum", in: []arg{f32s(5, 700), scalarOf(ndarray.Int64, 1)}}, {op: "CumSum", in: []arg{f32s(300, 40), scalarOf(ndarray.Int64, 0)}},
		{op: "ArgMax", in: []arg{f32s(9, 700)}, attrs: axis(1)}, {op: "ArgMax", in: []arg{f32s(300, 40)}, attrs: axis(0)},
		{op: "ArgMin", in: []arg{f32s(9, 700)}, attrs: append(axis(1), ssa.IntAttr("select_last_index", 1))},
		{op: "TopK", in: []arg{f32s(9, 700), ints(5)}, outs: 2, attrs: axis(1)}, {op: "TopK", in: []arg{f32s(9, 700), ints(690)}, outs: 2, attrs: append(axis(1), ssa.IntAttr("largest", 0))},
		{op: "Resize", in: []arg{f32s(1, 17, 9, 10), absent, scales(1, 1, 2, 2)}, attrs: strs("mode", "linear")},
		{op: "Resize", in: []arg{f32s(1, 3, 19, 20), absent, scales(1, 1, 0.4, 1.7)}, attrs: strs("mode", "cubic")},
		{op: "Resize", in: []arg{f32s(1, 3, 19, 20), absent, scales(1, 1, 0.4, 0.3)}, attrs: append(strs("mode", "linear"), ssa.IntAttr("antialias", 1))},
		{op: "Resize", in: []arg{f32s(1, 3, 19, 20), absent, scales(1, 1, 2, 3)}, attrs: strs("mode", "nearest")},
		{op: "GridSample", in: []arg{f32s(2, 3, 17, 19), f32s(2, 25, 26, 2).between(-1.2, 1.2)}, attrs: strs("mode", "linear")},
		{op: "Einsum", in: []arg{f32s(2, 3, 40), f32s(2, 5, 40)}, attrs: strs("equation", "bik,bjk->bij")},
		{op: "Einsum", in: []arg{f32s(7, 90), f32s(90, 5), f32s(5, 6)}, attrs: strs("equation", "ij,jk,kl->il")},
		layer("LSTM", 6, 2, 17, 20, 2, true), layer("GRU", 6, 2, 17, 20, 2, false), layer("RNN", 6, 3, 17, 20, 1, true),
		backwardCase("ConvWeights", f32s(2, 20, 30, 31), 9, []int{3, 3}, []int{1, 1}, []int{1, 1}, []int{0, 0, 0, 0}),
		backwardCase("MaxPoolGradient", f32s(2, 3, 30, 31), 3, []int{2, 2}, []int{2, 2}, []int{1, 1}, []int{0, 0, 0, 0}),
		{domain: ops.Private, op: "Accumulate", in: []arg{f32s(40, 30), f32s(40, 50), f32s(30, 50)}, attrs: []ssa.Attr{ssa.IntAttr("transA", 1)}},
	} {
		k.mayFail = true
		for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"} {
			if k.op == "CumSum" { // the same shapes
				r := opCase{op: op, in: []arg{k.in[0].between(0.9, 1.1), ints(int64(map[int]int{5: 1, 300: 0}[k.in[0].shape[0]]))}, mayFail: true}
				r.eachNonFinite(t)
			}
		}
		k.eachNonFinite(t)
	}
}

// eachNonFinite runs a case with one number in one operand at a time that is not finite, or huge.
func (k opCase) eachNonFinite(t *testing.T) {
	padded := slices.ContainsFunc(k.attrs, func(a ssa.Attr) bool { return a.Name == "pads" && slices.Max(a.Ints) > 0 })
	for i, a := range k.in {
		if a.absent || !a.dt.IsFloat() || k.op == "Resize" && i > 0 || k.op == "Conv" && i == 1 && padded || k.op == "GridSample" && i == 1 {
			continue
		}
		for s, v := range []float64{nan, math.Inf(1), math.Inf(-1), 3e38} {
			for draw := range int64(2) {
				c := k
				c.in = slices.Clone(k.in)
				c.in[i] = a.one(v)
				c.name = fmt.Sprintf("%g in operand %d", v, i)
				t.Run(fmt.Sprint(c.String(), " ", draw), func(t *testing.T) {
					seed := 8*int64(s) + draw + 1
					if v != 3e38 {
						b := c.build(t, seed)
						b.eachLevel(t, func(level string, r int, want, got *ndarray.Array) {
							if what := fmt.Sprintf("%s result %d", level, r); k.op == "Einsum" && len(k.in) > 2 {
								b.compareFinite(t, what, want, got) // which factors out: Inf·(1 − 2), not Inf·1 − Inf·2
							} else {
								b.comparePlaces(t, what, want, got)
							}
						})
						return
					}
					plain := k
					plain.in = slices.Clone(k.in)
					plain.in[i] = a.one()
					c.compareUnreached(t, c.build(t, seed), plain.build(t, seed))
				})
			}
		}
	}
}

// one replaces an element by a value, if there is one given; it draws the same other elements without.
func (a arg) one(v ...float64) arg {
	fill := a.fill
	a.fill = func(r *rand.Rand, x *ndarray.Array) {
		fill(r, x)
		r = rand.New(rand.NewSource(r.Int63()))
		at := r.Intn(x.Len())
		for _, v := range v {
			x.SetFloat(at, v)
		}
	}
	return a
}
