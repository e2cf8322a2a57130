package fuse

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Shuffles lets grouped convolutions write their channels where the channel shuffle behind them
// (ShuffleNet, https://arxiv.org/abs/1707.01083) would bring them:
//
//	x ─▶ Conv of g groups ─▶ Reshape [N, g, C/g, …] ─▶ Transpose [0, 2, 1, …] ─▶ Reshape [N, C, …]
//
// becomes one Conv: channel i of group k is written as channel i·g + k. It runs behind [Epilogues],
// for the backend of the CPU.
func Shuffles(ctx context.Context, g *ssa.Graph) (made int, err error) {
	g.Walk(func(body *ssa.Graph) {
		c := newChains(body)
		for _, n := range body.Nodes {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return
			}
			if chain := shuffleBehind(body, n); chain != nil {
				c.shuffle(n, chain)
			}
		}
		if err = cmp.Or(err, c.rewrite(ctx)); err == nil {
			made += c.made
		}
	})
	return made, err
}

// shuffle joins a convolution and the shuffle behind it.
func (c *chains) shuffle(n *ssa.Node, chain []*ssa.Node) {
	last := chain[len(chain)-1]
	m := fused.Shuffled(n, last.Out[0])
	m.Sources = slices.Clip(n.Names())
	c.gone[n.ID] = true
	c.join(last, m)
	for _, n := range chain {
		m.Sources = append(m.Sources, n.Names()...)
		c.gone[n.ID] = true
	}
}

// shuffleBehind finds the three nodes of the shuffle behind a convolution, nil if there is none. Shapes say all: a Reshape
// keeps the order of elements.
func shuffleBehind(g *ssa.Graph, n *ssa.Node) (chain []*ssa.Node) {
	if n.Op != "Conv" || n.Domain != "" && n.Domain != ops.Private || len(n.Out) != 1 || n.Opaque {
		return nil
	}
	v := n.Out[0]
	for _, op := range []string{"Reshape", "Transpose", "Reshape"} {
		uses := v.Uses()
		if len(uses) != 1 || uses[0].Index != 0 || uses[0].Node.Op != op || uses[0].Node.Domain != "" || g.IsResult(v) {
			return nil
		}
		if !ops.TargetKnown(uses[0].Node) {
			return nil
		}
		chain = append(chain, uses[0].Node)
		v = uses[0].Node.Out[0]
	}
	groups, x, split := ops.Int(n, "group"), n.Out[0].Type, chain[0].Out[0].Type
	perm := ops.Ints(chain[1], "perm")
	if _, operands := fused.Epilogue(n); groups < 2 || len(operands) > 0 || !x.Ranked || !split.Ranked || split.Rank() < 4 || len(perm) != split.Rank() {
		return nil
	}
	channels, ok := x.Shape[1].Const()
	for i, p := range perm {
		ok = ok && p == []int64{0, 2, 1, int64(i)}[min(i, 3)]
	}
	if !ok || !split.Shape[0].Equal(x.Shape[0]) || !split.Shape[1].Is(groups) || !split.Shape[2].Is(channels/groups) || !v.Type.Equal(x) {
		return nil
	}
	return chain
}
