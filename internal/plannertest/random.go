// Package plannertest draws planning problems that are valid by construction, for tests, fuzzing and long runs.
package plannertest

import (
	"math/rand/v2"
	"slices"

	"github.com/berth-onnx/berth/planner"
)

// Options switch the features of a random problem. The zero value draws plain intervals of moderate size.
type Options struct {
	MaxBuffers int  // at most so many buffers; 0 means 12
	MaxTime    int  // live ranges lie in [0, MaxTime); 0 means 12
	MaxSize    int  // sizes are at most this; 0 means 20. Small values make ties
	Zero       bool // buffers of size zero and empty live ranges
	Align      bool // own and common alignments
	Holes      bool // live ranges with holes
	Partial    bool // the order of a random graph in place of intervals
}

// All switches on everything that intervals can have; Partial is drawn separately.
var All = Options{Zero: true, Align: true, Holes: true}

// Pick draws options: each feature with a chance of its own, small problems more often than large.
func Pick(r *rand.Rand) Options {
	return Options{
		MaxBuffers: 1 + r.IntN(1+r.IntN(40)),
		MaxTime:    1 + r.IntN(30),
		MaxSize:    1 + r.IntN(1+r.IntN(200)),
		Zero:       r.IntN(3) == 0,
		Align:      r.IntN(3) == 0,
		Holes:      r.IntN(3) == 0,
		Partial:    r.IntN(4) == 0,
	}
}

// Random draws a problem. The same source and options give the same problem.
func Random(r *rand.Rand, o Options) *planner.Problem {
	p, _ := random(r, o)
	return p
}

// random is Random that also tells the graph of a partial order.
func random(r *rand.Rand, o Options) (*planner.Problem, *Graph) {
	var g *Graph
	o.MaxBuffers, o.MaxTime, o.MaxSize = orElse(o.MaxBuffers, 12), orElse(o.MaxTime, 12), orElse(o.MaxSize, 20)
	p := &planner.Problem{Buffers: make([]planner.Buffer, r.IntN(o.MaxBuffers+1))}
	for i := range p.Buffers {
		drawBuffer(r, o, &p.Buffers[i])
	}
	if o.Align && r.IntN(2) == 0 {
		p.Align = int64(1 + r.IntN(4))
	}
	if o.Partial {
		g = drawGraph(r, o, p)
	}
	return p, g
}

func orElse(x, missing int) int {
	if x <= 0 {
		return missing
	}
	return x
}

func drawBuffer(r *rand.Rand, o Options, b *planner.Buffer) {
	b.Size = int64(1 + r.IntN(o.MaxSize))
	b.Lo = r.IntN(o.MaxTime)
	b.Hi = b.Lo + 1 + r.IntN(min(o.MaxTime-b.Lo, 1+r.IntN(o.MaxTime)))
	if o.Zero && r.IntN(6) == 0 {
		b.Size = 0
	}
	if o.Zero && r.IntN(10) == 0 {
		b.Hi = b.Lo
	}
	if o.Align {
		b.Align = []int64{0, 1, 2, 3, 4, 8}[r.IntN(6)]
	}
	if o.Holes && r.IntN(2) == 0 {
		for at := b.Lo; at < b.Hi; {
			lo := at + r.IntN(b.Hi-at+1)
			hi := lo + r.IntN(b.Hi-lo+1)
			if r.IntN(2) == 0 {
				b.Holes = append(b.Holes, planner.Range{Lo: lo, Hi: hi})
			}
			at = hi + 1
		}
	}
}

// drawGraph replaces the live ranges by heads and tails in a random acyclic graph.
func drawGraph(r *rand.Rand, o Options, p *planner.Problem) *Graph {
	g := &Graph{Nodes: 1 + r.IntN(o.MaxTime), Lives: make([]planner.Life, len(p.Buffers))}
	for v := 1; v < g.Nodes; v++ {
		for range 1 + r.IntN(2) {
			g.Edges = append(g.Edges, [2]int{r.IntN(v), v})
		}
	}
	reach := g.reach()
	for i := range g.Lives {
		heads := []int{r.IntN(g.Nodes)}
		if h := r.IntN(g.Nodes); r.IntN(4) == 0 && h != heads[0] && !reach[h][heads[0]] && !reach[heads[0]][h] {
			heads = append(heads, h)
		}
		tails := slices.Clone(heads)
		for v := range g.Nodes {
			if slices.ContainsFunc(heads, func(h int) bool { return reach[h][v] }) && r.IntN(3) == 0 {
				tails = addTail(tails, v, reach)
			}
		}
		g.Lives[i] = planner.Life{Heads: heads, Tails: tails}
	}
	order, err := planner.NewPartial(g.Nodes, g.Edges, g.Lives)
	if err != nil {
		panic(err) // the graph is acyclic by construction
	}
	p.Order = order
	return g
}

// addTail keeps a set of tails an antichain.
func addTail(tails []int, v int, reach [][]bool) []int {
	kept := tails[:0:0]
	for _, t := range tails {
		if reach[v][t] || t == v {
			return tails
		}
		if !reach[t][v] {
			kept = append(kept, t)
		}
	}
	return append(kept, v)
}
