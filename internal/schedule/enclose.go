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
	for i, v := range n.Out {
		if v == nil || len(in.outs[i]) == 0 {
			continue
		}
		size, region := inplace.Round(sizeOf(v)), int32(-1)
		for k, u := range n.Out[:i] {
			if u != nil && region < 0 && slices.ContainsFunc(in.outs[i], func(b int) bool { return slices.Contains(in.outs[k], b) }) {
				region = c.place[u.ID].regions[0]
				c.m.regions[region].bytes = min(c.m.regions[region].bytes, size)
			}
		}
		if region < 0 {
			region = c.addRegion(size)
		}
		c.place[v.ID] = place{regions: []int32{region}}
	}
}

// enclose adds what a control-flow node needs inside, beside its results, which it
// writes, maybe over operands that die.
func (c *counter) enclose(n *ssa.Node, in *inner, x *mnode) {
	var results int64
	for _, v := range n.Out {
		if v == nil {
			continue
		}
		for _, r := range c.place[v.ID].regions {
			if !slices.Contains(x.writes, r) {
				x.writes = append(x.writes, r)
				x.touches = appendNew(x.touches, r)
				results += c.m.regions[r].bytes
			}
		}
	}
	if over := (fold{out: slices.Clone(x.writes)}); len(over.out) > 0 {
		for _, v := range n.In {
			for _, r := range c.held(v) {
				over.in = appendNew(over.in, r)
			}
		}
		x.folds = append(x.folds, over)
	}
	if x.extra = max(in.bound-c.operandBytes(n)-results, 0); c.how.estimate {
		x.extra = max(in.peak-results, 0)
	}
}

// operandBytes is the memory of a node's operands, which its bodies may write over.
func (c *counter) operandBytes(n *ssa.Node) int64 {
	var sum int64
	for i, v := range n.In {
		if v != nil && v.Const == nil && !slices.Contains(n.In[:i], v) {
			sum += inplace.Round(sizeOf(v))
		}
	}
	return sum
}
