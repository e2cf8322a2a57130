package planner

import (
	"cmp"
	"context"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Auto is the planner to use. It stops as soon as the plan meets the lower bound, and answers with the certificate.
//
//	greedy orders ──▶ exact ──▶ the other planners ──▶ exact again, when one of them did better
//	      └── proven?      └── proven?        └── proven?       the plan, the bound, the proof
//
// All budgets are counted, so the answer is the same on every machine. Auto is never above another planner in its
// default setting; on problems of more than a few thousand buffers it leaves out those that take too long there: dsatur, the
// nnc family and hill-climb. In their place it tries the long-lived buffers first, which suits programs whose weights or states
// lie under everything else.
type Auto struct {
	// Budget of the search, as in Exact. 0 means the default of Exact.
	Budget int64
}

// Name is "auto".
func (Auto) Name() string { return "auto" }

// slowMembersLimit is the number of items up to which all planners take part.
const slowMembersLimit = 3000

// Plan answers with the best plan when the bound or the budget is reached or ctx ends.
func (a Auto) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	x, proof, err := improved(ctx, p, a.Budget)
	if err != nil {
		return nil, err
	}
	for _, other := range x.m.members(x.low, x.base) {
		x.offer(other.name, other.plan)
	}
	if x.winner != "exact" {
		x.budget = a.Budget
		x.improve()
	}
	return x.solution(a.Name(), proof), nil
}

// member is a planner that auto runs. Its plan may be nil when it would reach limit, or when it was cut short.
type member struct {
	name string
	plan func(limit int64) []int64
}

// members lists the planners that auto runs in addition to exact and the greedy orders that this starts from. low is the lower bound,
// base the plan of greedy-size, or nil.
func (m *model) members(low int64, base []int64) []member {
	windowed := func(name string, plan func() ([]int64, []Window)) member {
		return member{name, func(int64) []int64 { at, _ := plan(); return at }}
	}
	rule := func(name string, r nncRule) member {
		return member{name, func(limit int64) []int64 { at, _ := m.nnc(r, limit); return at }}
	}
	list := []member{
		{"greedy-breadth", m.greedyBreadth},
		{"best-fit", m.bestFit},
		windowed("pool", m.pool),
		{"naive", func(int64) []int64 { return m.naive() }},
	}
	if len(m.items) > slowMembersLimit {
		return list
	}
	return append(list,
		windowed("dsatur", m.dsatur),
		rule("nnc-size", bySize),
		rule("nnc", byEdges),
		rule("nnc-best", byTriples),
		member{"hill-climb", func(int64) []int64 {
			if base == nil {
				base = m.greedySize(anyHeight)
			}
			c := newClimber(m, base)
			c.climb(low, 0)
			return c.best
		}},
	)
}

// greedyWidth places what lives longest first, of equal live ranges the larger, best fit.
func (m *model) greedyWidth(limit int64) []int64 {
	width := func(i int) int32 { return m.items[i].hi - m.items[i].lo }
	if !m.timed {
		degree := make([]int32, len(m.items))
		around := m.neighbours()
		for i := range m.items {
			around(i, func(int) { degree[i]++ })
		}
		width = func(i int) int32 { return degree[i] }
	}
	return m.fillTight(limit, m.sortedIDs(func(a, b int) int {
		return cmp.Or(cmp.Compare(width(b), width(a)), cmp.Compare(m.items[b].size, m.items[a].size))
	}))
}

// firstFit places the largest first, each in the lowest gap: the first order of hill-climb.
func (m *model) firstFit(limit int64) []int64 {
	b := newBoard(m)
	return b.fill(limit, m.bySize(), b.lowest)
}
