package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// What may be written over what, as far as it is known before the order is. A fold
// saves the bytes of a result if the operand dies at the node, and whether it does
// depends on the order:
//
//	x ─▶ relu ─▶ y       if relu is x's last reader, y costs nothing; the search asks
//	└──▶ exp ─▶ …        for each order whether exp came before

// folds lists the results of a node that may go over operands, as far as these die,
// wherever they lie; smaller results, too.
func (c *counter) folds(n *ssa.Node) []fold {
	pairs := ops.InPlacePairs(n)
	if smaller := ops.SmallerPairs(n); len(smaller) > 0 {
		pairs = append(slices.Clone(pairs), smaller...)
	}
	var out []fold
	for k, y := range n.Out {
		if !c.writesResult(n, y) || !slices.ContainsFunc(pairs, func(a ops.Pair) bool { return a.Out == k }) {
			continue
		}
		in, stays := c.overwrites[:0], c.staying(n, k, pairs)
		for _, a := range pairs {
			if v := n.In[a.In]; a.Out == k && v != nil && c.mayDie(v, y, stays) {
				in = c.addHeld(in, v)
			}
		}
		in = c.unique(in)
		if c.overwrites = in; len(in) == 0 {
			continue
		}
		if out == nil {
			out = c.folded.Make(len(n.Out))[:0]
		}
		out = append(out, fold{out: c.lists.Copy(c.addRegionsOf(c.touches[:0], y)), in: c.lists.Copy(in)})
	}
	return out
}

// mayDie reports whether an operand can be written over by a result: it has
// the result's size or more, is a whole block or what control flow left behind, and does
// not stay.
func (c *counter) mayDie(operand, result *ssa.Value, stays []*ssa.Value) bool {
	if operand.Const != nil || sizeOf(operand) < sizeOf(result) {
		return false
	}
	p := c.place[operand.ID]
	return p.root == nil || p.whole() && !slices.Contains(stays, p.root)
}

// staying lists the blocks that a node reads through operands which result k may not
// be written over; its memory serves one list after the other.
func (c *counter) staying(n *ssa.Node, k int, pairs []ops.Pair) []*ssa.Value {
	blocks := c.stays[:0]
	add := func(v *ssa.Value) {
		if root := c.place[v.ID].root; v.Const == nil && root != nil {
			blocks = append(blocks, root)
		}
	}
	if len(pairs) > fewPairs {
		for _, i := range alias.Unpaired(n, k, pairs) {
			add(n.In[i])
		}
	} else {
		for i, v := range n.In {
			if v != nil && !slices.Contains(pairs, ops.Pair{In: i, Out: k}) {
				add(v)
			}
		}
	}
	c.stays = blocks
	return blocks
}

// fewPairs are looked at one by one.
const fewPairs = 16
