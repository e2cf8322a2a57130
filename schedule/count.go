package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ssa"
)

// counting says how the memory of a level is counted. Whether a slice is a window
// or a copy, and whether a concatenation is made in place, is decided by package
// inplace for the finished order; here each is fixed for a whole level, or left
// open:
//
//	concat(p, q) = r          copied        p and q are blocks, r is another
//	  p ■■■■                  concats       one region of r's size, taken from the
//	  q     ■■■■■■                          first write to p or q on
//	  r ■■■■■■■■■■            atoms         a region per piece: bytes of r count
//	                                        while they hold something, whatever
//	                                        block that is in
//
// Counted in atoms, no order needs more than it does with any of the decisions:
// the least peak over all orders is a lower bound for all of them.
type counting struct {
	windows bool // slices and splits keep their operand and cost nothing
	concats bool // operands of concatenations are made in the result where they can
	atoms   bool // neither is decided: count distinct contents (implies the others)
}

// place says which bytes a value shows: those of a block, or regions of their own
// that control flow makes. The zero place costs nothing.
type place struct {
	root    *ssa.Value // the value that owns the bytes
	off, n  int64
	regions []int32
}

func (p place) whole() bool { return p.root != nil && p.off == 0 && p.n == sizeOf(p.root) }

// span is the run of bytes [lo, hi) of a family that one region stands for.
type span struct {
	lo, hi int64
	region int32
}

// member is where a block lies in the block it is made inside of.
type member struct {
	of  *ssa.Value
	off int64
}

// counter builds the model of one level.
type counter struct {
	g       *ssa.Graph
	how     counting
	rot     *loops.Rotation // the loop whose body g is, if it is one
	control map[*ssa.Node]*inner

	m      *model
	place  []place
	inside map[*ssa.Value]member
	hosts  map[*ssa.Value]bool   // blocks that others lie in
	spans  map[*ssa.Value][]span // by block that is inside no other
	index  []int32               // node number by id
}

// newModel counts one level. control holds what its control-flow nodes need.
func newModel(g *ssa.Graph, rot *loops.Rotation, control map[*ssa.Node]*inner, how counting) *model {
	c := &counter{g: g, how: how, rot: rot, control: control, m: &model{nodes: make([]mnode, len(g.Nodes))},
		place: make([]place, g.NumValues()), inside: map[*ssa.Value]member{}, hosts: map[*ssa.Value]bool{}, spans: map[*ssa.Value][]span{}, index: make([]int32, g.NumNodeIDs())}
	c.findPlaces()
	if how.concats || how.atoms {
		c.nestConcats()
	}
	if how.concats && !how.atoms {
		c.nestChains()
	}
	c.makeRegions()
	for i := range g.Nodes {
		c.node(i)
	}
	for _, v := range g.Results {
		for _, r := range c.regionsOf(v) {
			c.m.regions[r].kept = true
		}
	}
	c.m.countTouchers()
	c.m.link()
	return c.m
}

// sizeOf is the size of a tensor whose shape is known, else 0.
func sizeOf(v *ssa.Value) int64 {
	if n, ok := v.Type.ByteSize(); ok {
		return int64(n)
	}
	return 0
}

// findPlaces gives every value its place.
func (c *counter) findPlaces() {
	for _, p := range c.g.Params {
		if c.rot != nil && !c.how.atoms && ownsPlace(c.rot, p) {
			c.place[p.ID] = place{root: p, n: sizeOf(p)}
		}
	}
	for _, n := range c.g.Nodes {
		if in := c.control[n]; in != nil {
			c.placeResults(n, in)
			continue
		}
		for _, v := range n.Out {
			if v != nil {
				c.place[v.ID] = c.placeOf(v)
			}
		}
	}
}

func (c *counter) placeOf(v *ssa.Value) place {
	if w, ok := loops.WindowOf(v); ok && (w.Whole || c.how.windows || c.how.atoms) {
		of := c.place[w.Of.ID]
		if of.root == nil {
			return of
		}
		return place{root: of.root, off: of.off + w.Offset, n: sizeOf(v)}
	}
	if c.rot != nil && c.rot.StackOf(v) != nil || sizeOf(v) == 0 {
		return place{}
	}
	return place{root: v, n: sizeOf(v)}
}

// placeResults makes the regions of what control flow leaves behind. A result
// that may be an operand passed on also shows that operand's bytes; counted in
// atoms the operand is not held, since nobody knows whether it is.
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
		if c.how.atoms {
			regions = c.least(n, in, i, regions)
		} else {
			for _, k := range in.passes[i] {
				for _, r := range c.placedRegions(n.In[k]) {
					regions = appendNew(regions, r)
				}
			}
		}
		c.place[v.ID] = place{regions: regions}
	}
}

// least keeps one region of what result i leaves behind, no larger than the
// result: another order of the body may need fewer places for it.
func (c *counter) least(n *ssa.Node, in *inner, i int, regions []int32) []int32 {
	if len(regions) == 0 {
		return nil
	}
	for k, v := range n.Out[:i] {
		if v == nil {
			continue
		}
		for _, r := range c.place[v.ID].regions {
			for _, q := range in.outs[i] {
				if slices.Contains(in.outs[k], q) {
					c.m.regions[r].bytes = min(c.m.regions[r].bytes, round(sizeOf(n.Out[i])))
					return []int32{r}
				}
			}
		}
	}
	c.m.regions[regions[0]].bytes = round(sizeOf(n.Out[i]))
	return regions[:1]
}

// placedRegions are the regions of a value before blocks have theirs: a block
// gets a provisional place of its own, so that makeRegions can fill it in.
func (c *counter) placedRegions(v *ssa.Value) []int32 {
	if v == nil || v.Const != nil {
		return nil
	}
	p := c.place[v.ID]
	if p.root == nil {
		return p.regions
	}
	if c.spans[p.root] == nil { // passed on: it stays a region of its own
		r := c.addRegion(round(sizeOf(p.root)))
		c.m.regions[r].early = p.root.Def == nil
		c.spans[p.root] = []span{{0, sizeOf(p.root), r}}
	}
	return []int32{c.spans[p.root][0].region}
}

func (c *counter) addRegion(bytes int64) int32 {
	c.m.regions = append(c.m.regions, region{bytes: bytes})
	return int32(len(c.m.regions) - 1)
}

// makeRegions cuts every outermost block into regions: one, or counted in atoms
// one between any two borders of blocks and windows in it. A block that is cut
// counts exact bytes, one that is not is rounded up.
func (c *counter) makeRegions() {
	cuts := map[*ssa.Value][]int64{}
	var tops []*ssa.Value
	for _, v := range c.valuesInOrder() {
		p := c.place[v.ID]
		if p.root == nil {
			continue
		}
		top, off := c.top(p.root)
		if cuts[top] == nil {
			tops = append(tops, top)
			cuts[top] = []int64{0, sizeOf(top)}
		}
		if c.how.atoms {
			cuts[top] = append(cuts[top], off+p.off, off+p.off+p.n)
		}
	}
	for _, top := range tops {
		if c.spans[top] != nil {
			continue
		}
		at := slices.Compact(sorted(cuts[top]))
		for i := 1; i < len(at); i++ {
			bytes := at[i] - at[i-1]
			if len(at) == 2 {
				bytes = round(bytes)
			}
			r := c.addRegion(bytes)
			c.m.regions[r].early = top.Def == nil
			c.spans[top] = append(c.spans[top], span{at[i-1], at[i], r})
		}
	}
}

func (c *counter) valuesInOrder() []*ssa.Value {
	out := slices.Clone(c.g.Params)
	for _, n := range c.g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				out = append(out, v)
			}
		}
	}
	return out
}

func sorted(x []int64) []int64 {
	slices.Sort(x)
	return x
}

// regionsOf lists the regions whose bytes a value shows.
func (c *counter) regionsOf(v *ssa.Value) []int32 {
	if v == nil || v.Const != nil {
		return nil
	}
	p := c.place[v.ID]
	if p.root == nil {
		return p.regions
	}
	top, off := c.top(p.root)
	var out []int32
	for _, s := range c.spans[top] {
		if s.lo < off+p.off+p.n && off+p.off < s.hi {
			out = append(out, s.region)
		}
	}
	return out
}

// node fills in one node of the model.
func (c *counter) node(i int) {
	n, x := c.g.Nodes[i], &c.m.nodes[i]
	c.index[n.ID] = int32(i)
	for _, v := range n.In {
		for _, r := range c.regionsOf(v) {
			x.touches = appendNew(x.touches, r)
		}
		if v != nil && v.Def != nil {
			x.preds = appendNew(x.preds, c.index[v.Def.ID])
		}
	}
	for _, v := range n.Out {
		writes := c.writes(n, v)
		for _, r := range c.regionsOf(v) {
			x.touches = appendNew(x.touches, r)
			if writes {
				x.writes = appendNew(x.writes, r)
			}
		}
	}
	if in := c.control[n]; in != nil {
		c.enclose(n, in, x)
	} else {
		x.folds = c.folds(n)
	}
}

// writes reports whether a node writes the bytes of its result v, which it does
// not if v is a window of an operand.
func (c *counter) writes(n *ssa.Node, v *ssa.Value) bool {
	return v != nil && c.control[n] == nil && c.place[v.ID].root == v
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
		own := min(len(regions), len(in.outs[i])) // passed-on operands come after
		for _, r := range regions[:own] {
			if !slices.Contains(x.writes, r) {
				x.writes = append(x.writes, r)
				results += c.m.regions[r].bytes
			}
		}
	}
	if !c.how.atoms {
		x.extra = max(in.peak-results, 0)
		for _, k := range in.starts {
			if p := c.place[n.In[k].ID]; p.whole() {
				if rs := c.regionsOf(n.In[k]); len(rs) == 1 && c.m.regions[rs[0]].bytes == round(p.n) {
					x.frees = append(x.frees, rs[0])
				}
			}
		}
		return
	}
	hosts := int64(0) // bodies may write over operands
	for _, r := range x.touches {
		if !slices.Contains(x.writes, r) {
			hosts += c.m.regions[r].bytes
		}
	}
	x.extra = max(in.bound-hosts-results, 0)
}

func appendNew(list []int32, x int32) []int32 {
	if slices.Contains(list, x) {
		return list
	}
	return append(list, x)
}

// round is the size that a block takes in an arena.
func round(n int64) int64 { return (n + 63) &^ 63 }
