package liveness

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/poset"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ssa"
)

// Concurrent is a program laid out without an order: its steps and what each must
// wait for. What is laid out so holds for every schedule, and for schedules that
// run independent nodes at the same time.
//
// Bodies of control flow stand between two borders of their node, which waits for
// all its operands:
//
//	If     enter ─▶ then … ─▶ end ─▶ else … ─▶ end ─▶ leave
//	       (only one of the branches runs, so nothing is lost by the sequence)
//	Loop   enter ─▶ head ─▶ body … ─▶ tail ─▶ leave
//
// A loop's body stands there once, for all its iterations, which run one after the
// other: head and tail name what crosses from one to the next. Captured values and
// slices to come are read at the tail, since the next iteration may read them; a
// parameter begins at the head and what becomes its next value is read at the
// tail. Memory carried from one iteration to the next is therefore live from head to tail,
// in as many places
// as any order of the body needs ([loops.OfAnyOrder]).
//
// As in a timeline a value is a block, a pointer or outside, and a block may hold
// the contents of several variables in turn: its own, and those of parameters and
// merged results that may point to it.
type Concurrent struct {
	Layout // Live sets have no meaning here: see Touches

	Deps  *poset.Order
	Edges [][2]int // the dependences that Deps is made of; some more than once
	// Touches are the steps that name a variable, ascending; views not counted.
	Touches [][]int
	// Radix says, for a block, in how many places each loop around it turns it,
	// outermost first: 1 where it is not carried.
	Radix [][]int

	heldBy   [][]int // by block: the heads of the loops that hand it on
	sticky   []bool  // by block: its place is picked at run time
	branch   []int   // by variable: index of the innermost branch it is made in, or None
	branches []inBranch
}

// inBranch is one branch of one If.
type inBranch struct {
	enter int // the step that enters the If
	body  int
	outer int // index of the branch around it, or None
}

// addVar notes where a new variable is made: in how many loops, in which branch.
func (c *Concurrent) addVar(depth, branch int) {
	c.branch = append(c.branch, branch)
	c.Radix = append(c.Radix, slices.Repeat([]int{1}, depth))
	c.heldBy = append(c.heldBy, nil)
	c.sticky = append(c.sticky, false)
}

// Places is in how many places a block lies.
func (c *Concurrent) Places(block int) int {
	n := 1
	for _, k := range c.Radix[block] {
		n *= k
	}
	return n
}

// Exclusive reports whether two blocks never hold anything at once: they are made in
// different branches of one If, and the same loops, if any, carry them in the same
// places.
func (c *Concurrent) Exclusive(a, b int) bool {
	if c.sticky[a] != c.sticky[b] || !slices.Equal(c.Radix[a], c.Radix[b]) || !slices.Equal(c.heldBy[a], c.heldBy[b]) {
		return false
	}
	for i := c.branch[a]; i != None; i = c.branches[i].outer {
		for k := c.branch[b]; k != None; k = c.branches[k].outer {
			if c.branches[i].enter == c.branches[k].enter && c.branches[i].body != c.branches[k].body {
				return true
			}
		}
	}
	return false
}

// BuildConcurrent lays out a graph, whose types must be inferred. AnyOrder is
// implied. Graphs of more than [poset.Max] steps are an error.
func BuildConcurrent(ctx context.Context, g *ssa.Graph, o Options) (_ *Concurrent, err error) {
	defer rescue.Into(&err)
	o.AnyOrder = true
	c := &Concurrent{Layout: Layout{Graph: g}}
	if err := newBuilder(ctx, &c.Layout, o, c).main(g); err != nil {
		return nil, err
	}
	if c.Deps, err = poset.New(len(c.Steps), c.Edges); err != nil {
		return nil, err
	}
	if err := c.findRoots(ctx); err != nil {
		return nil, err
	}
	c.Touches = make([][]int, len(c.Vars))
	for at, s := range c.Steps {
		for _, v := range slices.Concat(s.In, s.Out, []int{s.Scratch}) {
			if v == None {
				continue
			}
			if t := c.Touches[v]; len(t) == 0 || t[len(t)-1] != at {
				c.Touches[v] = append(t, at)
			}
		}
	}
	return c, nil
}
