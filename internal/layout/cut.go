package layout

import (
	"context"
	"math"
)

// network is a flow network whose minimum cut is wanted. Vertices before the cut (on the
// side of the source) are blocked, those behind it plain; an edge u → v costs its capacity
// where u is blocked and v plain.
//
// Dinic's algorithm: while vertices can be reached from the source, push flow along shortest
// ways (E. A. Dinic, "Algorithm for solution of a problem of maximum flow in a network with
// power estimation", 1970). Networks here have a few edges for each node of a model.
type network struct {
	to    []int   // of each edge; edge i^1 is its reverse
	room  []int64 // capacity that is left
	edges [][]int // of each vertex

	level []int
	next  []int
}

// The terminals.
const (
	blockedSide = 0
	plainSide   = 1
)

// forbidden is a capacity that no minimum cut crosses.
const forbidden = math.MaxInt64 / 4

func newNetwork() *network {
	return &network{edges: make([][]int, 2)}
}

// vertex adds a vertex.
func (f *network) vertex() int {
	f.edges = append(f.edges, nil)
	return len(f.edges) - 1
}

// edge lets u blocked and v plain cost something.
func (f *network) edge(u, v int, cost float64) {
	f.capacity(u, v, int64(min(cost, forbidden/8)))
}

func (f *network) capacity(u, v int, c int64) {
	f.to = append(f.to, v, u)
	f.room = append(f.room, c, 0)
	f.edges[u] = append(f.edges[u], len(f.to)-2)
	f.edges[v] = append(f.edges[v], len(f.to)-1)
}

// cut returns the cost of a minimum cut and which vertices are blocked: of all minimum cuts the
// one with the fewest.
func (f *network) cut(ctx context.Context) (cost int64, blocked []bool, err error) {
	for f.levels() {
		f.next = make([]int, len(f.edges))
		for {
			if err := ctx.Err(); err != nil {
				return 0, nil, err
			}
			pushed := f.push(blockedSide, forbidden)
			if pushed == 0 {
				break
			}
			cost += pushed
		}
	}
	blocked = make([]bool, len(f.edges))
	for v, l := range f.level {
		blocked[v] = l >= 0
	}
	return cost, blocked, nil
}

// levels counts the edges from the source to each vertex; false if the sink is out of reach.
func (f *network) levels() bool {
	f.level = make([]int, len(f.edges))
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[blockedSide] = 0
	for queue := []int{blockedSide}; len(queue) > 0; queue = queue[1:] {
		for _, e := range f.edges[queue[0]] {
			if v := f.to[e]; f.room[e] > 0 && f.level[v] < 0 {
				f.level[v] = f.level[queue[0]] + 1
				queue = append(queue, v)
			}
		}
	}
	return f.level[plainSide] >= 0
}

// push sends up to most from u to the sink along one shortest way. Its depth is bounded by the
// length of that way, a few vertices for each node between two conversions.
func (f *network) push(u int, most int64) int64 {
	if u == plainSide {
		return most
	}
	for ; f.next[u] < len(f.edges[u]); f.next[u]++ {
		e := f.edges[u][f.next[u]]
		v := f.to[e]
		if f.room[e] <= 0 || f.level[v] != f.level[u]+1 {
			continue
		}
		if pushed := f.push(v, min(most, f.room[e])); pushed > 0 {
			f.room[e] -= pushed
			f.room[e^1] += pushed
			return pushed
		}
	}
	return 0
}
