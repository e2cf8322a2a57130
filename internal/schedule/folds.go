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
		if !c.writes(n, y) {
			continue
		}
		f := fold{out: c.regionsOf(y)}
		for _, a := range pairs {
			if a.Out != k || n.In[a.In] == nil || !c.mayDie(n, a.In, k, pairs) {
				continue
			}
			for _, r := range c.held(n.In[a.In]) {
				f.in = appendNew(f.in, r)
			}
		}
		if len(f.in) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// mayDie reports whether operand i of a node can be written over by result k: it has
// the result's size or more, is a whole block or what control flow left behind, and is
// read through no operand that result k may not overwrite.
func (c *counter) mayDie(n *ssa.Node, i, k int, pairs []ops.Pair) bool {
	v := n.In[i]
	if v.Const != nil || sizeOf(v) < sizeOf(n.Out[k]) {
		return false
	}
	p := c.place[v.ID]
	return p.root == nil || p.whole() && c.through(n, p.root, k, pairs)
}

// through reports whether a node reads a block only through operands that result k
// may be written over.
func (c *counter) through(n *ssa.Node, root *ssa.Value, k int, pairs []ops.Pair) bool {
	return alias.OverwritesAll(n, k, pairs, func(i int) bool {
		u := n.In[i]
		return u != nil && u.Const == nil && c.place[u.ID].root == root
	})
}
