package planner

import (
	"context"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Exact searches for the smallest arena and proves it, or stops at its budget with the gap that is left.
//
//	bytes
//	high |--------- a plan is known (greedy-size to begin with)
//	     |    .     is there a plan of this capacity?   yes: high falls to its height
//	     |    .                                         no: low rises above it
//	low  |--------- no plan is smaller (highest stack)  unknown within a slice of the budget: look higher first
//
// The first question is low itself: mostly the answer is yes, and the plan is optimal. Then the gap is
// halved, with slices of the budget that double when nothing is left to ask.
//
// The questions are answered by the skyline search (skysearch.go) for plain intervals, part by part where the time axis falls into
// independent parts, and by the canonical search (canonical.go) for everything else.
type Exact struct {
	// Budget is how much work the search may do, in units of about a third of a microsecond on today's machines. The
	// unit is counted, not measured. 0 means the default: about half a second, up to four times that for thousands of buffers;
	// [NoLimit] is none.
	Budget int64
}

// NoLimit is the budget of a search that only a proof or the context ends.
const NoLimit = 1 << 56

// defaultBudget is the work of exact and auto: about half a second. Where one descent to a plan costs more than that, which begins at
// a few thousand buffers, they may do up to mostBudgets times as much.
const (
	defaultBudget    = 1_000_000
	buffersPerBudget = 1600
	mostBudgets      = 4
)

// searchBudget is the default budget of a problem.
func (m *model) searchBudget() int64 {
	return defaultBudget * int64(min(max(len(m.items)/buffersPerBudget, 1), mostBudgets))
}

// Name is "exact".
func (Exact) Name() string { return "exact" }

// Plan spends the budget or reaches a proof; when ctx ends it answers with the best plan so far. A problem
// too large for the budget gets the plan of greedy-size.
func (e Exact) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	budget := e.Budget
	if budget == NoLimit {
		budget = 0
	}
	x, proof, err := improved(ctx, p, budget)
	if err != nil {
		return nil, err
	}
	if e.Budget == NoLimit {
		x.deepen()
	}
	return x.solution(e.Name(), proof), nil
}

// improved returns a solve after its first search within the budget, and what proves its lower bound.
func improved(ctx context.Context, p *Problem, budget int64) (x *exact, proof Proof, err error) {
	m, err := prepare(ctx, p)
	if err != nil {
		return nil, proof, err
	}
	x = &exact{m: m, budget: budget}
	x.low, proof = m.bound()
	x.start()
	x.improve()
	return x, proof, nil
}

// exact is the state of one solve: the best plan and the bound so far.
type exact struct {
	m      *model
	at     []int64 // best plan
	base   []int64 // plan of greedy-size, nil when that was cut short
	low    int64   // no plan is smaller
	raised bool    // low is more than the witness shows
	winner string  // whose plan it is
	nodes  int64
	budget int64
}

// decider answers whether a plan of some capacity exists; after found, offset gives the place of its k-th thing.
type decider interface {
	run(capacity, budget int64, stop func() bool) verdict
	visited() int64 // positions so far
	spent() int64   // cost so far
	descent() int64 // about the cost of one run to a plan when nothing goes wrong
}

func (x *exact) solution(name string, proof Proof) *Solution {
	s := &Solution{Planner: name, Offsets: x.at, LowerBound: x.low, Proof: proof}
	if x.raised {
		s.Proof = Proof{Kind: ProofExhausted, Point: -1}
	}
	s.ArenaBytes = x.m.p.height(s.Offsets)
	s.Stats = Stats{Winner: x.winner, Nodes: x.nodes, Cut: x.m.stop() && s.ArenaBytes > s.LowerBound}
	return s
}

// start takes the best of three greedy orders: size and best fit, length of live range and best fit, size and first fit. In large
// problems length of live range goes first: it seldom does badly there, and by size the top is reached early, so that the
// others give up soon when they do worse.
func (x *exact) start() {
	if x.m.timed && x.m.isDense() {
		x.at, x.winner = x.m.greedyWidth(anyHeight), "greedy-width"
		x.offer("greedy-size", x.m.greedySize)
	} else {
		x.base = x.m.greedySize(anyHeight)
		x.at, x.winner = x.base, "greedy-size"
		x.offer("greedy-width", x.m.greedyWidth)
	}
	x.offer("first-fit", x.m.firstFit)
}

// offer runs a planner unless the plan is proven or the time is over, and takes its plan when it is lower. The planner may
// answer nil when it would reach the height of the present plan.
func (x *exact) offer(name string, plan func(limit int64) []int64) {
	h := x.m.height(x.at)
	if h <= x.low || x.m.stop() {
		return
	}
	if at := plan(h); at != nil && x.m.height(at) < h {
		x.at, x.winner = at, name
	}
}

// improve searches for a better plan and a better bound until they meet or the budget is spent.
func (x *exact) improve() {
	before := x.m.height(x.at)
	if before <= x.low || x.m.stop() {
		return
	}
	if x.budget == 0 {
		x.budget = x.m.searchBudget()
	}
	x.at = slices.Clone(x.at)
	if pad := x.m.skylineAlign(); pad > 0 {
		x.solvePlain(pad)
	} else if x.m.smallEnough() {
		x.solveGeneral()
	}
	if x.m.height(x.at) < before {
		x.winner = "exact"
	}
}

// deepen searches with ever larger budgets until plan and bound meet or the context ends. A single unlimited search would
// stay with its first question, whether a plan as low as the bound exists; each of these also asks for plans above.
func (x *exact) deepen() {
	const factor = 4
	for budget := x.m.searchBudget(); budget < NoLimit/factor && x.m.height(x.at) > x.low && !x.m.stop(); {
		budget *= factor
		x.budget = budget
		x.improve()
	}
}

// smallEnough reports whether conflict lists and cliques of the whole problem fit the canonical search.
func (m *model) smallEnough() bool {
	return len(m.items) <= slowMembersLimit && (!m.timed || !m.isDense())
}

// skylineAlign is the alignment to which the skyline search may pad all sizes without losing plans, or 0 when the
// problem is not one of plain intervals: then all offsets of bottom-justified plans are multiples of it.
func (m *model) skylineAlign() int64 {
	if !m.plain {
		return 0
	}
	same, all := int64(0), int64(1)
	for i := range m.items {
		it := &m.items[i]
		if it.lo == it.hi {
			continue
		}
		if all = lcm(all, it.align); same == 0 {
			same = it.align
		}
	}
	if same == 0 || same == all && m.sameAlign(all) {
		return all
	}
	for i := range m.items {
		if it := &m.items[i]; it.lo < it.hi && it.size%all != 0 {
			return 0
		}
	}
	return all
}

func (m *model) sameAlign(a int64) bool {
	return !slices.ContainsFunc(m.items, func(it item) bool { return it.lo < it.hi && it.align != a })
}

// part is a run of time that shares no item with the rest.
type part struct {
	ids    []int // items
	rects  []rect
	height int64 // of the best plan
}

// solvePlain squeezes the parts, highest first. A part lower than what another one needs anyway is left alone.
func (x *exact) solvePlain(pad int64) {
	ids := x.m.byLo()
	rects, sections := x.m.cutSections(ids)
	var parts []part
	for _, group := range splitSections(rects, sections) {
		q := part{}
		base := rects[group[0]].lo
		for _, k := range group {
			base = min(base, rects[k].lo)
		}
		for _, k := range group {
			r := rects[k]
			q.ids = append(q.ids, ids[k])
			q.rects = append(q.rects, rect{r.lo - base, r.hi - base, alignUp(r.size, pad), alignUp(r.size, pad) - r.size})
			q.height = max(q.height, x.at[ids[k]]+r.size)
		}
		parts = append(parts, q)
	}
	sort.SliceStable(parts, func(i, j int) bool { return parts[i].height > parts[j].height })
	done := int64(0) // height of the parts that are done
	for k := range parts {
		q := &parts[k]
		if q.height > max(done, x.low) {
			x.squeezePart(q, x.budget/int64(len(parts)-k))
		}
		done = max(done, q.height)
	}
}

// squeezePart lowers the height of one part by skyline search.
func (x *exact) squeezePart(q *part, budget int64) {
	ends, unit := int32(0), int64(0)
	for _, r := range q.rects {
		ends = max(ends, r.hi)
		unit = gcd(gcd(r.size, r.pad), unit)
	}
	if skyDescent(len(q.rects), ends) > budget/2 {
		return
	}
	s := newSkysearch(q.rects, ends)
	keep := func() int64 {
		high := int64(0)
		for k, i := range q.ids {
			x.at[i] = s.at[k]
			high = max(high, s.at[k]+x.m.items[i].size)
		}
		return high
	}
	q.height = x.squeeze(s, keep, q.height, unit, budget)
}

// solveGeneral squeezes the whole problem by canonical search.
func (x *exact) solveGeneral() {
	c := newCanonical(x.m)
	keep := func() int64 {
		copy(x.at, c.at)
		return x.m.height(x.at)
	}
	x.squeeze(c, keep, x.m.height(x.at), 1, x.budget)
}

// squeeze asks d for plans between the bound and high and returns the height of the best plan. keep takes over a
// plan that d has found and returns its height. All heights of bottom-justified plans are multiples of unit.
func (x *exact) squeeze(d decider, keep func() int64, high, unit, budget int64) int64 {
	start, nodes := d.spent(), d.visited()
	left := func() int64 { return budget - (d.spent() - start) }
	q := newQuestions(ceilDiv(x.low, unit), ceilDiv(high, unit), budget, d.descent())
	for q.low < q.top && left() > 0 && !x.m.stop() {
		ask, slice := q.next(left())
		switch d.run(ask*unit, slice, x.m.stop) {
		case found:
			high = min(high, keep())
			q.yes(min(ask, ceilDiv(high, unit)))
		case refuted:
			q.no(ask)
			if q.low*unit > x.low {
				x.low, x.raised = q.low*unit, true
			}
		case cutOff:
			q.unknown(ask)
		}
	}
	x.nodes += d.visited() - nodes
	x.budget -= d.spent() - start
	return high
}

// questions decides which height to ask for next; the answer sought is in [low, top).
//
//	first     the bound itself, with an eighth of the budget, unless a few descents cost more
//	halving   the middle between top and the highest question without an answer, a sixteenth or a few descents each
//	pressing  a quarter of the way down from top, with half of what is left; after no answer, just below top
type questions struct {
	low, top int64
	open     int64 // the highest question without an answer, plus one; low when there is none
	first    int64 // slices of the budget
	half     int64
	small    bool // press just below top
	begun    bool
}

func newQuestions(low, top, budget, descent int64) *questions {
	q := &questions{low: low, top: top, open: low, first: max(budget/8, 1), half: max(budget/16, 3*descent)}
	q.begun = q.first < 3*descent
	return q
}

// next is a height to ask for and the budget for it, of what is left.
func (q *questions) next(left int64) (ask, slice int64) {
	switch {
	case !q.begun:
		q.begun = true
		return q.low, min(left, q.first)
	case q.open < q.top:
		return q.open + (q.top-1-q.open)/2, min(left, q.half)
	case q.small:
		return q.top - 1, left
	}
	return q.top - 1 - (q.top-q.low)/4, min(left, left/2+q.half/4)
}

func (q *questions) yes(height int64) {
	q.top, q.small = height, false
	q.open = min(q.open, q.top)
}

func (q *questions) no(ask int64) {
	q.low = ask + 1
	q.open = max(q.open, q.low)
}

func (q *questions) unknown(ask int64) {
	q.small = q.open >= q.top && !q.small
	q.open = max(q.open, ask+1)
}

// ceilDiv is x/y rounded up; x >= 0, y >= 1.
func ceilDiv(x, y int64) int64 { return (x + y - 1) / y }
