package planner

import "context"

// Auto is the planner to use: quick heuristics, then search, within a budget of counted steps; it stops as soon as the plan
// meets the lower bound, and answers with the certificate.
//
//	greedy-size ──▶ exact, briefly ──▶ the other planners ──▶ exact from the best of them
//	      └── done?        └── done?            └── done?            the plan, the bound, the proof
//
// It is never worse than a planner that it ran. On large problems the slow members are left out (see members).
type Auto struct {
	// Effort scales the budget of the search; 0 means 1: about a second for hard problems on today's machines.
	Effort float64
}

// Name is "auto".
func (Auto) Name() string { return "auto" }

// Plan answers with the best plan when the bound, the budget or the end of ctx is reached.
func (a Auto) Plan(ctx context.Context, p *Problem) (*Solution, error) {
	m, err := prepare(p)
	if err != nil {
		return nil, err
	}
	low, proof := m.bound()
	at := m.greedySize()
	x := &exact{m: m, at: at, low: low, stop: stopper(ctx)}
	winner := "greedy-size"
	consider := func(name string, at []int64) {
		if m.height(at) < m.height(x.at) {
			x.at, winner = at, name
		}
	}
	x.budget = 20_000
	before := m.height(x.at)
	x.solve()
	if m.height(x.at) < before {
		winner = "exact"
	}
	for _, member := range m.members() {
		if m.height(x.at) <= x.low || x.stop() {
			break
		}
		consider(member.name, member.plan(x))
	}
	before = m.height(x.at)
	x.budget = 600_000
	x.solve()
	if m.height(x.at) < before {
		winner = "exact"
	}
	s := x.solution(a.Name(), proof)
	s.Stats.Winner = winner
	return s, nil
}

type member struct {
	name string
	plan func(x *exact) []int64
}

// members lists the planners that auto runs beside greedy-size and exact.
func (m *model) members() []member {
	list := []member{
		{"best-fit", func(*exact) []int64 { return m.bestFit() }},
		{"greedy-breadth", func(*exact) []int64 { return m.greedyBreadth() }},
		{"pool", func(*exact) []int64 { at, _ := m.pool(); return at }},
	}
	if len(m.items) > 2000 {
		return list
	}
	return append(list,
		member{"dsatur", func(*exact) []int64 { at, _ := m.dsatur(); return at }},
		member{"nnc-size", func(x *exact) []int64 { return m.nncOr(bySize, x) }},
		member{"nnc", func(x *exact) []int64 { return m.nncOr(byEdges, x) }},
		member{"nnc-best", func(x *exact) []int64 { return m.nncOr(byTriples, x) }},
		member{"hill-climb", func(x *exact) []int64 {
			c := newClimber(m, x.at)
			c.climb(x.low, 200_000, x.stop)
			return c.best
		}},
	)
}

// nncOr runs a rule of NNC; when it is cut short the best plan so far is the answer.
func (m *model) nncOr(rule nncRule, x *exact) []int64 {
	if at, _, ok := m.nnc(rule, x.stop); ok {
		return at
	}
	return x.at
}
