package plannertest

import (
	"math/rand/v2"

	"github.com/berth-onnx/berth/planner"
)

// Graph is what a partial order was made from. It serves to verify plans without the order's own answers: in every
// schedule of the nodes, a buffer is alive from the first of its heads to the last of its tails.
//
//	n0 -> n1 -> n3         one schedule   n0 n2 n1 n3        a (head n1, tail n3) lives in the last two steps,
//	  \-> n2 --/           another        n0 n1 n2 n3        or in the last three
type Graph struct {
	Nodes int
	Edges [][2]int // from a lower to a higher number
	Lives []planner.Life
}

// reach tells which nodes are behind each node.
func (g *Graph) reach() [][]bool {
	next := g.successors()
	reach := make([][]bool, g.Nodes)
	for u := g.Nodes - 1; u >= 0; u-- {
		reach[u] = make([]bool, g.Nodes)
		for _, w := range next[u] {
			reach[u][w] = true
			for v := range reach[u] {
				reach[u][v] = reach[u][v] || reach[w][v]
			}
		}
	}
	return reach
}

func (g *Graph) successors() [][]int {
	next := make([][]int, g.Nodes)
	for _, e := range g.Edges {
		next[e[0]] = append(next[e[0]], e[1])
	}
	return next
}

// schedule draws a valid order of the nodes and returns the step of each.
func (g *Graph) schedule(r *rand.Rand) []int {
	next := g.successors()
	waits := make([]int, g.Nodes)
	for _, e := range g.Edges {
		waits[e[1]]++
	}
	var ready []int
	for v, w := range waits {
		if w == 0 {
			ready = append(ready, v)
		}
	}
	step := make([]int, g.Nodes)
	for t := range step {
		k := r.IntN(len(ready))
		u := ready[k]
		ready[k] = ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		step[u] = t
		for _, v := range next[u] {
			if waits[v]--; waits[v] == 0 {
				ready = append(ready, v)
			}
		}
	}
	return step
}

// span is the first and the last step of buffer i in a schedule.
func (g *Graph) span(i int, step []int) (first, last int) {
	first, last = g.Nodes, -1
	for _, h := range g.Lives[i].Heads {
		first = min(first, step[h])
	}
	for _, t := range g.Lives[i].Tails {
		last = max(last, step[t])
	}
	return first, last
}

// conflicts tells which buffers can be alive at the same step of some schedule: none is over before the other begins.
func (g *Graph) conflicts() [][]bool {
	reach := g.reach()
	before := func(a, b int) bool {
		for _, t := range g.Lives[a].Tails {
			for _, h := range g.Lives[b].Heads {
				if !reach[t][h] {
					return false
				}
			}
		}
		return true
	}
	out := make([][]bool, len(g.Lives))
	for a := range out {
		out[a] = make([]bool, len(g.Lives))
		for b := range out {
			out[a][b] = a != b && !before(a, b) && !before(b, a)
		}
	}
	return out
}
