package ops

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// randomForest is full trees whose leaves vote for one or two targets.
func randomForest(r *rand.Rand, modes []branchMode, values []float64) *forest {
	const trees, depth, features = 7, 4, 3
	f := &forest{}
	var grow func(level int) int32
	grow = func(level int) int32 {
		if level == depth || level > 0 && r.IntN(8) == 0 {
			votes := []vote{{r.IntN(2), r.NormFloat64()}, {r.IntN(2), r.NormFloat64()}}
			f.leaves = append(f.leaves, votes[:1+r.IntN(2)])
			return ^int32(len(f.leaves) - 1)
		}
		at := len(f.nodes)
		f.nodes = append(f.nodes, forestNode{mode: modes[r.IntN(len(modes))], feature: int32(r.IntN(features)),
			split: values[r.IntN(len(values))], nanYes: r.IntN(2) == 0})
		yes, no := grow(level+1), grow(level+1)
		f.nodes[at].yes, f.nodes[at].no = yes, no
		return int32(at)
	}
	for range trees {
		f.roots = append(f.roots, grow(0))
	}
	return f
}

// TestQuickWalk compares walks in the one form with walks node by node.
func TestQuickWalk(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	values := []float64{0, math.Copysign(0, -1), 1, -1, math.SmallestNonzeroFloat64, math.MaxFloat64, 0.5}
	for _, c := range []struct {
		name   string
		modes  []branchMode
		splits []float64
		quick  bool
	}{
		{"below or same", []branchMode{branchLEQ}, append(values, inf, -inf), true},
		{"all orders", []branchMode{branchLEQ, branchLT, branchGTE, branchGT}, append(values, inf), true},
		{"below the lowest", []branchMode{branchLT}, []float64{-inf}, false},
		{"no number", []branchMode{branchLEQ}, []float64{nan}, false},
		{"same", []branchMode{branchLEQ, branchEQ}, values, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			f := randomForest(r, c.modes, c.splits)
			require.NoError(t, f.check(2))
			require.Equal(t, c.quick, f.quick != nil)
			x := &samples{n: maxBlock + 9, f: 3}
			for range x.n * x.f {
				x.v = append(x.v, append(values, inf, -inf, nan)[r.IntN(len(values)+3)])
			}
			for _, how := range []aggregate{aggregateAverage, aggregateSum, aggregateMin, aggregateMax} {
				got, want := tallies(f, x, how), tallies(&forest{nodes: f.nodes, roots: f.roots, leaves: f.leaves}, x, how)
				assert.Equal(t, want, got, "aggregate %d", how)
			}
		})
	}
}

func tallies(f *forest, x *samples, how aggregate) []string {
	var all []string
	f.tally(x, how, 2, func(i int, score []float64) { all = append(all, fmt.Sprint(i, score)) })
	return all
}
