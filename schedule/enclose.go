package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// What a node with bodies counts for where it stands: the regions its results leave
// behind, and what its bodies need beside them while it runs.
//
//	       ┌ extra   peak of the bodies less results
//	       ■■
//	    ■■■■■■■■■■   results: written by the node, alive as long as they are read
//	■■■■■■■          operands, which a body may write over where they die
//	    while it runs

// placeResults makes the regions of what control flow leaves behind. A result
// that may be an operand passed on also shows that operand's bytes. Where the
// least counts, the operand is not held, since nobody knows whether it is.
func (c *counter) placeResults(n *ssa.Node, in *inner) {
	made := map[int]int32{}
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		var regions []int32
		for _, k := range in.outs[i] {
			if _, ok := made[k]; !ok {
				made[k] = c.addRegion(in.bytes[k])
			}
			regions = appendNew(regions, made[k])
		}
		if c.how.least {
			regions = c.fewest(n, in, i, regions)
		} else {
			for _, k := range in.passes[i] {
				for _, r := range c.passedOn(n.In[k]) {
					regions = appendNew(regions, r)
				}
			}
		}
		c.place[v.ID] = place{regions: regions}
	}
}

// fewest keeps one region of what result i leaves behind, no larger than the
// result, and none that an earlier result may share: another order of the body may
// need fewer places.
func (c *counter) fewest(n *ssa.Node, in *inner, i int, regions []int32) []int32 {
	if len(regions) == 0 {
		return nil
	}
	size := round(sizeOf(n.Out[i]))
	for k, v := range n.Out[:i] {
		if v == nil || len(c.place[v.ID].regions) == 0 {
			continue
		}
		if slices.ContainsFunc(in.outs[i], func(b int) bool { return slices.Contains(in.outs[k], b) }) {
			r := c.place[v.ID].regions[0]
			c.m.regions[r].bytes = min(c.m.regions[r].bytes, size)
			return []int32{r}
		}
	}
	c.m.regions[regions[0]].bytes = size
	return regions[:1]
}

// passedOn are the regions of an operand that a result may be. A block gets its
// region here, before the others have theirs, and is then cut no more.
func (c *counter) passedOn(v *ssa.Value) []int32 {
	if v == nil || v.Const != nil {
		return nil
	}
	p := c.place[v.ID]
	if p.root == nil {
		return p.regions
	}
	if c.spans[p.root] == nil {
		r := c.addRegion(round(sizeOf(p.root)))
		c.m.regions[r].early = p.root.Def == nil
		c.spans[p.root] = []span{{0, sizeOf(p.root), r}}
	}
	return []int32{c.spans[p.root][0].region}
}

// enclose adds what a control-flow node needs inside: beside its results, which
// it writes, the peak of its bodies.
func (c *counter) enclose(n *ssa.Node, in *inner, x *mnode) {
	var results int64
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		regions := c.place[v.ID].regions
		own := min(len(regions), len(in.outs[i])) // operands passed on come after
		for _, r := range regions[:own] {
			if !slices.Contains(x.writes, r) {
				x.writes = append(x.writes, r)
				x.touches = appendNew(x.touches, r)
				results += c.m.regions[r].bytes
			}
		}
	}
	if c.how.least {
		x.extra = max(in.bound-c.operandBytes(n)-results, 0)
		return
	}
	x.extra = max(in.peak-results, 0)
	for _, k := range in.starts {
		p := c.place[n.In[k].ID]
		if rs := c.regionsOf(n.In[k]); p.whole() && len(rs) == 1 && c.m.regions[rs[0]].bytes == round(p.n) {
			x.frees = append(x.frees, rs[0])
		}
	}
}

// operandBytes is the memory of a node's operands, which its bodies may write over.
func (c *counter) operandBytes(n *ssa.Node) int64 {
	var sum int64
	for i, v := range n.In {
		if v != nil && v.Const == nil && !slices.Contains(n.In[:i], v) {
			sum += round(sizeOf(v))
		}
	}
	return sum
}
