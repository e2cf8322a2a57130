// Package forest computes forests of decision trees of the domain ai.onnx.ml, four trees at a time. It knows nothing of
// how trees are written down and of what becomes of their leaves: that is package ml.
package forest

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/ml"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Walks through a forest are bound by latency: each comparison decides which node is
// read next, and about half of the branches are mispredicted. So nodes are brought to
// one form that needs no branch,
//
//	next[0] if x[feature] <= split, else next[1]
//
// and four trees are walked at once, so that their loads overlap:
//
//	tree 0   o-->o------>o-->o
//	tree 1   o---->o-->o-->o
//	tree 2   o-->o-->o---->o
//	tree 3   o------>o-->o-->o
//
// Samples go through the same four trees one after the other, while those are in
// the cache. The other comparisons are brought to <=:
//
//	x <  s    x <= the number before s
//	x >  s    x <= s, the branches exchanged
//	x >= s    x <  s, the branches exchanged
//
// which holds for numbers. Samples with a NaN and forests that test for equality
// walk node by node.

// Kernels are the functions that prepare the kernels of nodes from their attributes alone, instead of the operators' own
// Prepare.
var Kernels = map[ops.Key]func(*ssa.Node) (ops.Kernel, error){
	{Domain: "ai.onnx.ml", Name: "TreeEnsemble"}:           prepare,
	{Domain: "ai.onnx.ml", Name: "TreeEnsembleRegressor"}:  prepare,
	{Domain: "ai.onnx.ml", Name: "TreeEnsembleClassifier"}: prepare,
}

func prepare(n *ssa.Node) (ops.Kernel, error) { return ml.PrepareForest(n, branchlessSearch) }

// branchlessNode is a node in the one form.
type branchlessNode struct {
	split   float64
	feature int32
	next    [2]int32
}

// branchlessNodes brings nodes to the one form; nil if one has none.
func branchlessNodes(nodes []ml.ForestNode) []branchlessNode {
	q := make([]branchlessNode, len(nodes))
	for i, n := range nodes {
		q[i] = branchlessNode{n.Split, n.Feature, [2]int32{n.Yes, n.No}}
		if n.Mode > ml.BranchGT || math.IsNaN(n.Split) {
			return nil
		}
		if n.Mode == ml.BranchLT || n.Mode == ml.BranchGTE {
			if math.IsInf(n.Split, -1) {
				return nil // there is no number below it
			}
			q[i].split = math.Nextafter(n.Split, math.Inf(-1))
		}
		if n.Mode == ml.BranchGT || n.Mode == ml.BranchGTE {
			q[i].next = [2]int32{n.No, n.Yes}
		}
	}
	return q
}

// branchlessSearch is the search of a forest in the one form; nil if it has none.
func branchlessSearch(f *ml.Forest) ml.LeafSearch {
	q, trees := branchlessNodes(f.Nodes), len(f.Roots)
	if q == nil {
		return nil
	}
	return func(rows [][]float64, leaves []int32) {
		quick := make([]bool, len(rows))
		for i, row := range rows {
			quick[i] = !slices.ContainsFunc(row, math.IsNaN)
		}
		for t := 0; t < trees; t += 4 {
			for i, row := range rows {
				at := leaves[i*trees+t : i*trees+min(t+4, trees)]
				copy(at, f.Roots[t:])
				if quick[i] && len(at) == 4 {
					walkFour(q, (*[4]int32)(at), row)
					continue
				}
				for k, root := range at {
					at[k] = f.Walk(root, row)
				}
			}
		}
	}
}

// step is the child of node at that a sample goes to.
func step(nodes []branchlessNode, row []float64, at int32) int32 {
	n, side := &nodes[at], 1
	if row[n.feature] <= n.split {
		side = 0
	}
	return n.next[side]
}

// walkFour walks four trees down to their leaves.
func walkFour(q []branchlessNode, at *[4]int32, row []float64) {
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
