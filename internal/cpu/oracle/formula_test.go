package oracle

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// TestEinsumFormula: of three operands and more, which are multiplied two at a time, those results are not finite that have a term with an
// infinity or NaN, as the formula says: the sum over all combinations of labels of the products of all operands. A huge number changes the results
// that have a term with it, and no others.
func TestEinsumFormula(t *testing.T) {
	r := rand.New(rand.NewSource(11))
	for i := range 120 {
		terms, out := drawEquation(r, 3+r.Intn(3), 1, 3)
		sizes := map[byte]int{}
		for _, l := range []byte("abcij") {
			sizes[l] = pick(r, 1, 2, 3, 4, 5)
		}
		if r.Intn(6) == 0 {
			sizes["abcij"[r.Intn(5)]] = 0
		}
		f := formula{terms, out, sizes}
		k := f.opCase()
		for s, values := range [][]float64{{nan}, {math.Inf(1)}, {math.Inf(1), math.Inf(-1)}, {3e38}} {
			t.Run(fmt.Sprint(k.name, sizes, values), func(t *testing.T) { f.check(t, k, int64(8*i+s), values) })
		}
	}
}

// formula is an equation with the sizes of its labels.
type formula struct {
	terms []string
	out   string
	sizes map[byte]int
}

func (f *formula) shape(labels string) []int {
	shape := make([]int, len(labels))
	for i := range labels {
		shape[i] = f.sizes[labels[i]]
	}
	return shape
}

func (f *formula) opCase() opCase {
	equation := strings.Join(f.terms, ",") + "->" + f.out
	k := opCase{op: "Einsum", name: equation, tol: 1e-4, attrs: strs("equation", equation)}
	for _, labels := range f.terms {
		k.in = append(k.in, f32s(f.shape(labels)...).between(0.5, 2))
	}
	return k
}

// check sows the values, one in an operand, and compares.
func (f *formula) check(t *testing.T, k opCase, seed int64, values []float64) {
	r := rand.New(rand.NewSource(seed))
	sown := make([]int, len(f.terms)) // an element of each operand, -1 where there is none
	for i := range sown {
		sown[i] = -1
	}
	c := k
	c.in = append([]arg{}, k.in...)
	for _, v := range values {
		i := r.Intn(len(c.in))
		n, _ := ndarray.NumElems(c.in[i].shape)
		if n == 0 || sown[i] >= 0 {
			continue
		}
		sown[i] = r.Intn(n)
		c.in[i] = k.in[i].set(v, sown[i])
	}
	reached := f.reached(sown)
	plain := map[string]*ndarray.Array{}
	k.build(t, seed).eachLevel(t, func(level string, _ int, _, got *ndarray.Array) { plain[level] = got })
	c.build(t, seed).eachLevel(t, func(level string, _ int, _, got *ndarray.Array) {
		for i := range got.Len() {
			g, p := got.Float(i), plain[level].Float(i)
			switch {
			case !reached[i] && g != p:
				t.Errorf("%s: element %d is %g instead of %g, which no value reaches", level, i, g, p)
				return
			case reached[i] && (values[0] == 3e38 && !(g > 1e37 || g != g) || values[0] != 3e38 && g-g == 0):
				t.Errorf("%s: element %d is %g, which a value reaches", level, i, g)
				return
			}
		}
	})
}

// reached tells which results have a term with a sown element.
func (f *formula) reached(sown []int) []bool {
	labels := f.out
	for _, s := range f.terms {
		for i := range s {
			if strings.IndexByte(labels, s[i]) < 0 {
				labels += s[i : i+1]
			}
		}
	}
	n, _ := ndarray.NumElems(f.shape(f.out))
	all, _ := ndarray.NumElems(f.shape(labels))
	out, at := make([]bool, n), map[byte]int{}
	element := func(s string) (e int) {
		for i, stride := range ops.Strides(f.shape(s)) {
			e += at[s[i]] * stride
		}
		return e
	}
	for i := range all {
		for k, stride := range ops.Strides(f.shape(labels)) {
			at[labels[k]] = i / stride % f.sizes[labels[k]]
		}
		for k, s := range f.terms {
			if sown[k] >= 0 && element(s) == sown[k] {
				out[element(f.out)] = true
			}
		}
	}
	return out
}
