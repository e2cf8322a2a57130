package oracle

import (
	"math/rand"
	"testing"

	"github.com/berth-onnx/berth/internal/cpu"
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

func TestEinsum(t *testing.T) {
	for _, e := range []string{
		"ij->ji", "abci->caib", "ik,kj->ij", "ik,jk->ij", "ki,kj->ij", "ik,kj->ji", "bik,bkj->bij", "abik,abjk->abij", "baik,bcjk->bacij",
		"aibk,ajbk->abij", "abij,ajbk->aibk", "i,j->ij", "ik,k->i", "k,ki->i", "bi,bi->b", "bij,ijk->bk", "aijb,kb->aijk", "abk,k->ab", "ai,bj->abij",
		"ij,ij->ij",
	} {
		runCases(t, []opCase{einsumCase(e, false), einsumCase(e, true)})
	}
	left := einsumCase("ij,k->i", false)
	left.left = true
	runCases(t, []opCase{left})
}

// TestEinsumRandom draws equations; those that are no product stay with the
// reference kernel.
func TestEinsumRandom(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	served := 0
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
		k := einsumCase(e, false)
		p, err := cpu.New().Prepare(t.Context(), k.build(t, 1).node, 1)
		if err != nil {
			t.Fatal(err)
		}
		if k.left = p.Kernel == nil; !k.left {
			served++
		}
		runCases(t, []opCase{k})
	}
	if served < 20 {
		t.Errorf("only %d of 150 equations are served", served)
	}
}
