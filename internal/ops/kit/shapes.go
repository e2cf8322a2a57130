package kit

import (
	"strconv"
	"strings"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MatchShapes compares the shapes of the operands, as far as they are known, with one pattern each and fails where one does
// not fit. Absent operands and those without a pattern fit.
//
//	N C ...   a rank of at least 2; names are sizes, the same in all patterns; "..." are the same dimensions in all patterns
//	2 _ *     2 is that size, _ any size, * any number of dimensions
func MatchShapes(n *ssa.Node, patterns ...string) {
	names, rest := map[string]ssa.Dim{}, []ssa.Dim(nil)
	for i, pattern := range patterns {
		t := ops.InType(n, i)
		if n.Input(i) == nil || !t.Ranked {
			continue
		}
		fixed, shared := strings.CutSuffix(pattern, "...")
		fixed, open := strings.CutSuffix(fixed, "*")
		tokens := strings.Fields(fixed)
		fits := len(t.Shape) == len(tokens) || len(t.Shape) > len(tokens) && (shared || open)
		for k := 0; fits && k < len(tokens); k++ {
			fits = matchDim(names, tokens[k], t.Shape[k])
		}
		if fits && shared {
			if rest == nil {
				rest = append([]ssa.Dim{}, t.Shape[len(tokens):]...)
			}
			fits = sameDims(rest, t.Shape[len(tokens):])
		}
		if !fits {
			Failf("operand %d is %s and does not fit the shape [%s], whose sizes other operands determine", i, t, strings.Join(strings.Fields(pattern), ","))
		}
	}
}

// matchDim compares one dimension with a token and remembers what a name stands for.
func matchDim(names map[string]ssa.Dim, token string, d ssa.Dim) bool {
	have, known := d.Const()
	if !known || token == "_" {
		return true
	}
	if want, err := strconv.ParseInt(token, 10, 64); err == nil {
		return have == want
	}
	want, seen := names[token]
	names[token] = d
	return !seen || want.Is(have)
}

// sameDims reports that no two known sizes differ.
func sameDims(a, b []ssa.Dim) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, ok1 := a[i].Const()
		y, ok2 := b[i].Const()
		if ok1 && ok2 && x != y {
			return false
		}
	}
	return true
}

// SameAsShaped is [ops.SameAs] for operands that fit the patterns of [MatchShapes].
func SameAsShaped(patterns ...string) func(n *ssa.Node) ([]ops.Inferred, error) {
	return Rule(func(n *ssa.Node) []ops.Inferred {
		MatchShapes(n, patterns...)
		return ops.One(ops.InType(n, 0))
	})
}
