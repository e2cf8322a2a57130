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
	b, plain := k.sown(huges).build(t, seed), k.sown(nil).build(t, seed)
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
