package planner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/planner"
)

// block is size[lo,hi).
type block struct {
	size   int64
	lo, hi int
}

func problemOf(blocks ...block) *planner.Problem {
	p := &planner.Problem{}
	for _, b := range blocks {
		p.Buffers = append(p.Buffers, planner.Buffer{Size: b.size, Lo: b.lo, Hi: b.hi})
	}
	return p
}

// goldens are small problems with known bounds, known NNC results and known optima.
var goldens = []struct {
	name    string
	p       *planner.Problem
	bound   int64 // highest stack
	nnc     int64 // rule of the article
	nncSize int64 // rule of the library
	offsets []int64
	optimum int64
}{
	{"two in the place of one", problemOf(block{1000, 0, 3}, block{400, 3, 7}, block{500, 3, 7}), 1000, 1000, 1000, []int64{0, 500, 0}, 1000},
	{"merge limit", problemOf(block{500, 0, 3}, block{500, 0, 3}, block{800, 3, 6}), 1000, 1300, 1300, []int64{0, 800, 0}, 1000},
	{"chain", problemOf(block{64, 0, 2}, block{64, 1, 3}, block{64, 2, 4}, block{64, 3, 5}), 128, 128, 128, []int64{64, 0, 64, 0}, 128},
	{"resnet block", problemOf(block{100, 0, 4}, block{50, 1, 3}, block{50, 2, 4}, block{100, 3, 5}, block{100, 4, 6}), 250, 250, 250, []int64{0, 100, 200, 100, 0}, 250},
	{"a chain that overlaps thrice", problemOf(block{100, 0, 2}, block{80, 1, 3}, block{60, 2, 4}), 180, 180, 180, []int64{0, 100, 0}, 180},
	{"minimalloc readme", problemOf(block{4, 0, 3}, block{4, 3, 9}, block{4, 0, 9}, block{4, 9, 21}, block{4, 0, 21}), 12, 12, 12, []int64{8, 8, 4, 4, 0}, 12},
	{"if of four branches", problemOf(block{100, 0, 6}, block{50, 1, 2}, block{50, 2, 3}, block{50, 3, 4}, block{50, 4, 5}), 150, 150, 150, []int64{0, 100, 100, 100, 100}, 150},
	{"frag7", problemOf(block{2, 1, 3}, block{3, 5, 6}, block{2, 2, 4}, block{1, 3, 5}, block{2, 2, 5}, block{3, 1, 2}, block{3, 4, 7}), 6, -1, -1, nil, 7},
}

func planWith(t testing.TB, name string, p *planner.Problem) *planner.Solution {
	t.Helper()
	pl, err := planner.Get(name)
	require.NoError(t, err)
	s, err := pl.Plan(context.Background(), p)
	require.NoError(t, err, name)
	require.NoError(t, planner.Validate(p, s), name)
	return s
}

func TestGoldens(t *testing.T) {
	for _, c := range goldens {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.bound, planWith(t, "naive", c.p).LowerBound)
			if c.nnc >= 0 {
				assert.Equal(t, c.nnc, planWith(t, "nnc", c.p).ArenaBytes)
			}
			if c.nncSize >= 0 {
				s := planWith(t, "nnc-size", c.p)
				assert.Equal(t, c.nncSize, s.ArenaBytes)
				assert.Equal(t, c.offsets, s.Offsets)
			}
			for _, name := range []string{"exact", "auto"} {
				s := planWith(t, name, c.p)
				assert.Equal(t, c.optimum, s.ArenaBytes)
				assert.True(t, s.Proven())
			}
		})
	}
}

// TestLoopGoldens plans loop bodies laid out period times, one step per copy. Copy t reads value t, hands on what lies between, and
// writes value t+delay; the last values have room where those that they replace were.
//
//	x2 = x0 + conv(x1), x0 <= x1 <= x2      v0 |--|           copies 0 1 2: value t lives from copy t-2,
//	delay 2, period 3                       v1 |-----|        where it is written, through copy t
//	                                        v2 |--------|
//	                                        v3    |-----|     fits where v0 was
//	                                        v4       |--|     and this where v1 was
func TestLoopGoldens(t *testing.T) {
	cases := []struct {
		name  string
		delay int // values between the one read and the one written, plus one
		slots int
	}{
		{"y = conv(x)", 1, 2},
		{"x2 = x0 + conv(x1)", 2, 3},
		{"x3 = x0 + f(x1)", 3, 4},
		{"x[t] = f(x[t-4])", 4, 5},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			period := c.delay + 1
			p := &planner.Problem{}
			for v := range period + c.delay {
				b := planner.Buffer{Size: 64, Lo: max(0, v-c.delay), Hi: min(v, c.delay) + 1}
				p.Buffers = append(p.Buffers, b)
			}
			for _, name := range []string{"nnc", "nnc-size", "nnc-best", "exact", "auto"} {
				s := planWith(t, name, p)
				assert.Equal(t, int64(64*c.slots), s.ArenaBytes, name)
				slots := map[int64]bool{}
				for _, off := range s.Offsets {
					slots[off] = true
				}
				assert.Len(t, slots, c.slots, name)
			}
		})
	}
}

// TestLoopInPlace is y = avg(conv(x)): x is past its last use when y is born, so y fits where x was without another copy of the body.
func TestLoopInPlace(t *testing.T) {
	p := problemOf(block{64, 0, 1}, block{64, 0, 2}, block{64, 1, 2})
	for _, name := range planner.Names()[1:] { // naive lets none share
		s := planWith(t, name, p)
		assert.Equal(t, int64(128), s.ArenaBytes, name)
	}
}

// TestPartialGoldens plans graphs whose branches have no order: what lies on one may be alive with what lies on the other.
func TestPartialGoldens(t *testing.T) {
	at := func(head int, tails ...int) planner.Life { return planner.Life{Heads: []int{head}, Tails: tails} }
	cases := []struct {
		name    string
		nodes   int
		edges   [][2]int
		lives   []planner.Life
		sizes   []int64
		optimum int64
	}{
		{"chain", 4, [][2]int{{0, 1}, {1, 2}, {2, 3}}, []planner.Life{at(0, 1), at(1, 2), at(2, 3)}, []int64{8, 4, 6}, 12},
		{"diamond", 4, [][2]int{{0, 1}, {0, 2}, {1, 3}, {2, 3}}, []planner.Life{at(0, 1, 2), at(1, 3), at(2, 3), at(3, 3)}, []int64{8, 4, 6, 5}, 18},
		{"branch scratch", 4, [][2]int{{0, 1}, {0, 2}, {1, 3}, {2, 3}}, []planner.Life{at(1, 1), at(2, 2)}, []int64{7, 9}, 16},
		{"branches in sequence", 4, [][2]int{{0, 1}, {1, 2}, {2, 3}}, []planner.Life{at(1, 1), at(2, 2)}, []int64{7, 9}, 9},
		{"two tails", 5, [][2]int{{0, 1}, {0, 2}, {1, 4}, {2, 3}, {3, 4}}, []planner.Life{at(0, 1, 3), at(4, 4)}, []int64{3, 5}, 5},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			order, err := planner.NewPartial(c.nodes, c.edges, c.lives)
			require.NoError(t, err)
			p := &planner.Problem{Order: order}
			for _, size := range c.sizes {
				p.Buffers = append(p.Buffers, planner.Buffer{Size: size})
			}
			for _, name := range []string{"nnc", "nnc-size", "nnc-best", "exact", "auto"} {
				s := planWith(t, name, p)
				assert.GreaterOrEqual(t, s.ArenaBytes, c.optimum, name)
				if name == "auto" || name == "exact" {
					assert.Equal(t, c.optimum, s.ArenaBytes, name)
					assert.True(t, s.Proven(), name)
				}
			}
		})
	}
}
