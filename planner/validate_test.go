package planner_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/planner"
)

// TestValidateFaults spoils a plan in every way that Validate knows.
func TestValidateFaults(t *testing.T) {
	problem := func(change func(p *planner.Problem)) *planner.Problem {
		p := problemOf(block{8, 0, 2}, block{4, 1, 3}, block{4, 2, 4})
		if change != nil {
			change(p)
		}
		return p
	}
	plan := func(arena, low int64, offsets ...int64) *planner.Solution {
		return &planner.Solution{Offsets: offsets, ArenaBytes: arena, LowerBound: low}
	}
	witness := func(s *planner.Solution, members ...int) *planner.Solution {
		s.Proof = planner.Proof{Kind: planner.ProofWitness, Members: members}
		return s
	}
	cases := []struct {
		name   string
		change func(p *planner.Problem)
		s      *planner.Solution
		fault  planner.FaultKind
		sound  bool
	}{
		{"sound", nil, plan(12, 12, 0, 8, 0), 0, true},
		{"sound with a witness", nil, witness(plan(12, 12, 0, 8, 0), 0, 1), 0, true},
		{"too few offsets", nil, plan(12, 12, 0, 8), planner.FaultCount, false},
		{"below zero", nil, plan(12, 12, -1, 8, 0), planner.FaultBounds, false},
		{"above the arena", nil, plan(11, 11, 0, 8, 0), planner.FaultBounds, false},
		{"own alignment", func(p *planner.Problem) { p.Buffers[1].Align = 5 }, plan(12, 12, 0, 8, 0), planner.FaultAlignment, false},
		{"alignment of all", func(p *planner.Problem) { p.Align = 16 }, plan(12, 12, 0, 8, 0), planner.FaultAlignment, false},
		{"overlap", nil, plan(11, 11, 0, 7, 0), planner.FaultOverlap, false},
		{"overlap inside", nil, plan(8, 8, 0, 2, 4), planner.FaultOverlap, false},
		{"higher than the highest buffer", nil, plan(13, 12, 0, 8, 0), planner.FaultHeight, false},
		{"bound above the arena", nil, plan(12, 13, 0, 8, 0), planner.FaultBound, false},
		{"bound below zero", nil, plan(12, -1, 0, 8, 0), planner.FaultBound, false},
		{"witness that is not alive together", nil, witness(plan(12, 12, 0, 8, 0), 0, 2), planner.FaultBound, false},
		{"witness that is too small", nil, witness(plan(12, 12, 0, 8, 0), 1, 2), planner.FaultBound, false},
		{"witness twice", nil, witness(plan(12, 12, 0, 8, 0), 0, 0), planner.FaultBound, false},
		{"witness that does not exist", nil, witness(plan(12, 12, 0, 8, 0), 0, 3), planner.FaultBound, false},
		{"a hole is free", func(p *planner.Problem) {
			p.Buffers[0].Hi, p.Buffers[0].Holes = 4, []planner.Range{{Lo: 1, Hi: 4}}
		}, plan(8, 8, 0, 0, 4), 0, true},
		{"size zero", func(p *planner.Problem) { p.Buffers[1].Size = 0 }, plan(8, 8, 0, 3, 0), 0, true},
		{"points that Check refuses", func(p *planner.Problem) { p.Buffers[0].Lo = -math.MaxInt32 - 1 }, plan(12, 8, 0, 2, 8), planner.FaultOverlap, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := planner.Validate(problem(c.change), c.s)
			if c.sound {
				require.NoError(t, err)
				return
			}
			var f *planner.Fault
			require.ErrorAs(t, err, &f)
			assert.Equal(t, c.fault, f.Kind, f.Error())
		})
	}
}

// TestCheck gives problems that cannot be planned.
func TestCheck(t *testing.T) {
	one := planner.Buffer{Size: 4, Lo: 0, Hi: 2}
	with := func(change func(b *planner.Buffer)) *planner.Problem {
		b := one
		change(&b)
		return &planner.Problem{Buffers: []planner.Buffer{b}}
	}
	pair := func(a, b func(b *planner.Buffer)) *planner.Problem {
		p := &planner.Problem{Buffers: []planner.Buffer{one, one}}
		a(&p.Buffers[0])
		b(&p.Buffers[1])
		return p
	}
	order, err := planner.NewPartial(1, nil, []planner.Life{{Heads: []int{0}, Tails: []int{0}}})
	require.NoError(t, err)
	cases := []struct {
		name   string
		p      *planner.Problem
		reason string
	}{
		{"nil", nil, "is nil"},
		{"size", with(func(b *planner.Buffer) { b.Size = -1 }), "negative size"},
		{"huge size", with(func(b *planner.Buffer) { b.Size = 1 << 62 }), "more than any memory"},
		{"alignment", with(func(b *planner.Buffer) { b.Align = -2 }), "negative alignment"},
		{"life", with(func(b *planner.Buffer) { b.Lo = 3 }), "ends before it begins"},
		{"point", with(func(b *planner.Buffer) { b.Hi = math.MaxInt }), "outside the supported range"},
		{"hole", with(func(b *planner.Buffer) { b.Holes = []planner.Range{{Lo: 1, Hi: 3}} }), "holes"},
		{"alignment of all", &planner.Problem{Align: -1}, "alignment out of range"},
		{"order", &planner.Problem{Buffers: []planner.Buffer{one, one}, Order: order}, "different number of buffers"},
		{"sum", pair(func(b *planner.Buffer) { b.Size = 1<<61 - 1 }, func(b *planner.Buffer) { b.Size = 1 << 60 }), "overflow"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.p.Check()
			var bad *planner.ProblemError
			require.ErrorAs(t, err, &bad)
			assert.ErrorContains(t, err, c.reason)
			pl, err := planner.Get("auto")
			require.NoError(t, err)
			_, err = pl.Plan(t.Context(), c.p)
			assert.ErrorAs(t, err, &bad, "auto says the same")
		})
	}
}

// TestNewPartial gives graphs and lives that make no order.
func TestNewPartial(t *testing.T) {
	life := func(heads, tails []int) []planner.Life { return []planner.Life{{Heads: heads, Tails: tails}} }
	cases := []struct {
		name   string
		nodes  int
		edges  [][2]int
		lives  []planner.Life
		reason string
	}{
		{"edge back", 2, [][2]int{{0, 1}, {1, 0}}, nil, "later node"},
		{"edge to nowhere", 2, [][2]int{{0, 2}}, nil, "outside its 2 nodes"},
		{"no nodes", -1, nil, nil, "at most"},
		{"too many nodes", 1 << 20, nil, nil, "at most"},
		{"no head", 2, nil, life(nil, []int{0}), "no head or no tail"},
		{"head out of range", 2, nil, life([]int{2}, []int{0}), "does not exist"},
		{"tail before head", 2, [][2]int{{0, 1}}, life([]int{1}, []int{0}), "no head that comes before a tail"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := planner.NewPartial(c.nodes, c.edges, c.lives)
			var bad *planner.ProblemError
			require.ErrorAs(t, err, &bad)
			assert.ErrorContains(t, err, c.reason)
		})
	}
}

// TestHops counts steps along a graph and along time.
func TestHops(t *testing.T) {
	at := func(head int, tails ...int) planner.Life { return planner.Life{Heads: []int{head}, Tails: tails} }
	o, err := planner.NewPartial(5, [][2]int{{0, 1}, {0, 2}, {1, 4}, {2, 3}, {3, 4}}, []planner.Life{at(0, 0), at(1, 1), at(2, 3), at(4, 4)})
	require.NoError(t, err)
	lives := planner.Intervals{Buffers: problemOf(block{1, 0, 2}, block{1, 2, 3}, block{1, 1, 6}, block{1, 7, 9}).Buffers}
	for _, c := range []struct {
		a, b           int
		graph, time    int
		together, meet bool
	}{
		{0, 1, 1, 1, false, false},
		{1, 0, 0, 0, false, false},
		{1, 2, 0, 0, true, true},
		{0, 2, 1, 0, false, true},
		{0, 3, 3, 6, false, false},
		{2, 3, 1, 2, false, false},
		{1, 3, 1, 5, false, false},
	} {
		assert.Equal(t, c.graph, o.Hops(c.a, c.b), "graph %d %d", c.a, c.b)
		assert.Equal(t, c.together, o.Interfere(c.a, c.b), "graph %d %d", c.a, c.b)
		assert.Equal(t, c.time, lives.Hops(c.a, c.b), "time %d %d", c.a, c.b)
		assert.Equal(t, c.meet, lives.Interfere(c.a, c.b), "time %d %d", c.a, c.b)
	}
}
