package loops

import (
	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Compact loops. Copies of nested bodies multiply: a loop of five copies inside four
// others like it would be laid out 3,125 times. A loop whose copies would take more
// than MaxSteps steps, and more than 64 for each step of what it holds, is compact: its
// body is laid out once, and each carried parameter has two slots of its own, used in
// turn. The result of an iteration is copied to the parameter's slot for the next one:
//
//	iteration   0          1          2
//	p in slot   A ◀ init   B ◀ q      A ◀ q       q, p: what p becomes
//
// Both slots are live in the whole body, so that all values can be copied one after the
// other, also where they swap. Nothing else of a compact body outlives an
// iteration: its values need one slot each. Loops are decided from the inside out,
// so the innermost ones, which run most often, copy nothing.

// copiedSlots is the number of slots of a parameter that is copied.
const copiedSlots = 2

// extent says how large the layout of a graph or a loop is.
type extent struct {
	steps int // in all copies
	once  int // if every body were laid out once
	loops int
}

func (e extent) plus(o extent) extent {
	return extent{e.steps + o.steps, e.once + o.once, e.loops + o.loops}
}

// mostCopies is up to how many copies of all it holds a loop may stand for, on average;
// mostLeafSteps is how many steps one without loops inside may have.
const (
	mostCopies    = 64
	mostLeafSteps = 1 << 16
)

// measure finds the extent of the loop, and makes it compact if that is too large.
func (r *Rotation) measure(anyOrder bool) (extent, error) {
	body, err := extentOf(r.Body, anyOrder)
	if err != nil {
		return extent{}, err
	}
	borders := len(r.Carries) + 2
	out := extent{loops: body.loops + 1, once: body.once + borders}
	limit := max(MaxSteps, mostCopies*out.once)
	if body.loops == 0 {
		limit = max(limit, mostLeafSteps)
	}
	if r.Copies()*(body.steps+borders) > limit {
		r.makeCompact()
	}
	out.steps = r.Copies() * (body.steps + borders)
	return out, nil
}

func extentOf(g *ssa.Graph, anyOrder bool) (extent, error) {
	out := extent{steps: len(g.Nodes), once: len(g.Nodes)}
	for _, n := range g.Nodes {
		if ops.IsLoop(n) {
			inner, err := of(n, anyOrder)
			if err != nil {
				return extent{}, err
			}
			out = out.plus(inner.extent)
			continue
		}
		for _, b := range n.Bodies {
			inner, err := extentOf(b, anyOrder)
			if err != nil {
				return extent{}, err
			}
			out = out.plus(inner)
		}
	}
	return out, nil
}

func (r *Rotation) makeCompact() {
	r.Compact, r.Prefix, r.Ring = true, 0, 1
	clear(r.period)
	clear(r.sticky)
	for _, c := range r.Carries {
		if r.Copied(c) {
			r.Ring, r.period[c.Param] = copiedSlots, copiedSlots
		}
	}
}

// Copied reports whether a carried value is copied to its parameter before each
// iteration.
func (r *Rotation) Copied(c alias.Carry) bool {
	bytes, ok := c.Param.Type.ByteSize()
	return r.Compact && ok && bytes > 0
}
