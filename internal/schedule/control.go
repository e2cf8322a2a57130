package schedule

import (
	"context"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ssa"
)

// inner is what a control-flow node needs when it stands alone: its operands are
// someone else's memory and its results live on. Beside its operands, a graph
// needs no more than its peak while the node runs (it may need less: a body may write
// over a captured value at its last use).
//
//	         ┌─ If ─────────────────┐
//	x ──────▶│ then  ■■■ 40         │──▶ y   peak 64
//	         │ else  ■■■■■ 64       │
//	         └──────────────────────┘
type inner struct {
	peak  int64   // bytes at once, results included
	bound int64   // bytes that some body needs in every order, operands free
	outs  [][]int // by result, the classes of blocks that it may lie in
}

// isolated is a graph of one control-flow node, which shares the bodies. Its
// parameters stand for the operands, its results are those of the node that
// anything reads.
func isolated(n *ssa.Node, g *ssa.Graph) *ssa.Graph {
	h := ssa.NewGraph(n.Name)
	made := map[*ssa.Value]*ssa.Value{}
	in := make([]*ssa.Value, len(n.In))
	for i, v := range n.In {
		switch {
		case v == nil:
		case made[v] != nil:
			in[i] = made[v]
		case v.Const != nil:
			in[i] = h.AddConst(v.Name, v.Const)
		default:
			in[i] = h.AddParam(v.Name, v.Type)
			in[i].Content = v.Content
		}
		if v != nil {
			made[v] = in[i]
		}
	}
	k := h.NewNode(n.Op, in, 0, n.Attrs...)
	k.Name, k.Version, k.Captures = n.Name, n.Version, n.Captures
	for i, b := range n.Bodies {
		k.AddBody(n.BodyAttr[i], b)
	}
	for _, v := range n.Out {
		if v == nil {
			h.AddOutput(k, "")
			continue
		}
		o := h.AddOutput(k, v.Name)
		o.Type = v.Type
		if len(v.Uses()) > 0 || g.IsResult(v) {
			h.Results = append(h.Results, o)
		}
	}
	return h
}

// measure lays a control-flow node out on its own.
func measure(ctx context.Context, n *ssa.Node, g *ssa.Graph) (*inner, error) {
	h := isolated(n, g)
	t, f, err := inplace.Lay(ctx, h, liveness.Options{}, inplace.Options{})
	if err != nil {
		return nil, err
	}
	in := &inner{peak: f.Peak()}
	for _, v := range h.Nodes[0].Out {
		var outs []int
		for _, b := range t.BlocksOf(v) {
			outs = append(outs, f.Of[b])
		}
		in.outs = append(in.outs, outs)
	}
	return in, nil
}

// carriedBlocks lists the parameters of a loop's body that surely lie in memory of their
// own while anything reads them: the iteration counter, slices that are copied, and
// what the iteration before made in a block of its own. made are the values they
// become; of parameters that may show the same block, the first is listed.
func carriedBlocks(rot *loops.Rotation) (params, made []*ssa.Value) {
	if rot == nil {
		return nil, nil
	}
	add := func(p, becomes *ssa.Value) {
		if p != nil && sizeOf(p) > 0 && (len(p.Uses()) > 0 || rot.Body.IsResult(p)) {
			params, made = append(params, p), append(made, becomes)
		}
	}
	add(rot.Iter, nil)
	for _, s := range rot.ScanIns {
		if s.Axis != 0 {
			add(s.Param, nil)
		}
	}
	seen := make(map[*ssa.Value]bool, len(rot.Carries))
	for _, c := range rot.Carries {
		v := alias.Shown(c.Result)
		if v.Def != nil && !alias.IsPointer(v) && rot.StackOf(v) == nil && !seen[v] {
			add(c.Param, v)
			seen[v] = len(made) > 0 && made[len(made)-1] == v
		}
	}
	return params, made
}
