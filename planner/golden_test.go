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
	{"onnx2c#131", problemOf(block{1000, 0, 3}, block{400, 3, 7}, block{500, 3, 7}), 1000, 1000, 1000, []int64{0, 500, 0}, 1000},
	{"merge limit", problemOf(block{500, 0, 3}, block{500, 0, 3}, block{800, 3, 6}), 1000, 1300, 1300, []int64{0, 800, 0}, 1000},
	{"chain", problemOf(block{64, 0, 2}, block{64, 1, 3}, block{64, 2, 4}, block{64, 3, 5}), 128, 128, 128, []int64{64, 0, 64, 0}, 128},
	{"resnet block", problemOf(block{100, 0, 4}, block{50, 1, 3}, block{50, 2, 4}, block{100, 3, 5}, block{100, 4, 6}), 250, 250, 250, []int64{0, 100, 200, 100, 0}, 250},
	{"xnnpack#10800", problemOf(block{100, 0, 2}, block{80, 1, 3}, block{60, 2, 4}), 180, 180, 180, []int64{0, 100, 0}, 180},
	{"minimalloc readme", problemOf(block{4, 0, 3}, block{4, 3, 9}, block{4, 0, 9}, block{4, 9, 21}, block{4, 0, 21}), 12, 12, 12, []int64{8, 8, 4, 4, 0}, 12},
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
