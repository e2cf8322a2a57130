package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
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

// branchMode is a node's comparison, numbered as in TreeEnsemble-5.
type branchMode uint8

const (
	branchLEQ branchMode = iota
	branchLT
	branchGTE
	branchGT
	branchEQ
	branchNEQ
	branchMember
)

var branchNames = map[string]branchMode{"BRANCH_LEQ": branchLEQ, "BRANCH_LT": branchLT, "BRANCH_GTE": branchGTE,
	"BRANCH_GT": branchGT, "BRANCH_EQ": branchEQ, "BRANCH_NEQ": branchNEQ, "BRANCH_MEMBER": branchMember}

// forestNode takes little memory: walks are bound by reading nodes.
type forestNode struct {
	split   float64
	feature int32
	yes, no int32
	mode    branchMode
	nanYes  bool // a missing value takes the true branch
	set     int32
}

// vote adds weight to a target.
type vote struct {
	target int
	weight float64
}

type forest struct {
	nodes    []forestNode
	roots    []int32
	leaves   [][]vote
	sets     [][]float64 // sorted, for branchMember
	features int         // that samples must have
	quick    []quickNode // of the same numbers as nodes; nil if they do not fit
}

// test reports whether a feature takes the true branch.
func (f *forest) test(n *forestNode, v float64) bool {
	if n.nanYes && math.IsNaN(v) {
		return true
	}
	switch n.mode {
	case branchLEQ:
		return v <= n.split
	case branchLT:
		return v < n.split
	case branchGTE:
		return v >= n.split
	case branchGT:
		return v > n.split
	case branchEQ:
		return v == n.split
	case branchNEQ:
		return v != n.split
	}
	_, found := slices.BinarySearch(f.sets[n.set], v)
	return found && !math.IsNaN(v)
}

// fits makes sure that samples have all the features that are asked for.
func (f *forest) fits(features int) {
	if f.features > features {
		failf("the trees ask for feature %d of %d", f.features-1, features)
	}
}

// check makes sure that walks end and stay inside of all tables, and makes what
// quick walks read.
func (f *forest) check(targets int) error {
	for i, n := range f.nodes {
		if n.feature < 0 {
			return fmt.Errorf("tree node %d asks for a feature that can not be", i)
		}
		f.features = max(f.features, int(n.feature)+1)
		for _, child := range []int32{n.yes, n.no} {
			if int(child) >= len(f.nodes) || child < 0 && int(^child) >= len(f.leaves) {
				return fmt.Errorf("tree node %d has a child that does not exist", i)
			}
		}
	}
	for _, r := range f.roots {
		if int(r) >= len(f.nodes) || r < 0 && int(^r) >= len(f.leaves) {
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
	f.quick = quickNodes(f.nodes)
	return f.acyclic()
}

// acyclic fails if a node can be reached from itself: depth-first, nodes on the
// current path marked 1, finished ones 2.
func (f *forest) acyclic() error {
	state := make([]uint8, len(f.nodes))
	var stack []int32
	for _, root := range f.roots {
		if root >= 0 {
			stack = append(stack, root)
		}
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			if state[at] != 0 {
				stack, state[at] = stack[:len(stack)-1], 2
				continue
			}
			state[at] = 1
			for _, child := range []int32{f.nodes[at].yes, f.nodes[at].no} {
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
	if a := n.Attr(tensor); a != nil && a.Tensor != nil {
		v, err := a.Tensor.Array()
		if err != nil {
			return nil, err
		}
		return elements[float64](v), nil
	}
	if v := n.Floats(name); len(v) > 0 {
		return widen(v), nil
	}
	return nil, nil
}

// treeKey names a node of the older tree operators.
type treeKey struct{ tree, node int64 }

// classicForest reads the attributes nodes_* of TreeEnsembleClassifier and
// TreeEnsembleRegressor, and the votes of their leaves under prefix + "_*".
func classicForest(n *ssa.Node, prefix string) (*forest, error) {
	trees, ids, modes := n.Ints("nodes_treeids"), n.Ints("nodes_nodeids"), n.Strings("nodes_modes")
	yes, no, features := n.Ints("nodes_truenodeids"), n.Ints("nodes_falsenodeids"), n.Ints("nodes_featureids")
	nan := n.Ints("nodes_missing_value_tracks_true")
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
	f := &forest{}
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
		if !ok || mode == branchMember {
			return nil, badAttr("nodes_modes", modes[i], "a comparison or LEAF")
		}
		place[key] = int32(len(f.nodes))
		f.nodes = append(f.nodes, forestNode{mode: mode, feature: featureID(features[i]), split: splits[i], nanYes: len(nan) > 0 && nan[i] != 0})
	}
	child := make(map[treeKey]bool, k)
	for i := range ids {
		at := place[treeKey{trees[i], ids[i]}]
		if at < 0 {
			continue
		}
		for _, c := range []struct {
			id int64
			to *int32
		}{{yes[i], &f.nodes[at].yes}, {no[i], &f.nodes[at].no}} {
			key := treeKey{trees[i], c.id}
			to, ok := place[key]
			if !ok {
				return nil, fmt.Errorf("node %d of tree %d has no child %d", ids[i], trees[i], c.id)
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
			return nil, fmt.Errorf("tree %d has two roots", trees[i])
		}
		rooted[trees[i]] = true
		f.roots = append(f.roots, place[key])
	}
	return f, f.classicVotes(n, prefix, place)
}

// classicVotes attaches the votes to the leaves.
func (f *forest) classicVotes(n *ssa.Node, prefix string, place map[treeKey]int32) error {
	trees, ids, targets := n.Ints(prefix+"_treeids"), n.Ints(prefix+"_nodeids"), n.Ints(prefix+"_ids")
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

// tensorAttr returns a tensor attribute's elements; nil if it is absent.
func tensorAttr(n *ssa.Node, name string) (*ndarray.Array, error) {
	a := n.Attr(name)
	if a == nil || a.Tensor == nil {
		return nil, nil
	}
	return a.Tensor.Array()
}

// newForest reads the attributes of TreeEnsemble-5.
func newForest(n *ssa.Node) (*forest, error) {
	modes, err := tensorAttr(n, "nodes_modes")
	if err != nil {
		return nil, err
	}
	splits, err := tensorAttr(n, "nodes_splits")
	if err != nil {
		return nil, err
	}
	weights, err := tensorAttr(n, "leaf_weights")
	if err != nil {
		return nil, err
	}
	if modes == nil || splits == nil || weights == nil {
		return nil, fmt.Errorf("nodes_modes, nodes_splits or leaf_weights is missing")
	}
	features, targets, nan := n.Ints("nodes_featureids"), n.Ints("leaf_targetids"), n.Ints("nodes_missing_value_tracks_true")
	yes, no, yesLeaf, noLeaf := n.Ints("nodes_truenodeids"), n.Ints("nodes_falsenodeids"), n.Ints("nodes_trueleafs"), n.Ints("nodes_falseleafs")
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
	f, members := &forest{sets: sets}, 0
	for i := range features {
		if mode := modes.Int(i); mode < 0 || mode > int64(branchMember) {
			return nil, badAttr("nodes_modes", mode, "0 to 6")
		}
		node := forestNode{mode: branchMode(modes.Int(i)), feature: featureID(features[i]), split: splits.Float(i),
			nanYes: len(nan) > 0 && nan[i] != 0, yes: childOf(yes[i], yesLeaf[i]), no: childOf(no[i], noLeaf[i])}
		if node.mode == branchMember {
			if members == len(sets) {
				return nil, fmt.Errorf("membership_values has fewer sets than there are BRANCH_MEMBER nodes")
			}
			node.set = int32(members)
			members++
		}
		f.nodes = append(f.nodes, node)
	}
	for i, t := range targets {
		f.leaves = append(f.leaves, []vote{{int(t), weights.Float(i)}})
	}
	for _, r := range n.Ints("tree_roots") {
		f.roots = append(f.roots, childOf(r, 0))
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
	a, err := tensorAttr(n, "membership_values")
	if a == nil || err != nil {
		return nil, err
	}
	var sets [][]float64
	set := []float64{}
	for i := range a.Len() {
		if v := a.Float(i); !math.IsNaN(v) {
			set = append(set, v)
			continue
		}
		slices.Sort(set)
		sets = append(sets, set)
		set = []float64{}
	}
	if len(set) > 0 {
		slices.Sort(set)
		sets = append(sets, set)
	}
	return sets, nil
}
