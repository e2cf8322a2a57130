package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A budget of bytes for a step. What the way back reads of the way forward is kept, or computed again from what is
// kept, when it is needed:
//
//	all kept       f1 ─ f2 ─ f3 ─ f4 ─ loss ─ b4 ─ b3 ─ b2 ─ b1        f1 … f4 live at once
//	two segments   f1 ─ f2 ─ f3 ─ f4 ─ loss ─ b4 ─ b3 ─ f1' ─ b2 ─ b1  f2 is kept, f3 and f4 are near
//
// Candidates are tried from the one that computes least again: nothing; results of cheap operators, those that are not products,
// convolutions or normalizations; then more and more segments of the way forward, of which values that cross a boundary are
// kept, all of them or without those of cheap operators. Each candidate is ordered, planned and verified as any program, so its arena is what a step takes. The first
// that fits is the program. Copies compute what the originals did with the same kernels: numbers do not depend on the
// budget.
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
	short := &BudgetError{Budget: t.options.Budget}
	nodes := 0 // of the rewritten step
	for _, candidate := range candidates() {
		if 2*candidate.segments > nodes {
			break
		}
		lean := rewrite.Further(func(ctx context.Context, g *ssa.Graph, leavesOut func(pass string) bool) error {
			nodes = len(g.Nodes)
			return candidate.lean(ctx, g, leavesOut)
		})
		one := *m
		one.Graph, _ = m.Graph.Clone()
		p, err := berth.FromModule(&one).Compile(lean.In(ctx), opts...)
		if err != nil {
			return nil, err
		}
		arena := p.Plan().ArenaBytes
		if arena <= t.options.Budget || t.options.Budget <= 0 {
			t.kept = candidate.name
			return p, nil
		}
		if short.Least == 0 || arena < short.Least {
			short.Least = arena
		}
	}
	return nil, short
}

// candidate says which results of the way forward are kept, by position of the node.
type candidate struct {
	name     string
	segments int // that the way forward is cut into; 0: it is not
	keep     func(f *forwardPart, at int) bool
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

// forwardPart is the way forward of a step: the nodes that the loss, result 0, depends on.
type forwardPart struct {
	nodes []*ssa.Node
	at    map[*ssa.Node]int
	last  []int   // by node: the last node of the way forward that reads a result of it
	bytes []int64 // of the results that the way back reads, up to and with the node
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
		{"all", 0, func(*forwardPart, int) bool { return true }},
		{"all but results of cheap operators", 0, func(f *forwardPart, at int) bool { return !isCheap(f.nodes[at]) }},
	}
	for _, count := range []int{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
		list = append(list, candidate{fmt.Sprintf("%d segments", count), count, func(f *forwardPart, at int) bool { return f.crosses(at, count) }})
		if count <= 4 { // with more, the copies of the operators between two boundaries take what the results took
			list = append(list, candidate{fmt.Sprintf("%d segments, but no results of cheap operators", count), count,
				func(f *forwardPart, at int) bool { return f.crosses(at, count) && !isCheap(f.nodes[at]) }})
		}
	}
	return list
}

// crosses reports whether results of a node are read behind the segment that it is in. All of the last segment count, since the way
// back begins there.
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

// apply gives the readers on the way back copies of what is not kept, ahead of the first of them.
func (c candidate) apply(g *ssa.Graph) {
	f := forwardOf(g)
	r := &recompute{graph: g, part: f, keep: c.keep, copies: map[*ssa.Node]*ssa.Node{}}
	for _, n := range slices.Clone(g.Nodes) {
		if _, forward := f.at[n]; forward {
			continue
		}
		for i, v := range n.In {
			n.SetInput(i, r.near(v, n))
		}
	}
}

// recompute makes copies of nodes of the way forward.
type recompute struct {
	graph  *ssa.Graph
	part   *forwardPart
	keep   func(*forwardPart, int) bool
	copies map[*ssa.Node]*ssa.Node
}

// near is a value, or the result of a copy ahead of a node.
func (r *recompute) near(v *ssa.Value, mark *ssa.Node) *ssa.Value {
	if v == nil || v.Def == nil {
		return v
	}
	at, forward := r.part.at[v.Def]
	if !forward || !canRepeat(v.Def) || r.keep(r.part, at) {
		return v
	}
	m := r.copies[v.Def]
	if m == nil {
		in := make([]*ssa.Value, len(v.Def.In))
		for i, x := range v.Def.In {
			in[i] = r.near(x, mark)
		}
		m = r.graph.InsertBefore(mark, v.Def.Op, in, 0, v.Def.Attrs...)
		m.Domain = v.Def.Domain
		for i, o := range v.Def.Out {
			name := ""
			if o != nil {
				name = o.Name + " again"
			}
			if w := r.graph.AddOutput(m, name); w != nil {
				w.Type, w.Content = v.Def.Out[i].Type, v.Def.Out[i].Content
			}
		}
		r.copies[v.Def] = m
	}
	return m.Out[v.DefIndex]
}

// canRepeat reports nodes that give the same again, and that are no control flow.
func canRepeat(n *ssa.Node) bool {
	o := ops.Of(n)
	return o != nil && len(n.Bodies) == 0 && o.Facts.Traits.Randomness == ops.Deterministic
}
