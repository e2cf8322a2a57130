package planner

import (
	"cmp"
	"context"

	"github.com/berth-onnx/berth/internal/rescue"
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
func (f BestFit) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	return planBy(ctx, p, f.Name(), func(m *model) ([]int64, []Window) { return m.bestFit(anyHeight), nil })
}

func (m *model) bestFit(limit int64) []int64 {
	return m.fillTight(limit, m.sortedIDs(func(a, b int) int {
		return cmp.Or(cmp.Compare(m.born(a), m.born(b)), cmp.Compare(m.items[b].size, m.items[a].size))
	}))
}

// born is the instant at which item i becomes live: a time point, or a rank where there is no time.
func (m *model) born(i int) int32 {
	if m.timed {
		return m.items[i].lo
	}
	return m.items[i].birth
}
