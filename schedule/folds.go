package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// folds lists the results of a node that may go over operands. Where atoms count,
// every operand of the right size may be written over as far as it dies.
func (c *counter) folds(n *ssa.Node) []fold {
	pairs := ops.InPlacePairs(n)
	var out []fold
	for k, y := range n.Out {
		if y == nil || !c.writes(n, y) {
			continue
		}
		f := fold{out: c.regionsOf(y)}
		if !c.how.atoms && !c.alone(y) {
			continue
		}
		for _, a := range pairs {
			if a.Out != k || n.In[a.In] == nil || !c.mayDie(n, a.In, k, pairs) {
				continue
			}
			for _, r := range c.regionsOf(n.In[a.In]) {
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
// has the result's size, is a whole block or what control flow left behind, and
// is read through no operand that result k may not overwrite.
func (c *counter) mayDie(n *ssa.Node, i, k int, pairs []ops.Pair) bool {
	v := n.In[i]
	p := c.place[v.ID]
	size := sizeOf(n.Out[k])
	if v.Const != nil || sizeOf(v) != size {
		return false
	}
	if p.root == nil {
		return len(p.regions) == 1 && (c.how.atoms || c.m.regions[p.regions[0]].bytes == round(size))
	}
	if !p.whole() {
		return c.how.atoms // as a copy it may be
	}
	if _, nested := c.inside[p.root]; nested && !c.how.atoms {
		return false
	}
	for j, u := range n.In {
		if u == nil || u.Const != nil || c.place[u.ID].root != p.root {
			continue
		}
		if c.how.atoms && !c.place[u.ID].whole() {
			continue
		}
		if !slices.Contains(pairs, ops.Pair{In: j, Out: k}) {
			return false
		}
	}
	return true
}
