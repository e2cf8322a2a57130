package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A carried value of a loop is needed if its last state is read, or if
// the body needs its present state for anything needed:
//
//	         ┌────────────── body ─────────────┐
//	x0 ──▶ x ──▶ f ──▶ x'  ──┐                 │      x is dead when nothing reads
//	▲      │                 │  only to x again │      x_last and f(x) goes nowhere
//	└──────┴─────────────────┘                 │      but to x'
//	         └─────────────────────────────────┘
//
// The set is the least fixed point of that rule; everything outside it goes.
//
// Source: the marking of needed code in Cytron et al., Efficiently Computing Static
// Single Assignment Form and the Control Dependence Graph, 1991.

// loopParts is the common layout of Loop and Scan.
type loopParts struct {
	carriedLayout
	stacked int // body results stacked into node results, after the carried ones
	always  int // leading body results that are always needed (the condition of a Loop)
}

func loopOf(n *ssa.Node) (loopParts, bool) {
	if is(n, "Loop") {
		s, err := ops.LoopOf(n)
		return loopParts{carriedLayout{s.Body, s.Carried, 2, 2, 1}, s.Scans, 1}, err == nil
	}
	s, err := ops.ScanOf(n)
	return loopParts{carriedLayout{s.Body, s.States, 0, 0, 0}, s.Outs, 0}, err == nil
}

// trimLoop drops stacked results and carried values that no result needs and turns
// carried values that never change into captures.
func trimLoop(c *Context, n *ssa.Node) bool {
	l, ok := loopOf(n)
	if !ok {
		return false
	}
	padOut(n, l.count+l.stacked)
	done := c.trimStacked(n, &l)
	sweepBody(l.body)
	done = c.captureConstant(n, &l) || done
	if c.killIfUnread(n); !c.alive(n) { // only values it passed through were read
		return true
	}
	needed := c.neededCarried(n, l)
	for i := l.count - 1; i >= 0; i-- {
		if !needed[i] {
			c.dropCarried(n, l, i)
			l.count--
			done = true
		}
	}
	c.nameResults(n)
	if is(n, "Scan") {
		done = c.trimScanInputs(n) || done
	}
	return done
}

// trimStacked drops stacked results that nothing reads.
func (c *Context) trimStacked(n *ssa.Node, l *loopParts) (done bool) {
	for k := l.stacked - 1; k >= 0; k-- {
		if c.unreadResult(n, l.count+k) {
			c.removeStacked(n, *l, k)
			l.stacked--
			done = true
		}
	}
	return done
}

// captureConstant turns carried values that no iteration changes into captures.
func (c *Context) captureConstant(n *ssa.Node, l *loopParts) (done bool) {
	for i := l.count - 1; i >= 0; i-- {
		if l.body.Results[l.result+i] != l.body.Params[l.param+i] || n.In[l.in+i] == nil {
			continue
		}
		if n.Out[i] != nil {
			c.replaceKeeping(n, n.Out[i], n.In[l.in+i])
		}
		carriedToCapture(n, l.carriedLayout, i)
		l.count--
		done = true
	}
	return done
}

// replaceKeeping is replace for a node that is being changed and must not be
// killed on the way.
func (c *Context) replaceKeeping(n *ssa.Node, old, v *ssa.Value) {
	c.dead[n] = true
	c.replace(old, v)
	delete(c.dead, n)
}

// nameResults gives absent results in the middle of the list a value again:
// results of loops can not be left out.
func (c *Context) nameResults(n *ssa.Node) {
	for i, v := range n.Out {
		if v == nil {
			w := c.graph.AddOutput(n, c.fresh("unused"))
			n.Out = n.Out[:len(n.Out)-1]
			n.Out[i], w.DefIndex = w, i
		}
	}
}

// removeStacked drops stacked result k and, for a Scan, its attributes.
func (c *Context) removeStacked(n *ssa.Node, l loopParts, k int) {
	i := l.count + k
	setOut(n, slices.Delete(slices.Clone(n.Out), i, i+1))
	l.body.Results = slices.Delete(l.body.Results, l.result+i, l.result+i+1)
	dropListEntry(n, "scan_output_axes", k)
	dropListEntry(n, "scan_output_directions", k)
}

func dropListEntry(n *ssa.Node, attr string, k int) {
	if list := ops.Ints(n, attr); k < len(list) {
		n.SetAttr(ssa.IntsAttr(attr, slices.Delete(slices.Clone(list), k, k+1)...))
	}
}

// neededCarried computes the fixed point described at the head of the file.
func (c *Context) neededCarried(n *ssa.Node, l loopParts) []bool {
	needed := make([]bool, l.count)
	live := make([]bool, l.body.NumValues())
	markLive(live, l.body.Results[:l.always]...)
	markLive(live, l.body.Results[l.result+l.count:]...)
	for _, m := range l.body.Nodes {
		if !removable(m) {
			markLive(live, m.In...)
		}
	}
	for changed := true; changed; {
		changed = false
		for i := range needed {
			if !needed[i] && (!c.unreadResult(n, i) || live[l.body.Params[l.param+i].ID]) {
				needed[i], changed = true, true
				markLive(live, l.body.Results[l.result+i])
			}
		}
	}
	return needed
}

// markLive marks values and everything they are computed from.
func markLive(live []bool, vs ...*ssa.Value) {
	for work := slices.Clone(vs); len(work) > 0; {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		if v == nil || live[v.ID] {
			continue
		}
		live[v.ID] = true
		if v.Def != nil {
			work = append(work, v.Def.In...)
		}
	}
}

// dropCarried removes a carried value that is not needed, and what computes it.
func (c *Context) dropCarried(n *ssa.Node, l loopParts, i int) {
	p := l.body.Params[l.param+i]
	v := n.In[l.in+i]
	// The readers of the parameter are dead, but may form a cycle through other dead
	// carried values. With the parameter as result, the nodes can be swept.
	l.body.Results[l.result+i] = p
	sweepBody(l.body)
	if len(p.Uses()) > 0 {
		// read by the computation of another dead value, which is dropped later: the
		// parameter stays as a capture until then
		carriedToCapture(n, l.carriedLayout, i)
		return
	}
	removeCarried(n, l.carriedLayout, i)
	if v != nil {
		c.killIfUnread(v.Def)
	}
}

// trimScanInputs drops scanned operands whose slices no iteration reads. One
// stays: it says how many iterations there are.
func (c *Context) trimScanInputs(n *ssa.Node) (done bool) {
	s, err := ops.ScanOf(n)
	if err != nil {
		return false
	}
	for k := s.Ins - 1; k >= 0 && s.Ins > 1; k-- {
		p := s.Body.Params[s.States+k]
		if isRead(s.Body, p) {
			continue
		}
		at := s.States + k
		v := n.In[at]
		n.SetInputs(slices.Delete(slices.Clone(n.In), at, at+1))
		s.Body.Params = slices.Delete(s.Body.Params, at, at+1)
		dropListEntry(n, "scan_input_axes", k)
		dropListEntry(n, "scan_input_directions", k)
		s.Ins--
		n.SetAttr(ssa.IntAttr("num_scan_inputs", int64(s.Ins)))
		if v != nil {
			c.killIfUnread(v.Def)
		}
		done = true
	}
	return done
}
