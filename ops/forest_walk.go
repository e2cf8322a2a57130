package ops

import (
	"math"
	"slices"
)

// Walks through a forest wait: each comparison decides which node is read next, and
// a processor guesses about every other branch wrong. So nodes are brought to one
// form that needs no branch,
//
//	next[0] if x[feature] <= split, else next[1]
//
// and four trees are walked at once, each waiting for its own node only:
//
//	tree 0   o-->o------>o-->o
//	tree 1   o---->o-->o-->o
//	tree 2   o-->o-->o---->o
//	tree 3   o------>o-->o-->o
//
// Samples go through the same four trees in blocks, while those are in the cache.
// The other comparisons are brought to <=:
//
//	x <  s    x <= the number before s
//	x >  s    x <= s, the branches exchanged
//	x >= s    x <  s, the branches exchanged
//
// which holds for numbers. Samples with a NaN and forests that test for equality
// walk node by node.

// quickNode is a node in the one form.
type quickNode struct {
	split   float64
	feature int32
	next    [2]int32
}

// quickNodes brings nodes to the one form; nil if one has none.
func quickNodes(nodes []forestNode) []quickNode {
	q := make([]quickNode, len(nodes))
	for i, n := range nodes {
		q[i] = quickNode{n.split, n.feature, [2]int32{n.yes, n.no}}
		if n.mode > branchGT || math.IsNaN(n.split) {
			return nil
		}
		if n.mode == branchLT || n.mode == branchGTE {
			if math.IsInf(n.split, -1) {
				return nil // no number is before it
			}
			q[i].split = math.Nextafter(n.split, math.Inf(-1))
		}
		if n.mode == branchGT || n.mode == branchGTE {
			q[i].next = [2]int32{n.no, n.yes}
		}
	}
	return q
}

// step is the child of node at that a sample goes to.
func step(nodes []quickNode, row []float64, at int32) int32 {
	n, side := &nodes[at], 1
	if row[n.feature] <= n.split {
		side = 0
	}
	return n.next[side]
}

// quickWalk walks four trees down to their leaves.
func quickWalk(q []quickNode, at *[4]int32, row []float64) {
	a, b, c, d := at[0], at[1], at[2], at[3]
	for a|b|c|d >= 0 {
		a, b, c, d = step(q, row, a), step(q, row, b), step(q, row, c), step(q, row, d)
	}
	*at = [4]int32{a, b, c, d}
	for i, k := range at {
		for k >= 0 {
			k = step(q, row, k)
		}
		at[i] = k
	}
}

// walk is quickWalk for samples and forests that are not fit for it.
func (f *forest) walk(at []int32, row []float64) {
	for i, k := range at {
		for k >= 0 {
			if n := &f.nodes[k]; f.test(n, row[n.feature]) {
				k = n.yes
			} else {
				k = n.no
			}
		}
		at[i] = k
	}
}

// aggregate is how the votes for a target are combined, numbered as in
// TreeEnsemble-5.
type aggregate uint8

const (
	aggregateAverage aggregate = iota
	aggregateSum
	aggregateMin
	aggregateMax
)

var aggregateNames = map[string]aggregate{"AVERAGE": aggregateAverage, "SUM": aggregateSum, "MIN": aggregateMin, "MAX": aggregateMax}

// poll is the votes for one sample: a score for each target, 0 where nobody votes.
type poll struct {
	how   aggregate
	score []float64
	voted []bool // which targets got any
}

func (p *poll) add(votes []vote) {
	for _, v := range votes {
		switch t := v.target; {
		case !p.voted[t]:
			p.score[t], p.voted[t] = v.weight, true
		case p.how == aggregateMin:
			p.score[t] = min(p.score[t], v.weight)
		case p.how == aggregateMax:
			p.score[t] = max(p.score[t], v.weight)
		default:
			p.score[t] += v.weight
		}
	}
}

const maxBlock = 64 // samples that go through the same trees together

// tally gives done the combined votes of all trees for each sample in turn: the
// sum, mean, minimum or maximum of the weights of each target. It may change them.
func (f *forest) tally(x *samples, how aggregate, targets int, done func(i int, score []float64)) {
	block := max(min(maxBlock, x.n, 1<<16/targets), 1)
	polls, quick := make([]poll, block), make([]bool, block)
	for i := range polls {
		polls[i] = poll{how, make([]float64, targets), make([]bool, targets)}
	}
	for from := 0; from < x.n; from += block {
		polls := polls[:min(block, x.n-from)]
		for i, p := range polls {
			clear(p.score)
			clear(p.voted)
			quick[i] = f.quick != nil && !slices.ContainsFunc(x.row(from+i), math.IsNaN)
		}
		for tree := 0; tree < len(f.roots); tree += 4 {
			roots := f.roots[tree:min(tree+4, len(f.roots))]
			for i := range polls {
				f.vote(&polls[i], roots, x.row(from+i), quick[i])
			}
		}
		for i, p := range polls {
			if how == aggregateAverage {
				for t := range p.score {
					p.score[t] /= float64(max(len(f.roots), 1))
				}
			}
			done(from+i, p.score)
		}
	}
}

// vote adds what up to four trees say of a sample, in their order.
func (f *forest) vote(p *poll, roots []int32, row []float64, quick bool) {
	var buf [4]int32
	at := buf[:copy(buf[:], roots)]
	if quick && len(at) == len(buf) {
		quickWalk(f.quick, &buf, row)
	} else {
		f.walk(at, row)
	}
	for _, leaf := range at {
		p.add(f.leaves[^leaf])
	}
}
