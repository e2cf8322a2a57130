package inplace

import (
	"context"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// A slice can be a window of its operand, which costs no time and keeps the whole
// operand alive, or a copy, which lets the operand go:
//
//	a  ■■■■■■■■              a  ■■■
//	s  window of a           s    ■■■■■■■      the copy is smaller, and a's place
//	                                           is free earlier
//
// Which is better depends on what else is alive, so both layouts are folded.

// blockBytes is about how many bytes a folding takes for a block.
const blockBytes = 384

// Lay lays a graph out in time and folds it, with parts of operands as windows
// of their operand or as copies, whichever needs less memory at once; windows if
// it is the same, since they cost no time.
func Lay(ctx context.Context, g *ssa.Graph, lo liveness.Options, o Options) (_ *liveness.Timeline, _ *Folding, err error) {
	defer rescue.Into(&err)
	lo.Windows = true
	t, err := liveness.Build(ctx, g, lo)
	if err != nil {
		return nil, nil, err
	}
	if err := ndarray.BudgetOf(ctx).AskContext(ctx, "the folding of blocks", blockBytes*int64(len(t.Vars))); err != nil {
		return nil, nil, err
	}
	f := Fold(ctx, t, o)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if lo.CopyViews || f.Peak() <= o.Bound || !alias.HasParts(g) {
		return t, f, nil
	}
	lo.Windows = false
	t2, err := liveness.Build(ctx, g, lo)
	if err != nil {
		return nil, nil, err
	}
	if f2 := Fold(ctx, t2, o); f2.Peak() < f.Peak() {
		t, f = t2, f2
	}
	return t, f, ctx.Err()
}
