package program

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// States that a run overwrites. A state whose next value is made by the last node that reads the state, element by element, needs
// one place instead of two: the node writes over what it reads.
//
//	w ──┬─ MatMul ── … ── slope ─┐
//	    ├─ MatMul (way back)     ▼
//	    └──────────────────── w - r·slope ──▶ the place of w
//
// Nodes that make next values are moved behind the last reader for this. The layout has no block for such a result (it lies outside of
// the arena, as placed results do), and the verifier gives a state and its next value the same bytes, behind the arena, so that a
// read of what is overwritten is found as in the arena. Other states keep two places.
//
// The price is that a run can not be taken back once it has begun to overwrite: from then on it ignores its context, and an error
// leaves the states torn, which later runs refuse until they are set again.

// TornError is the error of runs whose session holds a state that a failed run has partly overwritten.
type TornError struct{ State string }

// Error names the state.
func (e *TornError) Error() string {
	return fmt.Sprintf("state %q was partly overwritten by a run that failed: set all states again, or reset the session", e.State)
}

// overwrites finds the states that are overwritten, by their next values, and orders the graph for them.
func (c *compiler) overwrites(g *ssa.Graph) {
	for i, st := range c.opts.States {
		if st.Overwrite != nil && !c.opts.ParallelSafe && !c.opts.placed && st.Overwrite(g, st) {
			c.over[g.Results[st.Result]] = i
		}
	}
}

// CanOverwrite reports whether the next value of a state is made where the state lies, after its node was moved behind the other
// readers of the state, if it had to be. Only programs that ask for it link it.
func CanOverwrite(g *ssa.Graph, st State) bool {
	p, next := g.Params[st.Param], g.Results[st.Result]
	n := next.Def
	if _, sized := next.Type.ByteSize(); n == nil || !sized || ops.IsControl(n) || len(ops.Aliases(n)) > 0 || !ops.SameLayout(p.Type, next.Type) {
		return false
	}
	shown, last := readersOf(g, p, n)
	behind, _ := readersOf(g, next, nil)
	for i, r := range g.Results {
		if shown[r] || behind[r] && i != st.Result {
			return false
		}
	}
	for i, v := range n.In {
		if shown[v] && (v != p || !slices.Contains(ops.InPlacePairs(n), ops.Pair{In: i, Out: next.DefIndex})) {
			return false
		}
	}
	at := slices.Index(g.Nodes, n)
	for _, m := range g.Nodes[at+1 : max(last, at)+1] {
		if slices.ContainsFunc(m.In, func(v *ssa.Value) bool { return v != nil && v.Def == n }) {
			return false
		}
	}
	if last > at {
		copy(g.Nodes[at:last], g.Nodes[at+1:last+1])
		g.Nodes[last] = n
	}
	return true
}

// readersOf are the values that may show the bytes of a value, itself among them, and the position of the last node but one that reads them.
func readersOf(g *ssa.Graph, of *ssa.Value, but *ssa.Node) (shown map[*ssa.Value]bool, last int) {
	shown, last = map[*ssa.Value]bool{of: true}, -1
	for i, n := range g.Nodes {
		if n == but || !slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return shown[v] }) {
			continue
		}
		last = i
		if passesOn(n, shown) || len(ops.Aliases(n)) > 0 {
			for _, v := range n.Out {
				shown[v] = v != nil
			}
		}
	}
	return shown, last
}

// passesOn reports whether results of control flow may show the bytes of an operand: unless its bodies only compute with it.
func passesOn(n *ssa.Node, shown map[*ssa.Value]bool) bool {
	if !ops.IsControl(n) {
		return false
	}
	first := len(n.In) - n.Captures
	for i, v := range n.In {
		if !shown[v] {
			continue
		}
		if i < first {
			return true
		}
		for _, body := range n.Bodies {
			inside, _ := readersOf(body, body.Params[len(body.Params)-n.Captures+i-first], nil)
			if slices.ContainsFunc(body.Results, func(r *ssa.Value) bool { return inside[r] }) {
				return true
			}
		}
	}
	return false
}

// markOverwrites flags the first instruction that overwrites a state: behind it a run can not be taken back.
func (c *compiler) markOverwrites() {
	for i := range c.p.Main.Instrs {
		in := &c.p.Main.Instrs[i]
		if slices.ContainsFunc(in.Node.Out, func(v *ssa.Value) bool { _, over := c.over[v]; return over }) {
			in.commits = true
			return
		}
	}
}

// commit lets a run go on to its end whatever its context says.
func (s *Session) commit() {
	s.done, s.ctx, s.committed = nil, context.Background(), true
	for i := range s.calls {
		s.calls[i].Ctx = s.ctx
	}
}

// tear marks the states that a failed run has begun to overwrite.
func (s *Session) tear(err error) {
	for i := range s.states {
		if err != nil && s.p.recurrent[i].overwritten {
			s.states[i].torn = true
		}
	}
	s.committed = false
}

// checkTorn refuses to run on states that are torn.
func (s *Session) checkTorn() error {
	for i := range s.states {
		if s.states[i].torn {
			return &TornError{s.p.Slots[s.p.Main.Params[s.p.recurrent[i].Param]].Value.Name}
		}
	}
	return nil
}

// overwrittenAt gives overwritten states and their next values bytes behind the arena, where the verifier follows them.
func (r *replay) overwrittenAt() {
	at := r.p.ArenaBytes
	for _, st := range r.p.recurrent {
		if !st.overwritten {
			continue
		}
		in, out := r.p.Main.Params[st.Param], r.p.Main.Results[st.Result]
		r.loc[in], r.loc[out] = arenaAt(at), arenaAt(at)
		r.put(at, r.expect[in])
		at += int64(st.bytes)
	}
}
