package planner

import (
	"cmp"
	"context"
)

// BestFit follows the schedule: buffers in order of birth (of one instant the largest first), each into the tightest gap
// among those alive. This is what an allocator without foresight would do.
//
//	|    CCCC|        A, B are born first; C comes when A has died and takes the gap of A if it fits,
//	|BBBB    |        else goes on top
//	|AAAA DD |
//
// Source: the best-fit planners of TVM's graph memory planning and of onnxsim.
type BestFit struct{}

// Name is "best-fit".
func (BestFit) Name() string { return "best-fit" }

// Plan piles up what is not placed yet when ctx ends.
func (f BestFit) Plan(ctx context.Context, p *Problem) (*Solution, error) {
	return planBy(ctx, p, f.Name(), func(m *model) ([]int64, []Window) { return m.bestFit(anyHeight), nil })
}

func (m *model) bestFit(limit int64) []int64 {
	return m.fillTight(limit, m.sortedIDs(func(a, b int) int {
		x, y := &m.items[a], &m.items[b]
		if c := cmp.Compare(m.born(a), m.born(b)); c != 0 {
			return c
		}
		return cmp.Compare(y.size, x.size)
	}))
}

// born is the instant at which item i comes to life: a time point, or a rank where there is no time.
func (m *model) born(i int) int32 {
	if m.timed {
		return m.items[i].lo
	}
	return m.items[i].birth
}
