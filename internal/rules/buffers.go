package rules

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Which values share a buffer, and when buffers live. Time is the number of a node;
// a buffer lives from the node that first writes to it to its last reader, both
// included, so that operands and results of one node meet:
//
//	0  a = Conv(x)     a |■■|           Relu may write over a: one buffer, [0, 3)
//	1  b = Relu(a)     b   |■■|
//	2  c = Conv(b)     c     |■■■       a result of the graph lives to the end

// buffer is a piece of memory of one graph.
type buffer struct {
	size   int64
	lo, hi int // first writer, last reader + 1
	left   int // reads still to come, a result of the graph counted as one
	result bool
	inner  *ssa.Node // what the node holds for its bodies
}

// sharing is a graph with its values in buffers.
type sharing struct {
	tool    *Tool
	g       *ssa.Graph
	buffers []buffer
	of      map[*ssa.Value]int
	reads   map[*ssa.Value]int // readers of a value in all
	free    []int              // buffers past their last use, latest first
	bodies  map[*ssa.Node]*Plan
}

// share walks the graph in order and gives every value its buffer. bodies are the
// plans of the bodies of its nodes.
func share(t *Tool, g *ssa.Graph, own []*ssa.Value, bodies map[*ssa.Node]*Plan) *sharing {
	s := &sharing{tool: t, g: g, of: map[*ssa.Value]int{}, reads: map[*ssa.Value]int{}, bodies: bodies}
	for _, n := range g.Nodes {
		for _, v := range s.read(n) {
			s.reads[v]++
		}
	}
	for _, v := range g.Results {
		s.reads[v]++
	}
	for _, v := range own {
		if bytesOf(v) > 0 {
			s.add(v, 0)
		}
	}
	for i, n := range g.Nodes {
		s.node(i, n)
	}
	for _, v := range g.Results {
		if b, ok := s.of[v]; ok {
			s.buffers[b].hi = len(g.Nodes) + 1
		}
	}
	return s
}

// read lists the operands that the tool takes a node to read.
func (s *sharing) read(n *ssa.Node) []*ssa.Value {
	if s.tool.blind {
		return n.Formals()
	}
	return n.In
}

// node gives the results of node i their buffers.
func (s *sharing) node(i int, n *ssa.Node) {
	if p := s.bodies[n]; p != nil && s.tool.bodies != separate && p.Arena > 0 {
		s.buffers = append(s.buffers, buffer{size: p.Arena, lo: i, hi: i + 1, inner: n})
	}
	for k, v := range n.Out {
		if bytesOf(v) == 0 {
			continue
		}
		b := s.viewed(n, k)
		if b < 0 {
			b = s.overwritten(n, k)
		}
		if b < 0 && s.tool.reuse && !s.isResult(v) {
			b = s.reusable(bytesOf(v))
		}
		if b < 0 {
			s.add(v, i)
			continue
		}
		s.of[v] = b
		x := &s.buffers[b]
		x.left += s.reads[v]
		x.hi = max(x.hi, i+1)
		x.result = x.result || s.isResult(v)
	}
	for _, v := range s.read(n) {
		b, ok := s.of[v]
		if !ok {
			continue
		}
		x := &s.buffers[b]
		x.hi = max(x.hi, i+1)
		if x.left--; x.left == 0 {
			s.free = slices.Insert(s.free, 0, b)
		}
	}
}

func (s *sharing) isResult(v *ssa.Value) bool { return s.g.IsResult(v) }

// add makes a buffer for a value that node i writes. Where captured values do not
// count as read, one that nothing else reads is kept to the end.
func (s *sharing) add(v *ssa.Value, i int) {
	s.of[v] = len(s.buffers)
	b := buffer{size: bytesOf(v), lo: i, hi: i + 1, left: s.reads[v], result: s.isResult(v)}
	if s.tool.blind && b.left == 0 {
		b.hi = len(s.g.Nodes) + 1
	}
	s.buffers = append(s.buffers, b)
}

// viewed is the buffer of which result k shows all bytes, or -1.
func (s *sharing) viewed(n *ssa.Node, k int) int {
	if !s.tool.views {
		return -1
	}
	for _, a := range ops.Aliases(n) {
		if a.Out != k || a.Concat || a.Offset != 0 {
			continue
		}
		in := n.Input(a.In)
		b, ok := s.of[in]
		if ok && s.buffers[b].size == bytesOf(n.Out[k]) && bytesOf(in) == bytesOf(n.Out[k]) &&
			(!s.tool.reader || s.reads[in] == 1 && !s.isResult(in)) && (s.tool.results || !s.isResult(n.Out[k])) {
			return b
		}
	}
	return -1
}

// overwritten is the buffer of an operand that result k is written over, or -1.
func (s *sharing) overwritten(n *ssa.Node, k int) int {
	if s.tool.over == never || !s.named(n) || !s.tool.results && s.isResult(n.Out[k]) {
		return -1
	}
	for _, p := range ops.InPlacePairs(n) {
		in := n.Input(p.In)
		b, ok := s.of[in]
		if !ok || p.Out != k || s.buffers[b].size != bytesOf(n.Out[k]) || s.buffers[b].result || in.Def == nil {
			continue
		}
		if s.buffers[b].left == 1 && (s.tool.over == lastReader || s.reads[in] == 1) {
			return b
		}
	}
	return -1
}

// named reports whether the tool writes the node's result over operands.
func (s *sharing) named(n *ssa.Node) bool {
	if s.tool.ops != nil {
		return slices.Contains(s.tool.ops, n.Op)
	}
	o := ops.Of(n)
	return o != nil && o.Facts.IsElementwise()
}

// reusable takes the latest free buffer of a size, or -1.
func (s *sharing) reusable(size int64) int {
	for i, b := range s.free {
		if s.buffers[b].size == size {
			s.free = slices.Delete(s.free, i, i+1)
			return b
		}
	}
	return -1
}
