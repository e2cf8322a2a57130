package oracle

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/berth-onnx/berth/ssa"
)

var letterSizes = map[byte]int{'a': 2, 'b': 3, 'c': 4, 'i': 5, 'j': 6, 'k': 7, 'l': 8, 'n': 9}

// einsumCase makes operands for an equation.
func einsumCase(equation string, konst bool) opCase {
	k := opCase{op: "Einsum", name: equation, tol: 1e-5, attrs: []ssa.Attr{ssa.StringAttr("equation", equation)}}
	shape := []int{}
	for i := 0; equation[i] != '-'; i++ {
		if equation[i] == ',' {
			k.in = append(k.in, f32s(shape...))
			shape = []int{}
			continue
		}
		shape = append(shape, letterSizes[equation[i]])
	}
	last := f32s(shape...)
	if konst {
		last = last.c()
	}
	k.in = append(k.in, last)
	return k
}

// wholeEinsum has operands of small whole numbers: sums in any order are exact.
func wholeEinsum(equation string) opCase {
	k := einsumCase(equation, false)
	k.tol = 0
	for i, x := range k.in {
		k.in[i] = x.from(func(r *rand.Rand) float64 { return float64(r.Intn(7) - 3) })
	}
	return k
}

func TestEinsum(t *testing.T) {
	for _, e := range []string{
		"ij->ji", "abci->caib", "ik,kj->ij", "ik,jk->ij", "ki,kj->ij", "ik,kj->ji", "bik,bkj->bij", "abik,abjk->abij", "baik,bcjk->bacij",
		"aibk,ajbk->abij", "abij,ajbk->aibk", "i,j->ij", "ik,k->i", "k,ki->i", "bi,bi->b", "bij,ijk->bk", "aijb,kb->aijk", "abk,k->ab", "ai,bj->abij",
		"ij,ij->ij", "ij,k->i", "bani,aik->bnk", "bi,bj,ijk->bk", "ij->i", "ij->", "iij->ji", "ii->", "iik,kj->ji", "ab,bc,cij,jk->ika", "abcij,jibac->cab",
		"i,j,k->", "ab,ab,ab->ba", "ab,ba->", "a,a->",
	} {
		runCases(t, []opCase{einsumCase(e, false), einsumCase(e, true)})
	}
	for _, c := range []opCase{
		{name: "...ij,...jk->...ik", in: []arg{f32s(2, 1, 3, 4), f32s(3, 4, 5)}},
		{name: "...ij,jk", in: []arg{f32s(2, 3, 4), f32s(4, 5)}},
		{name: "ij,jk->ki", in: []arg{f32s(3, 1), f32s(4, 5)}},
		{name: "ij,ij->ji", in: []arg{f32s(1, 4), f32s(3, 1)}},
		{name: "iij,jk->ik", in: []arg{f32s(1, 3, 4), f32s(4, 5)}},
	} {
		c.op, c.tol, c.attrs = "Einsum", 1e-5, []ssa.Attr{ssa.StringAttr("equation", c.name)}
		runCases(t, []opCase{c})
	}
}

// TestEinsumAny draws equations of one to six operands in which any label may occur anywhere: diagonals, sums over one operand
// alone, results in any order.
func TestEinsumAny(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	for range 200 {
		terms, out := drawEquation(r, 1+r.Intn(6), 0, 4)
		runCases(t, []opCase{wholeEinsum(strings.Join(terms, ",") + "->" + out)})
	}
	many := wholeEinsum(strings.Repeat("ab,bc,ca,", 12) + "abc->cba")
	for i, x := range many.in {
		many.in[i] = x.from(func(r *rand.Rand) float64 { return float64(2*r.Intn(2) - 1) })
	}
	runCases(t, []opCase{many})
}

// drawEquation draws operands of least to most labels of abcij, and a result of some of those.
func drawEquation(r *rand.Rand, operands, least, most int) (terms []string, out string) {
	terms = make([]string, operands)
	for i := range terms {
		for range least + r.Intn(most-least+1) {
			terms[i] += string("abcij"[r.Intn(5)])
		}
	}
	seen := strings.Join(terms, "")
	for _, l := range r.Perm(5) {
		if l := "abcij"[l : l+1]; strings.Contains(seen, l) && r.Intn(2) == 0 {
			out += l
		}
	}
	return terms, out
}

// TestEinsumRandom draws equations of two operands.
func TestEinsumRandom(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	for range 150 {
		classes := [4][]byte{} // batch, M, N, K
		for _, l := range []byte("abcijk") {
			if c := r.Intn(5); c < 4 {
				classes[c] = append(classes[c], l)
			}
		}
		shuffled := func(parts ...[]byte) string {
			var all []byte
			for _, p := range parts {
				all = append(all, p...)
			}
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return string(all)
		}
		e := shuffled(classes[0], classes[1], classes[3]) + "," + shuffled(classes[0], classes[2], classes[3]) + "->" + shuffled(classes[0], classes[1], classes[2])
		runCases(t, []opCase{wholeEinsum(e)})
	}
}
