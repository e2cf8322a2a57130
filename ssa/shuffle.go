package ssa

import (
	"math/rand/v2"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Shuffle brings the nodes of a graph and its bodies into another legal order,
// drawn by seed: among the nodes whose operands are ready, any may come next. No
// pass may lean on the order it happens to see, and tests shuffle to prove it. It
// fails on a cycle.
func (g *Graph) Shuffle(seed uint64) (err error) {
	defer rescue.Into(&err)
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	g.Walk(func(b *Graph) {
		rng.Shuffle(len(b.Nodes), func(i, j int) { b.Nodes[i], b.Nodes[j] = b.Nodes[j], b.Nodes[i] })
		if e := b.Sort(); e != nil && err == nil { // keeps the drawn order where it is legal
			err = e
		}
	})
	return err
}
