package schedule

import (
	"context"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ssa"
)

// The model of one level, by which orders are searched. What an order needs is
// measured by laying it out and folding it (leveler.try); a search can not do that for
// every set of executed nodes, so it counts with a relaxation of folding, which needs
// no more than any folding of any order does. This is the one place where the two
// differ, and the model is never the larger:
//
//	results over operands   wherever an operand may die, no matter what else is
//	                        folded, also smaller results over larger operands
//	concatenations          a region per piece, for the contents: it counts once,
//	                        whatever block it is in, unless that is decided
//	control flow            its bodies may use the memory of its operands, and
//	                        results that may be operands passed on cost nothing
//
//	concat(p, q) = r      p outside  p and q are blocks, r is another
//	  p ■■■■              p inside   one region of r's size, taken from the first
//	  q     ■■■■■■                   write to p or q on
//	  r ■■■■■■■■■■        open       a region per piece
//
// So the least peak of the model over all orders is a lower bound for all orders and
// all decisions of folding. TestMinPeakOfRandomGraphs and TestModelIsABound hold the
// model against folding.

// counting says what of folding is decided.
type counting struct {
	// copies: parts of a tensor (slices, splits) are copies, not windows.
	copies bool
	// decided is the block that an operand of concatenations is made inside of, nil
	// for none. Others are left open.
	decided map[*ssa.Value]*ssa.Value
	// estimate counts control flow by what its bodies need as they are laid out: for
	// candidates only, since it is no bound.
	estimate bool
}

// place says which bytes a value shows: those of a block, or regions of their own
// that control flow makes. The zero place costs nothing.
type place struct {
	spot
	regions []int32
}

// spot is a run of bytes of a block.
type spot struct {
	root   *ssa.Value // the value that owns the block
	off, n int64
}

func (p spot) whole() bool { return p.root != nil && p.off == 0 && p.n == sizeOf(p.root) }

// span is the run of bytes [lo, hi) of an outermost block that one region stands
// for.
type span struct {
	lo, hi int64
	region int32
}

// run is the places [from, to) of a list.
type run struct{ from, to int32 }

// member says where a block lies in the block it is made inside of. It is fixed
// if that is decided: then the outer block is there from the first write on.
type member struct {
	of    *ssa.Value
	off   int64
	fixed bool
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
	// ambiguous are blocks that folding may place in more than one way. The model does not
	// know which memory their readers keep live, and counts none.
	ambiguous                          map[*ssa.Value]bool
	exact                              map[*ssa.Value]bool       // blocks that may lie inside another, which count their bytes, not rounded up
	ambiguousRegions                   map[int32]bool            // the same for regions of control flow
	carriedBy                          map[*ssa.Value]*ssa.Value // by carried value: the parameter that holds the previous one
	spans                              []span                    // those of an outermost block one after the other
	spansOf                            []run                     // by id of an outermost block
	index                              []int32                   // node number by id
	views                              alias.Views
	seen                               []int32 // by region or node: the last list that it was found in; see unique
	unified                            int32   // how many lists there were
	lists                              slab.Of[int32]
	folded                             slab.Of[fold]
	touches, writes, preds, overwrites []int32 // memory for the lists of a node
	stays                              []*ssa.Value
}

// newModel counts one level. control holds what its control-flow nodes need.
func newModel(ctx context.Context, g *ssa.Graph, rot *loops.Rotation, control map[*ssa.Node]*inner, how counting) *model {
	c := newCounter(ctx, g, rot, control, how)
	c.nestConcats()
	c.makeRegions(ctx)
	for i := range g.Nodes {
		if ctx.Err() != nil {
			break
		}
		c.node(i)
	}
	for _, v := range g.Results {
		for _, r := range c.addHeld(nil, v) {
			c.m.regions[r].kept = true
		}
	}
	c.m.countTouchers()
	c.m.link()
	return c.m
}

func newCounter(ctx context.Context, g *ssa.Graph, rot *loops.Rotation, control map[*ssa.Node]*inner, how counting) *counter {
	c := &counter{g: g, how: how, rot: rot, control: control, m: &model{nodes: make([]mnode, len(g.Nodes))},
		place: make([]place, g.NumValues()), inside: map[*ssa.Value]member{}, ambiguous: map[*ssa.Value]bool{},
		exact: map[*ssa.Value]bool{}, ambiguousRegions: map[int32]bool{}, carriedBy: map[*ssa.Value]*ssa.Value{}, spansOf: make([]run, g.NumValues()), index: make([]int32, g.NumNodeIDs())}
	c.findPlaces(ctx)
	return c
}

// sizeOf is the size of a tensor whose shape is known, else 0.
func sizeOf(v *ssa.Value) int64 {
	n, _ := v.Type.ByteSize()
	return int64(n)
}

// findPlaces gives every value its place, or those that it comes to before the context ends.
func (c *counter) findPlaces(ctx context.Context) {
	params, made := carriedBlocks(c.rot)
	for i, p := range params {
		c.place[p.ID].spot = spot{p, 0, sizeOf(p)}
		c.carriedBy[made[i]] = p
	}
	for i, n := range c.g.Nodes {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return
		}
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
	if w, ok := c.views.WindowOf(v); ok && (w.Whole || !c.how.copies) {
		of := c.place[w.Of.ID]
		if of.root != nil {
			of.off, of.n = of.off+w.Offset, sizeOf(v)
		}
		return of
	}
	if c.rot != nil && c.rot.StackOf(v) != nil || sizeOf(v) == 0 {
		return place{}
	}
	return place{spot: spot{v, 0, sizeOf(v)}}
}

// extent is the outermost block that holds bytes, and the run of it that must be
// there when they are: windows keep all of their block, and blocks inside another
// for sure keep all of that.
func (c *counter) extent(p spot) (top *ssa.Value, lo, hi int64) {
	top, lo, hi = p.root, 0, sizeOf(p.root)
	for {
		m, ok := c.inside[top]
		if !ok {
			return top, lo, hi
		}
		top, lo, hi = m.of, lo+m.off, hi+m.off
		if m.fixed {
			lo, hi = 0, sizeOf(top)
		}
	}
}

// makeRegions cuts every outermost block into regions, one between any two ends
// of extents in it. A block that is cut counts exact bytes, one that is not is
// rounded up.
func (c *counter) makeRegions(ctx context.Context) {
	cuts := make([][]int64, c.g.NumValues()) // within an outermost block, by its id
	var tops []*ssa.Value
	for i, v := range c.valuesInOrder() {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return
		}
		p := c.place[v.ID]
		if p.root == nil {
			continue
		}
		top, lo, hi := c.extent(p.spot)
		if c.spansOf[top.ID].to == 0 {
			tops = append(tops, top)
			c.spansOf[top.ID].to = 1
		}
		if lo != 0 || hi != sizeOf(top) {
			cuts[top.ID] = append(cuts[top.ID], lo, hi)
		}
	}
	c.spans = make([]span, 0, len(tops))
	c.m.regions = slices.Grow(c.m.regions, len(tops))
	var at []int64
	for i, top := range tops {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return
		}
		from := len(c.spans)
		at = append(append(at[:0], 0, sizeOf(top)), cuts[top.ID]...)
		slices.Sort(at)
		at = slices.Compact(at)
		for i := 1; i < len(at); i++ {
			bytes := at[i] - at[i-1]
			if len(at) == 2 && !c.exact[top] {
				bytes = inplace.Round(bytes)
			}
			r := c.addRegion(bytes)
			c.m.regions[r].early = top.Def == nil
			c.spans = append(c.spans, span{at[i-1], at[i], r})
		}
		c.spansOf[top.ID] = run{int32(from), int32(len(c.spans))}
	}
}

func (c *counter) addRegion(bytes int64) int32 {
	c.m.regions = append(c.m.regions, region{bytes: bytes})
	return int32(len(c.m.regions) - 1)
}

func (c *counter) valuesInOrder() []*ssa.Value {
	out := append(make([]*ssa.Value, 0, len(c.g.Params)+len(c.g.Nodes)), c.g.Params...)
	for _, n := range c.g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				out = append(out, v)
			}
		}
	}
	return out
}

// addRegionsOf appends the regions whose bytes a value shows to a list.
func (c *counter) addRegionsOf(list []int32, v *ssa.Value) []int32 {
	if v == nil || v.Const != nil {
		return list
	}
	p := c.place[v.ID]
	if p.root == nil {
		return append(list, p.regions...)
	}
	top, lo, hi := c.extent(p.spot)
	all := c.spansOf[top.ID]
	spans := c.spans[all.from:all.to] // one after the other
	for _, s := range spans[sort.Search(len(spans), func(i int) bool { return lo < spans[i].hi }):] {
		if s.lo >= hi {
			break
		}
		list = append(list, s.region)
	}
	return list
}

// addHeld appends the regions that a reader of v keeps alive to a list.
func (c *counter) addHeld(list []int32, v *ssa.Value) []int32 {
	if v == nil || v.Const != nil {
		return list
	}
	p := c.place[v.ID]
	if p.root == nil {
		for _, r := range p.regions {
			if !c.ambiguousRegions[r] {
				list = append(list, r)
			}
		}
		return list
	}
	for at, ok := p.root, true; ok; {
		if c.ambiguous[at] {
			return list
		}
		var m member
		m, ok = c.inside[at]
		at = m.of
	}
	return c.addRegionsOf(list, v)
}

// node fills in one node of the model.
func (c *counter) node(i int) {
	n, x := c.g.Nodes[i], &c.m.nodes[i]
	c.index[n.ID] = int32(i)
	touches, writes, preds := c.touches[:0], c.writes[:0], c.preds[:0]
	for _, v := range n.In {
		touches = c.addHeld(touches, v)
		if v != nil && v.Def != nil {
			preds = append(preds, c.index[v.Def.ID])
		}
	}
	for _, v := range n.Out {
		if c.writesResult(n, v) {
			writes = c.addRegionsOf(writes, v)
		}
	}
	preds, writes = c.unique(preds), c.unique(writes)
	touches = c.unique(append(touches, writes...))
	x.preds, x.writes, x.touches = c.lists.Copy(preds), c.lists.Copy(writes), c.lists.Copy(touches)
	c.touches, c.writes, c.preds = touches, writes, preds
	if in := c.control[n]; in != nil {
		c.enclose(n, in, x)
	} else {
		x.folds = c.folds(n)
	}
}

// writesResult reports whether a node writes the bytes of its result v, which it does
// not if v is a window of an operand.
func (c *counter) writesResult(n *ssa.Node, v *ssa.Value) bool {
	return v != nil && c.control[n] == nil && c.place[v.ID].root == v
}

// unique keeps the first of equal elements, in place.
func (c *counter) unique(list []int32) []int32 {
	c.unified++
	out := list[:0]
	for _, x := range list {
		if more := int(x) + 1 - len(c.seen); more > 0 {
			c.seen = append(c.seen, make([]int32, more)...)
		}
		if c.seen[x] != c.unified {
			c.seen[x] = c.unified
			out = append(out, x)
		}
	}
	return out
}
