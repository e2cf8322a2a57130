package fuse

import (
	"context"

	"github.com/berth-onnx/berth/ssa"
)

// Early makes groups of those nodes of a graph that a function takes, bodies left out, before an order of the nodes is searched. Where the order
// comes first, a search spreads the nodes of a formula, and the values between them take memory: m and n below while b is computed.
//
//	m = Mul(x, x)    n = Exp(m)    b = MatMul(y, z)    d = Mul(n, b)        b = MatMul(y, z)    d = {Mul, Exp, Mul}(x, b)
//
// So all legal groups of one result beside those for each row are made, whatever time they save; other nodes are left to [Apply].
func Early(ctx context.Context, g *ssa.Graph, takes func(n *ssa.Node) bool) error {
	groups, err := groupsOf(ctx, g, &Options{Threads: 1, Takes: takes})
	if err != nil {
		return err
	}
	var chosen []*group
	for _, x := range groups {
		whole := 0
		for _, v := range x.stored(g) {
			if !x.isRowValue(v) {
				whole++
			}
		}
		if whole <= 1 {
			chosen = append(chosen, x)
		}
	}
	return replace(ctx, g, chosen)
}
