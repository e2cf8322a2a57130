package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/ssa"
)

// What a node with bodies counts for where it stands: the regions its results leave
// behind, and what its bodies need beside them while it runs.
//
//	       ┌ extra   what some body needs in every order, less operands and results
//	       ■■
//	    ■■■■■■■■■■   results: written by the node, alive as long as they are read
//	■■■■■■■          operands, which a body may write over where they die
//	    while it runs

// placeResults makes the regions of what control flow leaves behind: one for each
// result, no larger than the result, and none that an earlier result may share, since
// another order of the body may need fewer places. Operands that are passed on are not
// held: whether one is passed on is not known before the run.
func (c *counter) placeResults(n *ssa.Node, in *inner) {
	first := map[int]int{} // by class, the first result that may lie in it
	for i, v := range n.Out {
		if v == nil || len(in.outs[i]) == 0 {
			continue
		}
		size, earlier := inplace.Round(sizeOf(v)), i
		for _, class := range in.outs[i] {
			if k, ok := first[class]; ok {
				earlier = min(earlier, k)
			} else {
				first[class] = i
			}
		}
		if earlier == i {
			c.place[v.ID] = place{regions: []int32{c.addRegion(size)}}
			continue
		}
		shared := c.place[n.Out[earlier].ID]
		r := &c.m.regions[shared.regions[0]]
		r.bytes = min(r.bytes, size)
		c.place[v.ID] = shared
	}
}

// enclose adds what a control-flow node needs inside, beside its results, which it
// writes, maybe over operands that die.
func (c *counter) enclose(n *ssa.Node, in *inner, x *mnode) {
	for _, v := range n.Out {
		if v != nil {
			x.writes = append(x.writes, c.place[v.ID].regions...)
		}
	}
	x.writes = c.unique(x.writes)
	x.touches = c.unique(append(x.touches, x.writes...))
	var results int64
	for _, r := range x.writes {
		results += c.m.regions[r].bytes
	}
	if over := (fold{out: slices.Clone(x.writes)}); len(over.out) > 0 {
		for _, v := range n.In {
			over.in = c.addHeld(over.in, v)
		}
		over.in = c.unique(over.in)
		x.folds = append(x.folds, over)
	}
	if x.extra = max(in.bound-c.operandBytes(n)-results, 0); c.how.estimate {
		x.extra = max(in.peak-results, 0)
	}
}

// operandBytes is the memory of a node's operands, which its bodies may write over.
func (c *counter) operandBytes(n *ssa.Node) int64 {
	var sum int64
	seen := make(map[*ssa.Value]bool, len(n.In))
	for _, v := range n.In {
		if v != nil && v.Const == nil && !seen[v] {
			sum += inplace.Round(sizeOf(v))
			seen[v] = true
		}
	}
	return sum
}
