package ml

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A forest is decision trees in arrays. A walk starts at a root and takes the
// branch of each comparison until it meets a leaf, whose votes count:
//
//	       0: x2 <= 0.5
//	      yes /   \ no
//	1: x0 < 3     leaf 2
//	  /    \
//	leaf 0  leaf 1
//
// A child is the index of a node, or ^k for leaf k.

// BranchMode is a node's comparison, numbered as in TreeEnsemble-5.
type BranchMode uint8

// The comparisons x <= split, and so on; BranchMember looks for x in a set.
const (
	BranchLEQ BranchMode = iota
	BranchLT
	BranchGTE
	BranchGT
	BranchEQ
	BranchNEQ
	BranchMember
)

var branchNames = map[string]BranchMode{"BRANCH_LEQ": BranchLEQ, "BRANCH_LT": BranchLT, "BRANCH_GTE": BranchGTE,
	"BRANCH_GT": BranchGT, "BRANCH_EQ": BranchEQ, "BRANCH_NEQ": BranchNEQ, "BRANCH_MEMBER": BranchMember}

// ForestNode is a comparison and where it leads. It takes little memory: walks are
// bound by reading nodes.
type ForestNode struct {
	Split   float64
	Feature int32
	Yes, No int32
	Mode    BranchMode
	NaNYes  bool // a missing value takes the true branch
	set     int32
}

// vote adds weight to a target.
type vote struct {
	target int
	weight float64
}

// Forest is what a TreeEnsemble operator holds.
type Forest struct {
	Nodes    []ForestNode
	Roots    []int32
	leaves   [][]vote
	sets     [][]float64 // sorted, for BranchMember
	features int         // that samples must have
	search   LeafSearch
}

// LeafSearch walks the trees of a forest for each of some samples: leaves, sample
// by sample, gets the ^leaf that every tree leads to.
type LeafSearch func(rows [][]float64, leaves []int32)

// test reports whether a feature takes the true branch.
func (f *Forest) test(n *ForestNode, v float64) bool {
	if n.NaNYes && math.IsNaN(v) {
		return true
	}
	switch n.Mode {
	case BranchLEQ:
		return v <= n.Split
	case BranchLT:
		return v < n.Split
	case BranchGTE:
		return v >= n.Split
	case BranchGT:
		return v > n.Split
	case BranchEQ:
		return v == n.Split
	case BranchNEQ:
		return v != n.Split
	}
	_, found := slices.BinarySearch(f.sets[n.set], v)
	return found && !math.IsNaN(v)
}

// fits makes sure that samples have all the features that the trees read.
func (f *Forest) fits(features int) {
	if f.features > features {
		kit.Failf("the trees read feature %d of %d", f.features-1, features)
	}
}

// check makes sure that walks end and stay inside of all tables.
func (f *Forest) check(targets int) error {
	exists := func(at int32) bool { return int(at) < len(f.Nodes) && (at >= 0 || int(^at) < len(f.leaves)) }
	for i, n := range f.Nodes {
		if n.Feature < 0 {
			return fmt.Errorf("tree node %d reads a feature that does not exist", i)
		}
		f.features = max(f.features, int(n.Feature)+1)
		if !exists(n.Yes) || !exists(n.No) {
			return fmt.Errorf("tree node %d has a child that does not exist", i)
		}
	}
	for _, r := range f.Roots {
		if !exists(r) {
			return fmt.Errorf("a tree root does not exist")
		}
	}
	for _, l := range f.leaves {
		for _, v := range l {
			if v.target < 0 || v.target >= targets {
				return fmt.Errorf("a leaf votes for target %d of %d", v.target, targets)
			}
		}
	}
	return f.acyclic()
}

// acyclic fails if a node can be reached from itself: depth-first, nodes on the
// current path marked 1, finished ones 2. It begins at every node, since no root
// leads to a circle whose nodes are all children of each other.
func (f *Forest) acyclic() error {
	state := make([]uint8, len(f.Nodes))
	var stack []int32
	for start := range f.Nodes {
		stack = append(stack, int32(start))
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			if state[at] != 0 {
				stack, state[at] = stack[:len(stack)-1], 2
				continue
			}
			state[at] = 1
			for _, child := range []int32{f.Nodes[at].Yes, f.Nodes[at].No} {
				switch {
				case child < 0 || state[child] == 2:
				case state[child] == 1:
					return fmt.Errorf("tree node %d is its own ancestor", child)
				default:
					stack = append(stack, child)
				}
			}
		}
	}
	return nil
}

// floatsOrTensor reads a list that is given as floats or, for double precision,
// as a tensor; nil if neither is there.
func floatsOrTensor(n *ssa.Node, name, tensor string) ([]float64, error) {
	if a, err := arrayAttr(n, tensor); a != nil || err != nil {
		return kit.Elements[float64](nil, a), err
	}
	return widen(ops.Floats(n, name)), nil
}

// arrayAttr returns a tensor attribute's elements; nil if it is absent.
func arrayAttr(n *ssa.Node, name string) (*ndarray.Array, error) {
	if a := n.Attr(name); a != nil && a.Tensor != nil {
		return a.Tensor.Array()
	}
	return nil, nil
}

// treeKey names a node of the older tree operators.
type treeKey struct{ tree, node int64 }

// classicForest reads the attributes nodes_* of TreeEnsembleClassifier and
// TreeEnsembleRegressor, and the votes of their leaves under prefix + "_*".
func classicForest(n *ssa.Node, prefix string) (*Forest, error) {
	trees, ids, modes := ops.Ints(n, "nodes_treeids"), ops.Ints(n, "nodes_nodeids"), ops.Strings(n, "nodes_modes")
	yes, no, features := ops.Ints(n, "nodes_truenodeids"), ops.Ints(n, "nodes_falsenodeids"), ops.Ints(n, "nodes_featureids")
	nan := ops.Ints(n, "nodes_missing_value_tracks_true")
	splits, err := floatsOrTensor(n, "nodes_values", "nodes_values_as_tensor")
	if err != nil {
		return nil, err
	}
	k := len(ids)
	if k > math.MaxInt32 {
		return nil, fmt.Errorf("%d tree nodes are more than %d", k, math.MaxInt32)
	}
	if len(trees) != k || len(modes) != k || len(yes) != k || len(no) != k || len(features) != k || len(splits) != k ||
		len(nan) != 0 && len(nan) != k {
		return nil, fmt.Errorf("the attributes nodes_* differ in length")
	}
	f := &Forest{}
	place := make(map[treeKey]int32, k) // node index, or ^leaf
	for i := range ids {
		key := treeKey{trees[i], ids[i]}
		if _, again := place[key]; again {
			return nil, fmt.Errorf("tree %d has two nodes %d", trees[i], ids[i])
		}
		if modes[i] == "LEAF" {
			place[key] = ^int32(len(f.leaves))
			f.leaves = append(f.leaves, nil)
			continue
		}
		mode, ok := branchNames[modes[i]]
		if !ok || mode == BranchMember {
			return nil, kit.BadAttr("nodes_modes", modes[i], "a comparison or LEAF")
		}
		place[key] = int32(len(f.Nodes))
		f.Nodes = append(f.Nodes, ForestNode{Mode: mode, Feature: featureID(features[i]), Split: splits[i], NaNYes: len(nan) > 0 && nan[i] != 0})
	}
	if err := f.link(trees, ids, yes, no, place); err != nil {
		return nil, err
	}
	return f, f.classicVotes(n, prefix, place)
}

// link connects the nodes of the older operators with their children; a node that is
// no child is a root.
func (f *Forest) link(trees, ids, yes, no []int64, place map[treeKey]int32) error {
	child := make(map[treeKey]bool, len(ids))
	for i := range ids {
		at := place[treeKey{trees[i], ids[i]}]
		if at < 0 {
			continue
		}
		for _, c := range []struct {
			id int64
			to *int32
		}{{yes[i], &f.Nodes[at].Yes}, {no[i], &f.Nodes[at].No}} {
			key := treeKey{trees[i], c.id}
			to, ok := place[key]
			if !ok {
				return fmt.Errorf("node %d of tree %d has no child %d", ids[i], trees[i], c.id)
			}
			*c.to, child[key] = to, true
		}
	}
	rooted := map[int64]bool{}
	for i := range ids {
		key := treeKey{trees[i], ids[i]}
		if child[key] {
			continue
		}
		if rooted[trees[i]] {
			return fmt.Errorf("tree %d has two roots", trees[i])
		}
		rooted[trees[i]] = true
		f.Roots = append(f.Roots, place[key])
	}
	return nil
}

// classicVotes attaches the votes to the leaves.
func (f *Forest) classicVotes(n *ssa.Node, prefix string, place map[treeKey]int32) error {
	trees, ids, targets := ops.Ints(n, prefix+"_treeids"), ops.Ints(n, prefix+"_nodeids"), ops.Ints(n, prefix+"_ids")
	weights, err := floatsOrTensor(n, prefix+"_weights", prefix+"_weights_as_tensor")
	if err != nil {
		return err
	}
	if len(ids) != len(trees) || len(targets) != len(trees) || len(weights) != len(trees) {
		return fmt.Errorf("the attributes %s_* differ in length", prefix)
	}
	for i := range trees {
		at, ok := place[treeKey{trees[i], ids[i]}]
		if !ok || at >= 0 {
			return fmt.Errorf("node %d of tree %d votes and is no leaf", ids[i], trees[i])
		}
		f.leaves[^at] = append(f.leaves[^at], vote{int(targets[i]), weights[i]})
	}
	return nil
}

// newForest reads the attributes of TreeEnsemble-5.
func newForest(n *ssa.Node) (*Forest, error) {
	var tables [3]*ndarray.Array
	for i, name := range []string{"nodes_modes", "nodes_splits", "leaf_weights"} {
		a, err := arrayAttr(n, name)
		if err != nil {
			return nil, err
		}
		if tables[i] = a; a == nil {
			return nil, fmt.Errorf("attribute %s has no elements", name)
		}
	}
	modes, splits, weights := tables[0], tables[1], tables[2]
	features, targets, nan := ops.Ints(n, "nodes_featureids"), ops.Ints(n, "leaf_targetids"), ops.Ints(n, "nodes_missing_value_tracks_true")
	yes, no, yesLeaf, noLeaf := ops.Ints(n, "nodes_truenodeids"), ops.Ints(n, "nodes_falsenodeids"), ops.Ints(n, "nodes_trueleafs"), ops.Ints(n, "nodes_falseleafs")
	k := len(features)
	if max(k, len(targets)) > math.MaxInt32 {
		return nil, fmt.Errorf("%d tree nodes and %d leaves are more than %d", k, len(targets), math.MaxInt32)
	}
	if modes.Len() != k || splits.Len() != k || len(yes) != k || len(no) != k || len(yesLeaf) != k || len(noLeaf) != k ||
		weights.Len() != len(targets) || len(nan) != 0 && len(nan) != k {
		return nil, fmt.Errorf("the attributes nodes_* or leaf_* differ in length")
	}
	sets, err := memberSets(n)
	if err != nil {
		return nil, err
	}
	f, members := &Forest{sets: sets}, 0
	for i := range features {
		if mode := modes.Int(i); mode < 0 || mode > int64(BranchMember) {
			return nil, kit.BadAttr("nodes_modes", mode, "0 to 6")
		}
		node := ForestNode{Mode: BranchMode(modes.Int(i)), Feature: featureID(features[i]), Split: splits.Float(i),
			NaNYes: len(nan) > 0 && nan[i] != 0, Yes: childOf(yes[i], yesLeaf[i]), No: childOf(no[i], noLeaf[i])}
		if node.Mode == BranchMember {
			if members == len(sets) {
				return nil, fmt.Errorf("membership_values has fewer sets than there are BRANCH_MEMBER nodes")
			}
			node.set = int32(members)
			members++
		}
		f.Nodes = append(f.Nodes, node)
	}
	for i, t := range targets {
		f.leaves = append(f.leaves, []vote{{int(t), weights.Float(i)}})
	}
	for _, r := range ops.Ints(n, "tree_roots") {
		f.Roots = append(f.Roots, childOf(r, 0))
	}
	return f, nil
}

// childOf encodes a child of TreeEnsemble-5; one that can not exist becomes the
// last number, which no table has.
func childOf(id, leaf int64) int32 {
	at := int32(min(max(id, 0), math.MaxInt32))
	if leaf != 0 {
		return ^at
	}
	return at
}

// featureID is a feature's column, -1 if there can be none.
func featureID(id int64) int32 {
	if id < 0 || id > math.MaxInt32 {
		return -1
	}
	return int32(id)
}

// memberSets cuts membership_values at NaNs into sorted sets.
func memberSets(n *ssa.Node) ([][]float64, error) {
	a, err := arrayAttr(n, "membership_values")
	if a == nil || err != nil {
		return nil, err
	}
	var sets [][]float64
	for v := kit.Elements[float64](nil, a); len(v) > 0; {
		end := slices.IndexFunc(v, math.IsNaN)
		if end < 0 {
			end = len(v)
		}
		sets = append(sets, slices.Sorted(slices.Values(v[:end])))
		v = v[min(end+1, len(v)):]
	}
	return sets, nil
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

// poll is the votes for one sample: a score for each target, 0 without votes.
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

// maxBlock is how many samples are looked up together.
const maxBlock = 64

// tally gives done the combined votes of all trees for each sample in turn: the
// sum, mean, minimum or maximum of the weights of each target. It may change them.
func (f *Forest) tally(c *ops.Call, x *samples, how aggregate, targets int, done func(i int, score []float64)) {
	trees := len(f.Roots)
	block := max(min(maxBlock, x.n, 1<<20/max(trees, 1)), 1)
	p := poll{how, make([]float64, targets), make([]bool, targets)}
	rows, leaves := make([][]float64, 0, block), make([]int32, block*trees)
	w := kit.Watching(c)
	for from := 0; from < x.n; from += block {
		w.Did(block * (1 + trees + targets))
		rows = rows[:0]
		for i := from; i < min(from+block, x.n); i++ {
			rows = append(rows, x.row(i))
		}
		f.search(rows, leaves)
		for i := range rows {
			clear(p.score)
			clear(p.voted)
			for _, leaf := range leaves[i*trees : (i+1)*trees] {
				p.add(f.leaves[^leaf])
			}
			if how == aggregateAverage {
				for t := range p.score {
					p.score[t] /= float64(max(trees, 1))
				}
			}
			done(from+i, p.score)
		}
	}
}

// walkAll is the [LeafSearch] that walks tree by tree.
func (f *Forest) walkAll(rows [][]float64, leaves []int32) {
	for i, row := range rows {
		for t, root := range f.Roots {
			leaves[i*len(f.Roots)+t] = f.Walk(root, row)
		}
	}
}

// Walk follows a sample from a node, or ^leaf, down to its ^leaf.
func (f *Forest) Walk(at int32, row []float64) int32 {
	for at >= 0 {
		n := &f.Nodes[at]
		if f.test(n, row[n.Feature]) {
			at = n.Yes
		} else {
			at = n.No
		}
	}
	return at
}
