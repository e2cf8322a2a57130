package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/batch"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A budget of bytes for a step. What the backward pass reads of the forward pass is kept, or computed again from what is
// kept, when it is needed:
//
//	all kept       f1 ─ f2 ─ f3 ─ f4 ─ loss ─ b4 ─ b3 ─ b2 ─ b1        f1 … f4 live at once
//	two segments   f1 ─ f2 ─ f3 ─ f4 ─ loss ─ b4 ─ b3 ─ f1' ─ b2 ─ b1  f2 is kept, f3 and f4 are near
//
// Candidates are tried from the one that computes least again: nothing; results of cheap operators, those that are not products,
// convolutions or normalizations; the batch in more and more parts (internal/batch), which compute nothing again unless they do results of cheap operators;
// then more and more segments of the forward pass, of which values that cross a boundary are
// kept, all of them or without those of cheap operators. Each candidate is ordered and laid out as any program; one of which no more bytes are live at once than the budget has is also planned as any is. The first
// that fits is the program. Where none does, the smallest is made smaller at its peak (refine.go). Copies compute what the originals did, perhaps in
// other groups of elementwise nodes, whose last bits may differ.
//
// Source: Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost", https://arxiv.org/abs/1604.06174

// BudgetError says that no choice of what to keep fits a budget.
type BudgetError struct {
	Budget int64 // as given
	Least  int64 // bytes of the smallest arena found
}

// Error names both.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("a step takes %d bytes at least, more than the budget of %d: raise it, or take smaller batches", e.Least, e.Budget)
}

// planned compiles the step within the budget, if there is one. What a candidate changes comes behind the rewriting passes, which would undo
// its copies.
func (t *Trainer) planned(ctx context.Context, m *ssa.Module, opts []berth.Option) (*berth.Program, error) {
	s := &search{trainer: t, module: m, options: opts}
	list := candidates()
	p, err := s.plan(ctx, list[0], true)
	if err != nil || s.fits(p) {
		return s.take(p), err
	}
	s.least = p
	for _, c := range slices.Insert(list[1:], 1, inParts(s.axes)...) {
		if 2*c.segments > s.nodes || s.axes != nil && c.segments > fewSegments {
			break
		}
		if p, err = s.try(ctx, c); err != nil || p != nil {
			return s.take(p), err
		}
	}
	start := s.least
	for _, s.high = range []int64{start.bound(), start.bound() / 4 * 3} {
		if p, err = s.refine(ctx, start); err != nil || p != nil {
			return s.take(p), err
		}
	}
	if p, err = s.plan(ctx, s.least.candidate, true); err != nil || s.fits(p) {
		return s.take(p), err
	}
	return nil, &BudgetError{Budget: t.options.Budget, Least: p.program.Plan().ArenaBytes}
}

// candidate says which results of the forward pass are kept, by position of the node.
type candidate struct {
	name     string
	parts    int // of the batch; 0: it is not cut
	segments int // that the forward pass is cut into; 0: it is not
	keep     func(f *forwardPart, at int) bool
	apart    map[string]bool // results, by name, of which copies for copies are others than those for the backward pass; nil: of none
}

// lean changes a rewritten step so that it takes less memory.
func (c candidate) lean(ctx context.Context, g *ssa.Graph, leavesOut func(pass string) bool) error {
	if !leavesOut(fuse.EpiloguePass) {
		accumulated(g)
	}
	c.apply(g)
	if leavesOut(fuse.Pass) {
		return nil
	}
	return grouped(ctx, g)
}

// forwardPart is the forward pass of a step: the nodes that the loss, result 0, depends on.
type forwardPart struct {
	nodes []*ssa.Node
	at    map[*ssa.Node]int
	last  []int   // by node: the last node of the forward pass that reads a result of it
	bytes []int64 // of the results that the backward pass reads, up to and with the node
}

func forwardOf(g *ssa.Graph) *forwardPart {
	f := &forwardPart{at: map[*ssa.Node]int{}}
	needed := map[*ssa.Node]bool{}
	queue := []*ssa.Value{g.Results[0]}
	for len(queue) > 0 {
		v := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if v != nil && v.Def != nil && !needed[v.Def] {
			needed[v.Def] = true
			queue = append(queue, v.Def.In...)
		}
	}
	for _, n := range g.Nodes {
		if needed[n] {
			f.at[n] = len(f.nodes)
			f.nodes = append(f.nodes, n)
		}
	}
	var sum int64
	for i, n := range f.nodes {
		f.last = append(f.last, i)
		for _, v := range n.Out {
			if v == nil {
				continue
			}
			saved := false
			for _, u := range v.Uses() {
				if at, ok := f.at[u.Node]; ok {
					f.last[i] = max(f.last[i], at)
				} else {
					saved = true
				}
			}
			if saved {
				if shape, ok := v.Type.Static(); ok {
					sum += int64(ndarray.Product(shape) * v.Type.DType.Size())
				}
			}
		}
		f.bytes = append(f.bytes, sum)
	}
	return f
}

// candidates are the choices, from the one that computes least again.
func candidates() []candidate {
	list := []candidate{
		{name: "all", keep: func(*forwardPart, int) bool { return true }},
		{name: "all but results of cheap operators", keep: func(f *forwardPart, at int) bool { return !isCheap(f.nodes[at]) }},
	}
	for _, count := range []int{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
		list = append(list, candidate{name: fmt.Sprintf("%d segments", count), segments: count, keep: func(f *forwardPart, at int) bool { return f.crosses(at, count) }})
		if count <= fewSegments { // with more, the copies of the operators between two boundaries take what the results took
			list = append(list, candidate{name: fmt.Sprintf("%d segments, but no results of cheap operators", count), segments: count,
				keep: func(f *forwardPart, at int) bool { return f.crosses(at, count) && !isCheap(f.nodes[at]) }})
		}
	}
	return list
}

// fewSegments is how many segments are tried where the batch can be cut: with more, the copies take what results took.
const fewSegments = 4

// mostParts is into how many parts a batch is cut at most.
const mostParts = 16

// inParts are the choices that cut the batch, from the one with the largest parts.
func inParts(axes *batch.Axes) (list []candidate) {
	for _, count := range axes.Parts() {
		if count > mostParts {
			break
		}
		for _, c := range candidates()[:2] {
			c.name, c.parts = fmt.Sprintf("%s, in %d parts of the batch", c.name, count), count
			list = append(list, c)
		}
	}
	return list
}

// crosses reports whether results of a node are read behind the segment that it is in. All of the last segment count, since the
// backward pass begins there.
func (f *forwardPart) crosses(at, count int) bool {
	segment := f.segment(at, count)
	return segment == count-1 || f.segment(f.last[at], count) > segment
}

// segment is which of a number of segments, of as many bytes each, a node is in.
func (f *forwardPart) segment(at, count int) int {
	total := f.bytes[len(f.bytes)-1]
	if total == 0 {
		return count - 1
	}
	return int(min(f.bytes[at]*int64(count)/(total+1), int64(count-1)))
}

// isCheap reports operators that take time in proportion to their elements.
func isCheap(n *ssa.Node) bool {
	o := ops.Of(n)
	return o != nil && (o.Facts.IsElementwise() || o.Facts.IsMovement())
}

// apply gives the readers in the backward pass copies of what is not kept, ahead of the first of them.
func (c candidate) apply(g *ssa.Graph) {
	f := forwardOf(g)
	r := &recompute{graph: g, part: f, candidate: c, copies: map[copyOf]*ssa.Node{}}
	for _, n := range slices.Clone(g.Nodes) {
		if _, forward := f.at[n]; forward {
			continue
		}
		for i, v := range n.In {
			n.SetInput(i, r.near(v, n, false))
		}
	}
}

// recompute makes copies of nodes of the forward pass.
type recompute struct {
	candidate
	graph  *ssa.Graph
	part   *forwardPart
	copies map[copyOf]*ssa.Node
}

// copyOf is a node, and whether its copy is one for copies alone.
type copyOf struct {
	node   *ssa.Node
	behind bool
}

// near is a value, or the result of a copy ahead of a node; behind says that a copy reads it.
func (r *recompute) near(v *ssa.Value, mark *ssa.Node, behind bool) *ssa.Value {
	if v == nil || v.Def == nil {
		return v
	}
	at, forward := r.part.at[v.Def]
	if !forward || !canRepeat(v.Def) || r.keep(r.part, at) {
		return v
	}
	key := copyOf{v.Def, behind && r.apart[v.Name]}
	m := r.copies[key]
	if m == nil {
		in := make([]*ssa.Value, len(v.Def.In))
		for i, x := range v.Def.In {
			in[i] = r.near(x, mark, true)
		}
		m = r.graph.InsertBefore(mark, v.Def.Op, in, 0, v.Def.Attrs...)
		m.Domain, m.Version, m.Sources = v.Def.Domain, v.Def.Version, v.Def.Sources
		for i, o := range v.Def.Out {
			name := ""
			if o != nil {
				name = o.Name + again
			}
			if w := r.graph.AddOutput(m, name); w != nil {
				w.Type, w.Content = v.Def.Out[i].Type, v.Def.Out[i].Content
			}
		}
		r.copies[key] = m
	}
	return m.Out[v.DefIndex]
}

// again ends the names of results of copies.
const again = " again"

// canRepeat reports nodes that give the same again, and that are no control flow.
func canRepeat(n *ssa.Node) bool {
	o := ops.Of(n)
	return o != nil && len(n.Bodies) == 0 && o.Facts.Traits.Randomness == ops.Deterministic
}
