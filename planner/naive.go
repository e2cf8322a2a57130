package planner

import "context"

// Naive gives every buffer memory of its own, one after the other in index order: what a program without any
// planning holds. It is the yardstick for the others.
//
//	|      CC|
//	|   BBB  |
//	|AAAA    |
type Naive struct{}

// Name is "naive".
func (Naive) Name() string { return "naive" }

// Plan lays the buffers end to end above the fixed ones; a group is one buffer.
func (n Naive) Plan(ctx context.Context, p *Problem) (*Solution, error) {
	return planBy(ctx, p, n.Name(), func(m *model) ([]int64, []Window) { return m.naive(), nil })
}

func (m *model) naive() []int64 {
	at := make([]int64, len(m.items))
	top := m.floor()
	for i := range m.items {
		it := &m.items[i]
		if at[i] = it.fixed; it.fixed < 0 {
			at[i] = alignUp(top, it.align)
			top = at[i] + it.size
		}
	}
	return at
}
