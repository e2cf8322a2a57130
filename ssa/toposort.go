package ssa

import "container/heap"

// StableOrder returns the numbers from 0 on in a topological order: of those that wait for nothing more, the lowest comes
// next, so an order that is legal already stays (Kahn's algorithm with a heap).
//
// pending[i] is how many edges lead to i; after calls f once for each edge that leads away from i. Where edges form a cycle
// the result is shorter than pending, and pending stays above 0 for what is left out.
func StableOrder(pending []int, after func(i int, f func(int))) []int {
	var ready intHeap
	for i, p := range pending {
		if p == 0 {
			ready = append(ready, i) // ascending, which is a heap
		}
	}
	out := make([]int, 0, len(pending))
	for len(ready) > 0 {
		i := heap.Pop(&ready).(int)
		out = append(out, i)
		after(i, func(next int) {
			if pending[next]--; pending[next] == 0 {
				heap.Push(&ready, next)
			}
		})
	}
	return out
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
