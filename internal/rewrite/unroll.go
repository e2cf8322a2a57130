package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Limits of unrolling: iterations of one loop, and nodes it may become.
const (
	maxUnroll      = 64
	maxUnrollNodes = 10_000
)

// Unroll writes out loops whose number of iterations is known, if Options.Unroll
// asks for it: the body's nodes once per iteration, stacked results joined by a
// concatenation. For runtimes that are slow at loops; berth itself is not.
//
//	Loop(3, x) { y = f(x); x <= y; stack y }
//	   ->  y0 = f(x), y1 = f(y0), y2 = f(y1);  stack = Concat(y0, y1, y2)
var Unroll = &Pass{
	Name: "unroll", Doc: "Loop of a known number of iterations -> the body's nodes, once per iteration",
	rules: []rule{{"Loop of n iterations -> n times its body", named("Loop"), unrollLoop}},
}

func unrollLoop(c *Context, n *ssa.Node) bool {
	if !c.opts.Unroll || !pure(n) { // each copy of a random node would begin with the same seed
		return false
	}
	s, err := ops.LoopOf(n)
	if err != nil {
		c.fail(err)
		return false
	}
	trips, known := s.Trips(n).Const()
	if !known || trips < 2 || trips > maxUnroll || int(trips)*Count(s.Body).Nodes > maxUnrollNodes {
		return false
	}
	cond := c.condition(n)
	carried := slices.Clone(n.In[2 : 2+s.Carried])
	stacks := make([][]*ssa.Value, s.Scans)
	for t := range trips {
		body, _ := s.Body.Clone()
		args := append([]*ssa.Value{c.constant("iter", ssa.ScalarConst(t)), cond}, carried...)
		out := c.splice(n, body, append(args, n.Captured()...))
		cond, carried = out[0], slices.Clone(out[1:1+s.Carried])
		for k, v := range out[1+s.Carried:] {
			stacks[k] = append(stacks[k], v)
		}
	}
	c.joinStacks(n, carried, stacks)
	return true
}

// joinStacks substitutes the results of an unrolled loop: the last carried
// values, and the slices of each stack joined along a new first axis.
func (c *Context) joinStacks(n *ssa.Node, results []*ssa.Value, stacks [][]*ssa.Value) {
	for _, stack := range stacks {
		i := len(results)
		results = append(results, nil)
		if c.unreadResult(n, i) {
			continue
		}
		axes := c.constant("axes", ssa.Int64s(0))
		var parts []*ssa.Value
		for _, v := range stack {
			parts = append(parts, c.op(n, n.Out[i].Name, "Unsqueeze", []*ssa.Value{v, axes}))
		}
		results[i] = c.op(n, n.Out[i].Name, "Concat", parts, ssa.IntAttr("axis", 0))
	}
	c.substitute(n, results)
}
