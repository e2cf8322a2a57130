package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// What may be written over what, as far as it is known before the order is. A fold
// saves the bytes of a result if the operand dies at the node, and whether it does
// depends on the order:
//
//	x ─▶ relu ─▶ y       if relu is x's last reader, y costs nothing; the search asks
//	└──▶ exp ─▶ …        for each order whether exp came before

// folds lists the results of a node that may go over operands. Where the least
// counts, an operand may be written over as far as it dies, wherever it lies, and
// by smaller results, too: package inplace decides about those when all else is
// laid out.
func (c *counter) folds(n *ssa.Node) []fold {
	pairs := ops.InPlacePairs(n)
	if c.how.least && static(n) {
		pairs = append(slices.Clone(pairs), ops.SmallerPairs(n)...)
	}
	var out []fold
	for k, y := range n.Out {
		if !c.writes(n, y) || !c.how.least && !c.alone(y) {
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

// alone reports whether a block is a region of its own.
func (c *counter) alone(root *ssa.Value) bool {
	_, nested := c.inside[root]
	return !nested && !c.hosts[root]
}

// mayDie reports whether operand i of a node can be written over by result k: it
// has the result's size, or more where the least counts, is a whole block or what control flow left behind, and
// is read through no operand that result k may not overwrite.
func (c *counter) mayDie(n *ssa.Node, i, k int, pairs []ops.Pair) bool {
	v := n.In[i]
	if size, out := sizeOf(v), sizeOf(n.Out[k]); v.Const != nil || size < out || size > out && !c.how.least {
		return false
	}
	p := c.place[v.ID]
	_, nested := c.inside[p.root]
	switch {
	case c.how.least && (p.root == nil || !p.whole()):
		return p.root == nil || c.how.windows == open // as a copy it may be
	case p.root == nil:
		return len(p.regions) == 1 && c.m.regions[p.regions[0]].bytes == round(sizeOf(v))
	case !p.whole() || nested && !c.how.least:
		return false
	}
	return c.through(n, p.root, k, pairs)
}

// through reports whether a node reads a block only through operands that result k
// may be written over. While windows are open those are not counted: they may be
// copies.
func (c *counter) through(n *ssa.Node, root *ssa.Value, k int, pairs []ops.Pair) bool {
	for j, u := range n.In {
		if u == nil || u.Const != nil || c.place[u.ID].root != root || c.how.windows == open && !c.place[u.ID].whole() {
			continue
		}
		if !slices.Contains(pairs, ops.Pair{In: j, Out: k}) {
			return false
		}
	}
	return true
}
