package program

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Placed results lie in memory of the caller's, another piece in each run, and are written there
// by the kernels of their nodes: nothing is copied out of the arena, and the plan has no block for
// them.
//
//	inputs ──read in place──▶ ┌─ arena ───────────────┐
//	                          │ intermediate values   │──written in place──▶ placed results
//	                          └───────────────────────┘
//
// Memory of a placed result may be that of an input where the caller knows that the node which
// writes it is the last to read the input, and may do so in place.

// PlaceError reports a result that can not be written into memory of the caller's, because its node does not make its bytes,
// or because another node reads it.
type PlaceError struct{ Name, Reason string }

// Error names the result and the reason.
func (e *PlaceError) Error() string {
	return fmt.Sprintf("result %q can not be written into the caller's memory: %s", e.Name, e.Reason)
}

// CompilePlaced is [Compile] for a program all of whose results are placed; [Session.RunPlaced] runs it.
func CompilePlaced(ctx context.Context, g *ssa.Graph, o Options) (*Program, error) {
	for i, v := range g.Results {
		if reason := notPlaced(g, i); reason != "" {
			return nil, &PlaceError{v.Name, reason}
		}
	}
	o.placed = true
	return Compile(ctx, g, o)
}

// notPlaced says why a result can not be placed, "" if it can.
func notPlaced(g *ssa.Graph, result int) string {
	v := g.Results[result]
	_, sized := v.Type.ByteSize()
	shown := 0
	for _, r := range g.Results {
		if r == v {
			shown++
		}
	}
	switch {
	case v.Def == nil:
		return "it is an input or a constant"
	case !sized:
		return "its size is not known before a run"
	case len(v.Uses()) > 0 || shown > 1:
		return "it is read by others"
	case ops.IsControl(v.Def) || len(ops.Aliases(v.Def)) > 0:
		return v.Def.String() + " makes no bytes of its own"
	}
	return ""
}

// CanPlace reports whether a result may be placed.
func CanPlace(g *ssa.Graph, result int) bool { return notPlaced(g, result) == "" }

// isPlaced reports whether a value is placed: all results are, or next values of states that are overwritten.
func (c *compiler) isPlaced(g *ssa.Graph, v *ssa.Value) bool {
	_, over := c.over[v]
	return over || c.opts.placed && g.IsResult(v)
}

// outside tells the layout which values are placed.
func (c *compiler) outside(g *ssa.Graph) func(v *ssa.Value) bool {
	if !c.opts.placed && len(c.over) == 0 {
		return nil
	}
	return func(v *ssa.Value) bool { return c.isPlaced(g, v) }
}

// RunPlaced executes a program whose results are all placed: places are their bytes, in the order of
// the results, aligned for their elements. A run that fails leaves places partly written.
func (s *Session) RunPlaced(ctx context.Context, inputs []ndarray.Value, places [][]byte) (err error) {
	if len(places) != len(s.p.Main.Results) {
		return fmt.Errorf("the program has %d results, got %d places", len(s.p.Main.Results), len(places))
	}
	for i, slot := range s.p.Main.Results {
		sl := &s.p.Slots[slot]
		if sl.Kind != SlotPlaced || len(places[i]) != sl.Bytes {
			return &OutputError{s.p.outputName(i), fmt.Sprintf("%d bytes, placed", sl.Bytes), fmt.Sprintf("%d bytes", len(places[i]))}
		}
		s.heads[slot].Data = places[i]
	}
	defer s.rescue(&err)
	if err := s.execute(ctx, inputs); err != nil || s.device == nil {
		return err
	}
	return s.device.End()
}
