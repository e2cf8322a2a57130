package preprocess

import (
	"cmp"
	"math"
	"slices"
)

// Softmax returns exp(x) / sum(exp(x)): scores as probabilities.
func Softmax(scores []float32) []float32 {
	if len(scores) == 0 {
		return nil
	}
	most := slices.Max(scores)
	exp := make([]float64, len(scores))
	sum := 0.0
	for i, v := range scores {
		exp[i] = math.Exp(float64(v) - float64(most))
		sum += exp[i]
	}
	out := make([]float32, len(scores))
	for i, e := range exp {
		out[i] = float32(e / sum)
	}
	return out
}

// Ranked is an element and its position.
type Ranked struct {
	Index int
	Value float32
}

// TopK returns the k largest elements in descending order, equal ones in the order of their
// positions. NaN comes last.
func TopK(scores []float32, k int) []Ranked {
	all := make([]Ranked, len(scores))
	for i, v := range scores {
		all[i] = Ranked{i, v}
	}
	slices.SortStableFunc(all, func(a, b Ranked) int { return cmp.Compare(b.Value, a.Value) })
	return slices.Clip(all[:min(max(k, 0), len(all))])
}
