// Package fuse makes groups of elementwise nodes, with the reductions and normalizations of rows
// between them, into single nodes that compute a tile program. It works on an ordered graph, just
// before that is compiled: saved files hold standard operators.
package fuse

import (
	"cmp"
	"context"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ssa"
)

// A group runs where its last member stood. That is legal if nothing outside reads a member's
// result before, and the order of all other nodes stays as it was searched:
//
//	before   a = Mul(x, s)    c = Conv(y)    b = Add(a, c)    d = Relu(b)
//	after                     c = Conv(y)                     d = {Mul, Add, Relu}(x, s, c)
//
// Regions grow along the order: a node joins the groups that make its operands, as long as the
// group has one shape, its rows are the same dimensions, and the move is legal. So no node is
// computed twice and there are no cycles.
//
// A group reads all its operands at one time, so it can keep alive what single nodes would have
// dropped (x above, while c is computed). The graph with groups is therefore laid out like the
// graph without them, workspace of the groups included; groups are taken back until it needs no more
// memory at once than without.
//
// Groups are formed where a model of costs ([gain]) predicts less time.
//
// Source of the criterion for regions: the producer-consumer fusion of loops in polyhedral
// compilers, restricted to loops over one shape. https://dl.acm.org/doi/10.1145/1375581.1375595

// Options describe the program that the graph is compiled to.
type Options struct {
	Threads   int
	InPlace   inplace.Options
	CopyViews bool
	Peak      int64 // what the graph needs at once without groups, if that is known
	Always    bool  // form every legal group, whatever the model of costs says
	Singles   bool  // single elementwise nodes are groups, too

	// Takes reports which nodes a backend computes as parts of groups, each a kernel of a device: of known shapes, and
	// all groups are formed. Nil stands for the kernels of the CPU and the model of costs.
	Takes func(n *ssa.Node) bool
}

// Report says what a run did.
type Report struct {
	Groups, Nodes int // groups made, and nodes that they replace
	TakenBack     int // groups that would have needed more memory
}

// Pass is the name by which it is switched off.
const Pass = "groups"

// maxLayouts bounds how often a graph with groups is laid out to find those that need more memory.
const maxLayouts = 7

// Apply returns the graph with groups, the same graph or a copy; the graph given is of no other use then. Types must be
// inferred; the order of nodes is kept.
func Apply(ctx context.Context, g *ssa.Graph, o Options) (*ssa.Graph, Report, error) {
	o.Threads = max(o.Threads, 1)
	p := &pass{ctx: ctx, o: o, given: g}
	if err := p.find(); err != nil {
		return nil, Report{}, err
	}
	all := 0
	for _, groups := range p.found {
		all += len(groups)
	}
	if all == 0 {
		return g, Report{}, nil
	}
	kept := map[int]bool{}
	p.limit = o.Peak
	if o.Peak == 0 || !p.accept(kept, 0, all) && p.err == nil {
		p.search(kept, all)
	}
	if p.err != nil {
		return nil, Report{}, p.err
	}
	r := Report{TakenBack: all - len(kept)}
	if len(kept) == 0 {
		return p.given, r, nil
	}
	r.Groups, r.Nodes = p.out.groups, p.out.nodes
	return p.out.g, r, nil
}

// pass is the state of one run.
type pass struct {
	ctx     context.Context
	o       Options
	given   *ssa.Graph
	found   [][]*group // those of given and of its bodies, in the order of a walk; nil for a copy whose groups are still to be found
	limit   int64
	layouts int
	err     error

	spare    *ssa.Graph   // a copy of given; nil if there is none
	measured chan measure // gets the limit once; nil if that is known

	out grouped // with the groups accepted last
}

// grouped is a graph with groups: how many, and of how many nodes.
type grouped struct {
	g             *ssa.Graph
	groups, nodes int
}

// search measures the graph without groups, while all of them are made, and accepts as many of them as need no more.
func (p *pass) search(kept map[int]bool, all int) {
	if p.spare, _, p.err = p.given.CloneContext(p.ctx); p.err != nil {
		return
	}
	p.measured = make(chan measure, 1)
	spare, measured := p.spare, p.measured
	rescue.Go(func() {
		var m measure
		defer func() { measured <- m }()
		defer rescue.Into(&m.err)
		m.peak, m.err = p.peakOf(spare)
	})
	if !p.accept(kept, 0, all) && p.err == nil {
		p.narrow(kept, 0, all)
	}
}

// measure is what a graph needs at once.
type measure struct {
	peak int64
	err  error
}

// find finds the groups of the graph given and of its bodies.
func (p *pass) find() (err error) {
	p.found = nil
	p.given.Walk(func(b *ssa.Graph) {
		groups, ended := groupsOf(p.ctx, b, &p.o)
		p.found, err = append(p.found, groups), cmp.Or(err, ended)
	})
	return err
}

// accept adds groups from up to to, by their number, if the graph then needs no more memory.
func (p *pass) accept(kept map[int]bool, from, to int) bool {
	p.layouts++
	for i := from; i < to; i++ {
		kept[i] = true
	}
	var peak int64
	out, err := p.rewritten(kept)
	if err = cmp.Or(err, p.ctx.Err()); err == nil {
		peak, err = p.peakOf(out.g)
	}
	if p.measured != nil {
		limit := <-p.measured
		p.limit, p.measured, err = limit.peak, nil, cmp.Or(err, limit.err)
	}
	if p.err = err; err == nil && peak <= p.limit {
		p.out = out
		return true
	}
	for i := from; i < to; i++ {
		delete(kept, i)
	}
	return false
}

// narrow adds as many of the groups from up to to as a few layouts find, halves at a time.
func (p *pass) narrow(kept map[int]bool, from, to int) {
	if to-from < 2 || p.layouts >= maxLayouts || p.err != nil {
		return
	}
	mid := (from + to) / 2
	if !p.accept(kept, from, mid) {
		p.narrow(kept, from, mid)
	}
	if p.layouts < maxLayouts && p.err == nil && !p.accept(kept, mid, to) {
		p.narrow(kept, mid, to)
	}
}

// peakOf is what a graph needs at once in its order, with the workspace of groups.
func (p *pass) peakOf(g *ssa.Graph) (_ int64, err error) {
	defer rescue.Into(&err)
	workspace := func(n *ssa.Node) int64 {
		if !fused.Is(n) || p.o.Takes != nil {
			return 0
		}
		return workspaceOf(n, p.o.Threads)
	}
	_, f, err := inplace.Lay(p.ctx, g, liveness.Options{Scratch: workspace, CopyViews: p.o.CopyViews}, p.o.InPlace)
	if err != nil {
		return 0, err
	}
	return f.Peak(), nil
}

// rewritten is the graph with some of its groups; a copy without is what is given from then on.
func (p *pass) rewritten(kept map[int]bool) (out grouped, err error) {
	if p.found == nil {
		err = p.find()
	}
	if err = cmp.Or(err, p.ctx.Err()); err != nil {
		return out, err
	}
	if p.spare == nil {
		if p.spare, _, err = p.given.CloneContext(p.ctx); err != nil {
			return out, err
		}
	}
	out.g, p.given, p.spare = p.given, p.spare, nil
	n := 0
	found := p.found
	out.g.Walk(func(b *ssa.Graph) {
		var chosen []*group
		for _, x := range found[0] {
			if kept[n] {
				chosen = append(chosen, x)
				out.groups++
				out.nodes += len(x.members)
			}
			n++
		}
		found = found[1:]
		err = cmp.Or(err, replace(p.ctx, b, chosen))
	})
	p.found = nil
	return out, err
}
