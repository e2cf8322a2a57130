package planner

import (
	"context"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Naive gives every buffer memory of its own, one after the other in index order: what a program without any
// planning holds. It is the yardstick for the others.
//
//	|      CC|
//	|   BBB  |
//	|AAAA    |
type Naive struct{}

// Name is "naive".
func (Naive) Name() string { return "naive" }

// Plan lays the buffers end to end.
func (n Naive) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	return planBy(ctx, p, n.Name(), func(m *model) ([]int64, []Window) { return m.naive(), nil })
}

func (m *model) naive() []int64 {
	at := make([]int64, len(m.items))
	top := int64(0)
	for i := range m.items {
		at[i] = alignUp(top, m.items[i].align)
		top = at[i] + m.items[i].size
	}
	return at
}
