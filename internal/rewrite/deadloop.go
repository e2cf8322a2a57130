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
	done = c.dropCarried(n, &l) || done
	c.nameResults(n)
	if is(n, "Scan") {
		done = c.trimScanInputs(n) || done
	}
	return done
}

// trimStacked drops stacked results that nothing reads and, for a Scan, their attributes.
func (c *Context) trimStacked(n *ssa.Node, l *loopParts) (done bool) {
	drop := make([]bool, l.stacked)
	for k := range drop {
		drop[k] = c.unreadResult(n, l.count+k)
		done = done || drop[k]
	}
	if !done {
		return false
	}
	setOut(n, leavingOut(n.Out, l.count, drop))
	results := len(l.body.Results)
	l.body.Results = leavingOut(l.body.Results, l.result+l.count, drop)
	l.stacked -= results - len(l.body.Results)
	dropListEntries(n, "scan_output_axes", drop)
	dropListEntries(n, "scan_output_directions", drop)
	return true
}

// captureConstant turns carried values that no iteration changes into captures.
func (c *Context) captureConstant(n *ssa.Node, l *loopParts) (done bool) {
	turn, left := make([]bool, l.count), 0
	for i := l.count - 1; i >= 0; i-- {
		if turn[i] = l.body.Results[l.result+i] == l.body.Params[l.param+i] && n.In[l.in+i] != nil; !turn[i] {
			left++
			continue
		}
		if n.Out[i] != nil {
			c.replaceKeeping(n, n.Out[i], n.In[l.in+i])
		}
	}
	if left == l.count {
		return false
	}
	carriedToCaptures(n, l.carriedLayout, turn)
	l.count = left
	return true
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

// dropListEntries takes the entries for which drop is set out of a list attribute, which may be shorter.
func dropListEntries(n *ssa.Node, attr string, drop []bool) {
	a := n.Attr(attr)
	if a == nil {
		return
	}
	var kept []int64
	for k, v := range a.Ints {
		if k >= len(drop) || !drop[k] {
			kept = append(kept, v)
		}
	}
	a.Ints = kept
}

// neededCarried computes the fixed point described at the head of the file: what is live is what the needed results of the
// body are computed from, and a carried value whose parameter is live is needed.
func (c *Context) neededCarried(n *ssa.Node, l loopParts) []bool {
	results := l.body.Results[l.result:][:l.count]
	work := slices.Concat(l.body.Results[:l.always], l.body.Results[l.result+l.count:])
	for _, m := range l.body.Nodes {
		if !removable(m) {
			work = append(work, m.In...)
		}
	}
	needed := make([]bool, l.count)
	entry := make(map[*ssa.Value]int, l.count) // the carried value of a parameter
	for i := range needed {
		entry[l.body.Params[l.param+i]] = i
		if needed[i] = !c.unreadResult(n, i); needed[i] {
			work = append(work, results[i])
		}
	}
	for live := make([]bool, l.body.NumValues()); len(work) > 0; {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		if v == nil || live[v.ID] {
			continue
		}
		live[v.ID] = true
		if v.Def != nil {
			work = append(work, v.Def.In...)
		} else if i, carried := entry[v]; carried && !needed[i] {
			needed[i] = true
			work = append(work, results[i])
		}
	}
	return needed
}

// dropCarried removes the carried values that are not needed, and what computes them.
func (c *Context) dropCarried(n *ssa.Node, l *loopParts) bool {
	needed := c.neededCarried(n, *l)
	if !slices.Contains(needed, false) {
		return false
	}
	// The readers of the parameters are dead, but may form cycles through other carried values. With the parameters as results,
	// the nodes can be swept; what is left of their readers would be live.
	results, drop := slices.Clone(l.body.Results), make([]bool, l.count)
	var gone []*ssa.Value
	for i := l.count - 1; i >= 0; i-- {
		if drop[i] = !needed[i]; drop[i] {
			results[l.result+i] = l.body.Params[l.param+i]
			gone = append(gone, n.In[l.in+i])
		}
	}
	l.body.Results = results
	sweepBody(l.body)
	removeCarried(n, l.carriedLayout, drop)
	l.count -= len(gone)
	for _, v := range gone {
		if v != nil {
			c.killIfUnread(v.Def)
		}
	}
	return true
}

// trimScanInputs drops scanned operands whose slices no iteration reads. One
// stays: it says how many iterations there are.
func (c *Context) trimScanInputs(n *ssa.Node) bool {
	s, err := ops.ScanOf(n)
	if err != nil {
		return false
	}
	drop, left := make([]bool, s.Ins), s.Ins
	var gone []*ssa.Value
	for k := s.Ins - 1; k >= 0 && left > 1; k-- {
		if drop[k] = !isRead(s.Body, s.Body.Params[s.States+k]); drop[k] {
			gone = append(gone, n.In[s.States+k])
			left--
		}
	}
	if len(gone) == 0 {
		return false
	}
	n.SetInputs(leavingOut(n.In, s.States, drop))
	s.Body.Params = leavingOut(s.Body.Params, s.States, drop)
	dropListEntries(n, "scan_input_axes", drop)
	dropListEntries(n, "scan_input_directions", drop)
	n.SetAttr(ssa.IntAttr("num_scan_inputs", int64(left)))
	for _, v := range gone {
		if v != nil {
			c.killIfUnread(v.Def)
		}
	}
	return true
}
