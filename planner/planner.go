package planner

import "context"

// Planner turns a problem into a plan. It keeps no state between calls and may be used by several goroutines.
//
// Plan fails only for a problem that Problem.Check refuses. When ctx ends early the best plan so far is returned,
// without an error. The same problem gives the same plan, byte for byte, unless ctx cut the work short.
type Planner interface {
	Name() string
	Plan(ctx context.Context, p *Problem) (*Solution, error)
}

// planners, in the order of Names: from the simplest to the default.
var planners = []Planner{
	Naive{},
	Pool{},
	DSatur{},
	GreedySize{},
	GreedyBreadth{},
	BestFit{},
	NNC{byEdges},
	NNC{bySize},
	NNC{bestOfAll},
	HillClimb{},
	Exact{},
	Auto{},
}

// Get returns the planner of that name, or an *UnknownPlannerError.
func Get(name string) (Planner, error) {
	for _, p := range planners {
		if p.Name() == name {
			return p, nil
		}
	}
	return nil, &UnknownPlannerError{Name: name}
}

// Names lists all planners, from the simplest to the default.
func Names() []string {
	names := make([]string, len(planners))
	for i, p := range planners {
		names[i] = p.Name()
	}
	return names
}

// finish turns offsets of items into a solution with the cheap lower bound.
func finish(name string, m *model, at []int64) *Solution {
	s := &Solution{Planner: name, Offsets: at}
	s.ArenaBytes = m.p.height(s.Offsets)
	s.LowerBound, s.Proof = m.bound()
	s.Stats.Winner = name
	return s
}

// planBy is Plan for planners that place all items in one go, and say which windows of the arena they used, if they do.
func planBy(ctx context.Context, p *Problem, name string, place func(*model) ([]int64, []Window)) (*Solution, error) {
	m, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	at, windows := place(m)
	s := finish(name, m, at)
	s.Windows = windows
	return s, nil
}
