package ssa

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
		i := ready.pop()
		out = append(out, i)
		after(i, func(next int) {
			if pending[next]--; pending[next] == 0 {
				ready.push(next)
			}
		})
	}
	return out
}

// intHeap is a binary heap, the least number first.
type intHeap []int

func (h *intHeap) push(x int) {
	s := append(*h, x)
	at := len(s) - 1
	for at > 0 && s[(at-1)/2] > x {
		s[at] = s[(at-1)/2]
		at = (at - 1) / 2
	}
	s[at] = x
	*h = s
}

func (h *intHeap) pop() int {
	s := *h
	least, x := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	at := 0
	for k := 1; k < len(s); k = 2*at + 1 {
		if k+1 < len(s) && s[k+1] < s[k] {
			k++
		}
		if s[k] >= x {
			break
		}
		s[at], at = s[k], k
	}
	if len(s) > 0 {
		s[at] = x
	}
	*h = s
	return least
}
