package program

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// States that a run overwrites. A state whose next value is made by the last node that reads the state, element by element, needs
// one place instead of two: the node writes over what it reads.
//
//	w ──┬─ MatMul ── … ── slope ────┐
//	    ├─ MatMul (backward pass)   ▼
//	    └────────────────────── w - r·slope ──▶ the place of w
//
// Nodes that make next values are moved behind the last reader for this. The layout has no block for such a result (it lies outside of
// the arena, as placed results do), and the verifier gives a state and its next value the same bytes, behind the arena, so that a
// read of what is overwritten is found as in the arena. Other states keep two places.
//
// The price is that a run can not be taken back once it has begun to overwrite: from then on it ignores its context, and an error
// leaves the states torn, which later runs refuse until they are set again.

// TornError is the error of runs whose session holds a state that a failed run or reset has partly overwritten, and of reading that.
type TornError struct{ State string }

// Error names the state.
func (e *TornError) Error() string {
	return fmt.Sprintf("state %q was partly overwritten by a run or reset that failed: set all states again, or reset the session", e.State)
}

// overwrites finds the states that are overwritten, by their next values, and orders the graph for them.
func (c *compiler) overwrites(g *ssa.Graph) {
	o := positionsOf(g)
	for i, st := range c.opts.States {
		if st.Overwrite != nil && !c.opts.ParallelSafe && !c.opts.placed && c.ctx.Err() == nil && st.Overwrite(o, st) {
			c.over[g.Results[st.Result]] = i
		}
	}
}

// Positions are where nodes stand in a graph, and how often values are among its results.
type Positions struct {
	graph   *ssa.Graph
	of      []int // by id of a node
	results map[*ssa.Value]int
	decided []overwriter
}

// overwriter is a node that writes over a state, and the nodes that read the state before.
type overwriter struct {
	by      *ssa.Node
	readers map[*ssa.Node]bool
}

func positionsOf(g *ssa.Graph) *Positions {
	o := &Positions{graph: g, of: make([]int, g.NumNodeIDs()), results: make(map[*ssa.Value]int, len(g.Results))}
	for i, n := range g.Nodes {
		o.of[n.ID] = i
	}
	for _, r := range g.Results {
		o.results[r]++
	}
	return o
}

// CanOverwrite reports whether the next value of a state is made where the state lies, after its node was moved behind the other
// readers of the state, if it had to be. Only programs that ask for it link it.
func CanOverwrite(o *Positions, st State) bool {
	p, next := o.graph.Params[st.Param], o.graph.Results[st.Result]
	n := next.Def
	if _, sized := next.Type.ByteSize(); n == nil || !sized || ops.IsControl(n) || len(ops.Aliases(n)) > 0 || !ops.SameLayout(p.Type, next.Type) {
		return false
	}
	last, readers := -1, map[*ssa.Node]bool{}
	shown := shownBy(p, n, func(m *ssa.Node) { last, readers[m] = max(last, o.of[m.ID]), true })
	if o.leave(shown) > 0 || o.leave(shownBy(next, nil, nil)) > 1 {
		return false
	}
	for i, v := range n.In {
		if shown[v] && (v != p || !slices.Contains(ops.InPlacePairs(n), ops.Pair{In: i, Out: next.DefIndex})) {
			return false
		}
	}
	if !o.move(n, last) {
		return false
	}
	o.decided = append(o.decided, overwriter{n, readers})
	return true
}

// leave is how many results are among some values.
func (o *Positions) leave(values map[*ssa.Value]bool) (count int) {
	for v := range values {
		count += o.results[v]
	}
	return count
}

// move puts a node behind the one at a position, if it is not there already, unless a node in between reads a result of it, or
// writes over a state that it reads.
func (o *Positions) move(n *ssa.Node, last int) bool {
	at, nodes := o.of[n.ID], o.graph.Nodes
	if last <= at {
		return true
	}
	for _, v := range n.Out {
		if v != nil && slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool { return o.of[u.Node.ID] <= last }) {
			return false
		}
	}
	for _, d := range o.decided {
		if w := o.of[d.by.ID]; d.readers[n] && at < w && w <= last {
			return false
		}
	}
	copy(nodes[at:last], nodes[at+1:last+1])
	nodes[last] = n
	for i := at; i <= last; i++ {
		o.of[nodes[i].ID] = i
	}
	return true
}

// shownBy are the values that may show the bytes of a value, itself among them. It tells of each node but one that reads some of them.
func shownBy(of *ssa.Value, but *ssa.Node, reader func(*ssa.Node)) map[*ssa.Value]bool {
	shown, queue := map[*ssa.Value]bool{of: true}, []*ssa.Value{of}
	for len(queue) > 0 {
		v := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, u := range v.Uses() {
			n := u.Node
			if n == but {
				continue
			}
			if reader != nil {
				reader(n)
			}
			if !passesOn(n, shown) && len(ops.Aliases(n)) == 0 {
				continue
			}
			for _, y := range n.Out {
				if y != nil && !shown[y] {
					shown[y] = true
					queue = append(queue, y)
				}
			}
		}
	}
	return shown
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
			inside := shownBy(body.Params[len(body.Params)-n.Captures+i-first], nil, nil)
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

// commit lets a run go on to its end whatever its context says. What that carries stays for those who may ask for it.
func (s *Session) commit() {
	within := context.Background()
	if s.watched || s.p.callsBack {
		within = context.WithoutCancel(s.ctx)
	}
	s.done, s.ctx, s.committed = nil, within, true
	for i := range s.calls {
		s.calls[i].Ctx = s.ctx
	}
}

// tear marks the states that a run has begun to overwrite which failed, or whose goroutine ended.
func (s *Session) tear() {
	for i := range s.states {
		if s.p.recurrent[i].overwritten {
			s.states[i].torn = true
		}
	}
	s.committed = false
}

// checkTorn refuses to run on states that are torn, unless they are given.
func (s *Session) checkTorn(inputs []ndarray.Value) error {
	for i := range s.states {
		if s.states[i].torn && inputs[s.p.recurrent[i].Param] == nil {
			return s.tornError(i)
		}
	}
	return nil
}

// tornError is the error of state i, which is torn.
func (s *Session) tornError(i int) error {
	return &TornError{s.p.Slots[s.p.Main.Params[s.p.recurrent[i].Param]].Value.Name}
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
