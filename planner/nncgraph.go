package planner

import "cmp"

// The NNC allocation graph: which bytes pass from which block to which, and where they lie.
//
// Nodes are the source S, the sink T and the placed blocks. An edge y -> x carries (bytes, offset): so many bytes, beginning at
// that offset, are free from the death of y to the birth of x. A string of blocks that live one after the other between
// y and x is put into the edge and splits it:
//
//	before            S --100@0--> T          string a(60) then b(80) into S -> T, largest 80, at offset 0
//
//	after             S --60@0--> a --60@0--> b --80@0--> T
//	                  S --20@60-------------> b            b takes 60 bytes over from a, 20 from S
//	                  S --20@80-------------------------> T  what is left of the edge
//
// Flow is conserved: what a block receives and what it passes on are both exactly its size. A string always goes into one edge, so every block
// is contiguous. When no edge fits, a new window S -> T is opened: that is what makes the arena grow. Windows lie end to end.
//
// Source: the NNC tensor allocation article; edge choice by hops as in the library that implements it.
type nncGraph struct {
	m       *model
	order   Order
	blocks  []nncBlock
	rows    int64 // more than any number of hops: the cost of an end that is S or T
	windows []nncWindow
	total   int64 // of their sizes
	pad     int64 // common multiple of all alignments: sizes of windows are multiples of it
}

// nncBlock is one buffer.
type nncBlock struct {
	item   int
	lo, hi int   // live range in time points, for fixed schedules
	size   int64 // padded to the common alignment
	window int32 // -1 while not placed
	off    int64 // in the window
}

type nncWindow struct {
	size  int64
	edges []nncEdge
}

// nncEdge passes bytes from block y (or source) to block x (or sink).
type nncEdge struct {
	from, to   int32
	bytes, off int64
}

const (
	source = int32(-1)
	sink   = int32(-2)
)

// nncString is what is placed in one step: blocks in order of time, each past its last use before the next is born.
type nncString struct {
	blocks []int32
	size   int64 // of the largest
	oc     int64 // interference edges of its blocks to blocks not yet placed
	from   int   // no edge of the windows before this one fits
	done   bool
}

// newNNCGraph makes the blocks and the elementary strings: one per item that needs a place.
func newNNCGraph(m *model) (*nncGraph, []nncString) {
	g := &nncGraph{m: m, order: m.order, rows: 1, pad: 1}
	for i := range m.items {
		g.pad = lcm(g.pad, m.items[i].align)
	}
	var list []nncString
	for i := range m.items {
		if m.items[i].size == 0 {
			continue
		}
		x := &m.p.Buffers[i]
		b := nncBlock{item: i, window: -1, lo: x.Lo, hi: x.Hi, size: alignUp(x.Size, g.pad)}
		list = append(list, nncString{blocks: []int32{int32(len(g.blocks))}, size: b.size})
		g.blocks = append(g.blocks, b)
	}
	if m.any != nil {
		g.rows += int64(len(m.any.nodes.Succ))
	} else {
		g.rows += int64(m.span())
	}
	return g, list
}

// span is the number of time points between the first birth and the last death.
func (m *model) span() int {
	lo, hi := maxPoint, -maxPoint
	for i := range m.p.Buffers {
		lo, hi = min(lo, m.p.Buffers[i].Lo), max(hi, m.p.Buffers[i].Hi)
	}
	return max(hi-lo, 0) + 1
}

// hops is the distance from block a to block b, 0 unless b is after a.
func (g *nncGraph) hops(a, b int32) int64 {
	if g.m.timed {
		x, y := &g.blocks[a], &g.blocks[b]
		if x.hi > y.lo || (x.lo == x.hi && y.lo == y.hi) {
			return 0
		}
		return int64(y.lo - x.hi + 1)
	}
	return int64(g.order.Hops(g.blocks[a].item, g.blocks[b].item))
}

// fit finds the edge that holds string s with the fewest hops to both sides; an end at S or T costs more than any hop,
// and not both ends may be. Ties go to the lower window, then the edge whose ends have the lower indices.
func (g *nncGraph) fit(s *nncString) (window, edge int) {
	first, last := s.blocks[0], s.blocks[len(s.blocks)-1]
	window, edge = -1, -1
	best := 3 * g.rows
	for w := s.from; w < len(g.windows); w++ {
		for e := range g.windows[w].edges {
			x := &g.windows[w].edges[e]
			if x.bytes < s.size || (x.from == source && x.to == sink) {
				continue
			}
			before, after := g.rows, g.rows
			if x.from != source {
				if before = g.hops(x.from, first); before == 0 {
					continue
				}
			}
			if x.to != sink && before <= best {
				if after = g.hops(last, x.to); after == 0 {
					continue
				}
			}
			if c := before + after; c < best || (c == best && w == window && less(x, &g.windows[w].edges[edge])) {
				best, window, edge = c, w, e
			}
		}
	}
	return window, edge
}

func less(a, b *nncEdge) bool {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) < 0
}

// open makes a window of the string's size and returns its only edge.
func (g *nncGraph) open(s *nncString) (window, edge int) {
	g.total += s.size
	g.windows = append(g.windows, nncWindow{size: s.size, edges: []nncEdge{{source, sink, s.size, 0}}})
	return len(g.windows) - 1, 0
}

// insert puts the string into an edge: every block takes what it needs from the blocks before it, latest demand first
// served by the earliest block, and the rest from the edge's beginning; it passes its bytes on likewise.
func (g *nncGraph) insert(s *nncString, window, edge int) {
	w := &g.windows[window]
	x := w.edges[edge]
	if x.bytes > s.size {
		w.edges[edge].bytes -= s.size
		w.edges[edge].off += s.size
	} else {
		w.edges[edge] = w.edges[len(w.edges)-1]
		w.edges = w.edges[:len(w.edges)-1]
	}
	link := func(from, to int32, bytes, off int64) {
		if bytes > 0 {
			w.edges = append(w.edges, nncEdge{from, to, bytes, off})
		}
	}
	used := int64(0)
	for _, t := range s.blocks {
		b := &g.blocks[t]
		b.window, b.off = int32(window), x.off
		link(x.from, t, b.size-used, x.off+used)
		used = max(used, b.size)
	}
	for i, t := range s.blocks {
		used, size := int64(0), g.blocks[t].size
		for _, u := range s.blocks[i+1:] {
			if shared := min(size, g.blocks[u].size); shared > used {
				link(t, u, shared-used, x.off+used)
				used = shared
			}
		}
		link(t, x.to, size-used, x.off+used)
	}
	s.done = true
}

// layout lays the windows end to end and gives every item its offset.
func (g *nncGraph) layout() ([]int64, []Window) {
	m := g.m
	at := make([]int64, len(m.items))
	top := int64(0)
	windows := make([]Window, len(g.windows))
	for k, w := range g.windows {
		windows[k] = Window{top, w.size}
		top += w.size
	}
	for k := range g.blocks {
		b := &g.blocks[k]
		at[b.item] = windows[b.window].Offset + b.off
	}
	return at, windows
}
