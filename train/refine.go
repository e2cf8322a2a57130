package train

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/batch"
	"github.com/berth-onnx/berth/internal/pieces"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// Making the smallest plan smaller. The peak of a plan is the moment at which most bytes are live. Moves change what is live then:
//
//	a result of the forward pass is kept   it is computed again, from what is kept
//	a copy of one is                       copies read a copy of their own of it, the backward pass another one
//
// Every move is tried, as a whole plan; the one with the smallest arena is made, of equal ones that with the least bytes above a height,
// over all points, as long as it is better than before. So one of several peaks of a height may go before the others. The number of plans is bounded, by the number of nodes and by no clock.

// refinements is how many nodes the plans together may have that are tried at the peaks of one start.
const refinements = 1500

// search finds what a step keeps.
type search struct {
	trainer *Trainer
	module  *ssa.Module
	options []berth.Option
	axes    *batch.Axes // of the inputs that are the batch; nil: there is none, or none was looked for
	looked  bool        // whether one was
	nodes   int         // of the rewritten step
	high    int64       // bytes live at a point above which it counts for [peak.above]
	least   *plan       // with the fewest bytes that are live at once
}

// plan is a program and what is live at its peak.
type plan struct {
	candidate candidate
	program   *berth.Program
	peak      peak
}

// bound is how many bytes an arena has at least.
func (p *plan) bound() int64 { return p.program.Plan().LowerBound }

// plan compiles the step as a candidate has it; only a thorough plan searches for small arenas.
func (s *search) plan(ctx context.Context, c candidate, thorough bool) (*plan, error) {
	out := &plan{candidate: c}
	var forward forwardNames
	lean := rewrite.Further(func(ctx context.Context, g *ssa.Graph, leavesOut func(pass string) bool) error {
		if err := s.split(ctx, g, c); err != nil {
			return err
		}
		s.nodes, forward = countNodes(g), forwardOf(g).names()
		return c.lean(ctx, g, leavesOut)
	})
	watch := program.Watcher(func(p *program.Program) { out.peak = peakOf(p, forward, s.high) })
	one, opts := *s.module, s.options
	one.Graph, _ = s.module.Graph.Clone()
	s.trainer.declare(one.Graph)
	if !thorough {
		opts = append(slices.Clone(opts), berth.WithPlanner(planner.GreedySize{}.Name()))
	}
	p, err := berth.FromModule(&one).Compile(watch.In(lean.In(program.Preparer(pieces.Prepare).In(ctx))), opts...)
	out.program = p
	return out, err
}

// try plans a candidate, and thoroughly if it may fit. It returns a plan that does, or nil.
func (s *search) try(ctx context.Context, c candidate) (*plan, error) {
	p, err := s.plan(ctx, c, false)
	if errors.Is(err, batch.ErrWhole) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.least == nil || p.bound() < s.least.bound() {
		s.least = p
	}
	return s.thorough(ctx, p)
}

// thorough returns the plan that an arena is searched for, if that fits.
func (s *search) thorough(ctx context.Context, p *plan) (*plan, error) {
	if p.bound() > s.trainer.options.Budget {
		return nil, nil
	}
	p, err := s.plan(ctx, p.candidate, true)
	if err != nil || s.fits(p) {
		return p, err
	}
	return nil, nil
}

// split cuts the batch as a candidate has it; what the batch is follows from the first graph.
func (s *search) split(ctx context.Context, g *ssa.Graph, c candidate) (err error) {
	if c.parts > 0 {
		return batch.Split(ctx, g, s.axes, c.parts)
	}
	if !s.looked && s.trainer.options.Budget > 0 {
		s.looked = true
		var names []string
		for _, v := range s.trainer.inputs {
			names = append(names, v.Name)
		}
		s.axes, err = batch.Find(ctx, g, names)
	}
	return err
}

// fits reports whether a plan is within the budget.
func (s *search) fits(p *plan) bool {
	return s.trainer.options.Budget <= 0 || p.program.Plan().ArenaBytes <= s.trainer.options.Budget
}

// take makes a plan that of the step.
func (s *search) take(p *plan) *berth.Program {
	if p == nil {
		return nil
	}
	s.trainer.kept, s.trainer.activations = p.candidate.name, p.peak.kept
	return p.program
}

// refine makes moves at the peak until a plan fits, none helps or as many plans as are allowed were made. It returns a plan that fits, or nil.
func (s *search) refine(ctx context.Context, best *plan) (fits *plan, err error) {
	if best, err = s.plan(ctx, best.candidate, false); err != nil {
		return nil, err
	}
	for left := refinements / max(s.nodes, 1); left > 0; {
		from := best
		for _, move := range from.moves() {
			if left--; left < 0 {
				break
			}
			p, err := s.plan(ctx, move, false)
			if err != nil {
				return nil, err
			}
			if p.isBetter(best) {
				best = p
			}
		}
		if best == from {
			break
		}
		if best.bound() < s.least.bound() {
			s.least = best
		}
		if fits, err = s.thorough(ctx, best); err != nil || fits != nil {
			return fits, err
		}
	}
	return nil, nil
}

// isBetter reports fewer bytes that are live at once, or fewer in high points if these are equal.
func (p *plan) isBetter(q *plan) bool {
	return p.bound() < q.bound() || p.bound() == q.bound() && p.peak.above < q.peak.above
}

// moves are candidates with one difference.
func (p *plan) moves() (list []candidate) {
	c, refined := p.candidate, p.candidate
	refined.name = strings.TrimSuffix(c.name, refinedSuffix) + refinedSuffix
	for _, name := range p.peak.live {
		of, copied := strings.CutSuffix(name, again)
		switch m := refined; {
		case !copied:
			m.keep = func(f *forwardPart, at int) bool { return !f.makes(at, name) && c.keep(f, at) }
			list = append(list, m)
		case !c.apart[of]:
			m.apart = maps.Clone(c.apart)
			if m.apart == nil {
				m.apart = map[string]bool{}
			}
			m.apart[of] = true
			list = append(list, m)
		}
	}
	return list
}

// refinedSuffix ends the names of candidates that were changed at peaks.
const refinedSuffix = ", less at the peak"

// forwardNames are names of what the forward pass computes, and whether its nodes can be repeated.
type forwardNames map[string]bool

func (f *forwardPart) names() forwardNames {
	names := forwardNames{}
	for _, n := range f.nodes {
		for _, v := range n.Out {
			if v != nil {
				names[v.Name] = canRepeat(n)
			}
		}
	}
	return names
}

// countNodes counts nodes, those of bodies several times, since loops are laid out several times to find an order.
func countNodes(g *ssa.Graph) int {
	sum := 0
	g.Walk(func(b *ssa.Graph) { sum += len(b.Nodes) })
	return len(g.Nodes) + 8*(sum-len(g.Nodes))
}

// makes reports whether a node has a result of a name.
func (f *forwardPart) makes(at int, name string) bool {
	for _, v := range f.nodes[at].Out {
		if v != nil && v.Name == name {
			return true
		}
	}
	return false
}

// peak is what is live when most bytes are.
type peak struct {
	kept  int64    // bytes of what the forward pass computed and the backward pass reads
	live  []string // those values that can be computed again, and copies of others, in the order of the timeline
	above int64    // bytes above the height given, over all points
}

// smallPart is the part of an arena that a value has at least for which moves are tried.
const smallPart = 256

// peakOf finds the first point of a program at which most bytes are live.
func peakOf(p *program.Program, forward forwardNames, high int64) (out peak) {
	at, above := busiest(p, high)
	out.above = above
	for v, x := range p.Timeline.Vars {
		if x.Kind != liveness.Block || x.Value == nil || p.Graph.IsResult(x.Value) || x.Bytes == 0 || !isLive(p.Timeline.Live[v], at) {
			continue
		}
		name, isLarge := x.Value.Name, x.Bytes >= p.ArenaBytes/smallPart
		switch of, copied := strings.CutSuffix(name, again); {
		case forward.has(name) && !endsForward(p.Timeline, v, forward):
			out.kept += x.Bytes
			if forward[name] && isLarge {
				out.live = append(out.live, name)
			}
		case copied && isLarge && forward[of]:
			out.live = append(out.live, name)
		}
	}
	return out
}

func (f forwardNames) has(name string) bool {
	_, ok := f[name]
	return ok
}

// endsForward reports whether the last node for which a variable is live is one of the forward pass.
func endsForward(t *liveness.Timeline, v int, forward forwardNames) bool {
	live := t.Live[v]
	last := t.Steps[min(live[len(live)-1].Hi, len(t.Steps))-1]
	if last.Node == nil || len(last.Node.Out) == 0 || last.Node.Out[0] == nil {
		return false
	}
	return forward.has(last.Node.Out[0].Name)
}

// busiest is the first point at which most bytes of the arena are live, and how many are above a height, over all points.
func busiest(p *program.Program, high int64) (at int, above int64) {
	change := make([]int64, len(p.Timeline.Steps)+1)
	for _, b := range p.Problem.Buffers {
		change[b.Lo] += b.Size
		change[b.Hi] -= b.Size
		for _, h := range b.Holes {
			change[h.Lo] -= b.Size
			change[h.Hi] += b.Size
		}
	}
	var sum, most int64
	for i, c := range change {
		if sum += c; sum > most {
			at, most = i, sum
		}
		above += max(sum-high, 0)
	}
	return at, above
}

// isLive reports whether a point is in a set.
func isLive(s liveness.Set, at int) bool {
	for _, r := range s {
		if r.Lo <= at && at < r.Hi {
			return true
		}
	}
	return false
}
