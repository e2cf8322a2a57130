package plannertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/planner"
)

// TestChecks corrupts plans: the checks in addition to planner.Validate find it.
func TestChecks(t *testing.T) {
	chain := &Graph{Nodes: 3, Edges: [][2]int{{0, 1}, {0, 2}}, Lives: []planner.Life{{Heads: []int{1}, Tails: []int{1}}, {Heads: []int{2}, Tails: []int{2}}}}
	order, err := planner.NewPartial(chain.Nodes, chain.Edges, chain.Lives)
	require.NoError(t, err)
	lone := planner.Problem{Buffers: []planner.Buffer{{Size: 4, Hi: 1}, {Size: 4, Lo: 1, Hi: 2}}}
	line := *chain
	line.Edges = [][2]int{{0, 1}, {1, 2}}
	cases := []struct {
		name   string
		c      Case
		s      planner.Solution
		reason string
	}{
		{"sound", Case{Problem: &lone}, planner.Solution{Offsets: []int64{0, 0}, ArenaBytes: 4, Windows: []planner.Window{{Offset: 0, Size: 4}}}, ""},
		{"windows overlap", Case{Problem: &lone}, planner.Solution{Offsets: []int64{0, 4}, ArenaBytes: 8, Windows: []planner.Window{{Offset: 0, Size: 5}, {Offset: 4, Size: 4}}}, "windows at 0 and 4 overlap"},
		{"outside of windows", Case{Problem: &lone}, planner.Solution{Offsets: []int64{0, 4}, ArenaBytes: 8, Windows: []planner.Window{{Offset: 0, Size: 6}}}, "buffer #1 at 4 lies in no window"},
		{"branches share bytes", Case{Problem: &planner.Problem{Buffers: lone.Buffers}, Graph: &line}, planner.Solution{Offsets: []int64{0, 0}, ArenaBytes: 4}, ""},
		{"overlap seen by Validate", Case{Problem: &planner.Problem{Buffers: lone.Buffers, Order: order}}, planner.Solution{Offsets: []int64{0, 3}, ArenaBytes: 7}, "share bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := &Outcome{}
			o.check(&c.c, "test", &c.s)
			if c.reason == "" {
				assert.NoError(t, o.Err())
			} else {
				assert.ErrorContains(t, o.Err(), c.reason)
			}
		})
	}
	lone.Order = order
	both := Case{Problem: &lone, Graph: &Graph{Nodes: 1, Lives: []planner.Life{{Heads: []int{0}, Tails: []int{0}}, {Heads: []int{0}, Tails: []int{0}}}}}
	a, b := both.clash(&planner.Solution{Offsets: []int64{0, 3}}, []int{0})
	assert.Equal(t, []int{0, 1}, []int{a, b}, "a schedule in which both live")
}

// TestKnown gives claims that contradict what is known of a case.
func TestKnown(t *testing.T) {
	two := &planner.Problem{Buffers: []planner.Buffer{{Size: 3, Hi: 2}, {Size: 4, Lo: 1, Hi: 3}}}
	cases := []struct {
		name  string
		best  int64
		low   int64
		c     Case
		fault Fault
	}{
		{"right", 7, 7, Case{Problem: two, Capacity: 7}, ""},
		{"bound above a capacity", 8, 8, Case{Problem: two, Capacity: 7}, Bound},
		{"bound above the optimum", 8, 8, Case{Problem: two}, Bound},
		{"plan above the optimum", 8, 4, Case{Problem: two}, Above},
		{"plan below the optimum", 6, 4, Case{Problem: two}, Brute},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := &Outcome{Buffers: 2, Best: c.best, Arena: []int64{c.best}}
			o.compare(&c.c, c.low, "test")
			if c.fault == "" {
				assert.Empty(t, o.Findings)
				return
			}
			require.NotEmpty(t, o.Findings)
			assert.Equal(t, c.fault, o.Findings[0].Fault)
		})
	}
}

// TestDraw draws the same problem twice; every kind is drawn, and each problem passes Check.
func TestDraw(t *testing.T) {
	seen := map[string]int{}
	for index := range uint64(500) {
		a, err := Draw(3, index, "")
		require.NoError(t, err)
		b, err := Draw(3, index, "")
		require.NoError(t, err)
		assert.Equal(t, a.Problem.Buffers, b.Problem.Buffers)
		assert.NoError(t, a.Problem.Check(), "problem %d", index)
		seen[a.Kind]++
	}
	for _, k := range Kinds() {
		assert.Positive(t, seen[k], k)
	}
}
