package expr

import (
	"slices"

	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Long reductions. A group holds a whole row, so that it reduces short ones only. A reduction of the innermost
// dimensions that is longer is made in two: of pieces, in the group that computes the elements, and of what
// these leave, which is small.
//
//	ReduceSum(a·b)  [1000000]      ReduceSum over 1000 of (a·b) as [1000 1000]     one pass over a and b
//	                               ReduceSum over 1000
//
// The pieces are a view: a dimension that is walked in two loops.

// Rows of a piece are as long as leaves few of them, and short enough for a group; shorter ones are not worth it.
const (
	longestPiece  = 4096
	shortestPiece = 64
	longestRow    = fuse.MaxRow
)

// laterStage are the reductions that can be made in two, and what reduces the results of the first.
var laterStage = map[string]string{
	"ReduceSum": "ReduceSum", "ReduceMean": "ReduceMean", "ReduceMax": "ReduceMax", "ReduceMin": "ReduceMin", "ReduceProd": "ReduceProd",
	"ReduceL1": "ReduceL1", "ReduceL2": "ReduceL2", "ReduceSumSquare": "ReduceSum", "ReduceLogSumExp": "ReduceLogSumExp",
}

// inStages is a long reduction of something that is computed, in two; nil for any other node.
func inStages(n *node) *node {
	later := laterStage[n.op.name]
	if later == "" || n.dt.Size() < 4 || n.in[0].kind == leaf || n.err != nil {
		return nil
	}
	x := n.in[0]
	first := reducedFrom(n)
	if first < 0 {
		return nil
	}
	size := 1
	for _, d := range x.shape[first:] {
		size *= d
	}
	at, piece := split(x.shape, first)
	if size <= longestRow || piece < shortestPiece {
		return nil
	}
	kept := len(n.shape) == len(x.shape)
	keep := func(k bool) []ssa.Attr { return []ssa.Attr{ssa.IntAttr("keepdims", flag(k))} }
	v := identity(x.shape)
	if at == len(x.shape)-1 && piece < x.shape[at] {
		v.shape, v.of, v.step = append(v.shape, piece), append(v.of, at), append(v.step, 1)
		v.shape[at], v.step[at] = x.shape[at]/piece, piece
		parts := general(n.op.name, n.dt, keep(false), look(x, v, nil), ints(at+1))
		return general(later, n.dt, keep(kept), parts, ints(axesFrom(first, at+1)...))
	}
	parts := general(n.op.name, n.dt, keep(kept), x, ints(axesFrom(at, len(x.shape))...))
	return general(later, n.dt, keep(kept), parts, ints(axesFrom(first, len(parts.shape))...))
}

// reducedFrom is the first of the innermost dimensions that a node reduces, -1 if it reduces others.
func reducedFrom(n *node) int {
	rank := len(n.in[0].shape)
	if len(n.in) < 2 {
		return 0
	}
	axes := n.in[1].value.Ints()
	lowest := rank
	for i, a := range axes {
		k, err := ops.NormAxis(a, rank)
		if err != nil || slices.Contains(axes[:i], int64(k)) {
			return -1
		}
		axes[i], lowest = int64(k), min(lowest, k)
	}
	if rank-lowest != len(axes) {
		return -1
	}
	return lowest
}

// split says from which dimension on pieces are reduced first, and how long they are: whole dimensions, or the largest
// part that divides the innermost one.
func split(shape []int, first int) (at, piece int) {
	at, piece = len(shape)-1, shape[len(shape)-1]
	if piece > longestPiece {
		for piece = longestPiece; piece > 1 && shape[at]%piece != 0; {
			piece--
		}
		return at, piece
	}
	for at > first && piece*shape[at-1] <= longestPiece {
		at--
		piece *= shape[at]
	}
	return at, piece
}

// axesFrom lists the dimensions from one up to, and without, another.
func axesFrom(first, end int) (out []int) {
	for d := first; d < end; d++ {
		out = append(out, d)
	}
	return out
}
