package liveness

import (
	"cmp"
	"context"
	"fmt"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// VarKind says whether a variable owns bytes.
type VarKind uint8

// The kinds of variables.
const (
	Outside VarKind = iota
	Block
	Pointer
)

// None is the variable of absent operands and constants.
const None = -1

// Var is one variable of the timeline.
type Var struct {
	Kind    VarKind
	Value   *ssa.Value // what it holds; nil for a workspace
	Place   int        // which of the value's places (see Places); 0 if there is one
	Bytes   int64      // of a block
	Sources []int      // of a pointer: the variables its bytes may belong to
	Phi     bool       // of a pointer: merges control flow, so its sources hold it in turn
}

// Step is one time point: a node in one copy of its graph, or a border of a loop
// or branch (then In holds what is read there, Out what comes to be).
type Step struct {
	Node    *ssa.Node
	Border  bool
	In, Out []int // variables by operand and result position of Node; None if absent
	Scratch int   // workspace block alive at this step only, or None
}

// Layout is a program laid out as steps and variables: with times, as a
// [Timeline], or without, as a [Concurrent].
type Layout struct {
	Graph *ssa.Graph
	Steps []Step
	Vars  []Var

	roots  [][]int // by variable
	shown  []int   // by variable, see Shown
	places slab.Table[*ssa.Value, *Places]
	loops  map[*ssa.Node]*loops.Rotation
}

// Timeline is a program laid out in time.
type Timeline struct {
	Layout
	// Live is where each variable's bytes are needed: its own live range and that of
	// every pointer to it. Filled by Build.
	Live []Set
	// Own is the live range of the variable itself, pointers to it not counted.
	Own []Set
}

// Places lists the variables of one value over the copies of the loops around
// it: Vars[t0 mod Radix[0], t1 mod Radix[1], …] in row-major order, outermost
// loop first.
type Places struct {
	Radix []int
	Vars  []int
}

// Options changes what the timeline contains.
type Options struct {
	// Scratch returns the workspace bytes of a node's kernel; nil means none.
	Scratch func(n *ssa.Node) int64
	// CopyViews lays views out as blocks of their own.
	CopyViews bool
	// Windows lets parts of a tensor (slices, splits, a gathered slice) be pointers too, not only
	// whole views: no copy, but the whole tensor stays.
	Windows bool
	// AnyOrder gives carried values of loops as many places as they need whatever
	// the order of the body; see [loops.OfAnyOrder].
	AnyOrder bool
	// Outside names results of known size that lie in memory of the caller's, so that the plan has
	// no block for them; nil means none. Their nodes write every byte, and no other node reads them.
	Outside func(v *ssa.Value) bool
}

// valueBytes is about how many bytes a timeline takes for a value outside of loops.
const valueBytes = 448

// Build lays out the graph, whose types must be inferred, and solves liveness. It fails
// with the cause of the context if that ends before.
func Build(ctx context.Context, g *ssa.Graph, o Options) (_ *Timeline, err error) {
	defer rescue.Into(&err)
	t := &Timeline{Layout: Layout{Graph: g}}
	memory := ndarray.BudgetOf(ctx)
	if err := memory.AskContext(ctx, "the steps of the nodes", valueBytes*int64(g.NumValues())); err != nil {
		return nil, err
	}
	b := newBuilder(ctx, &t.Layout, o, nil)
	if err := b.main(g); err != nil {
		return nil, err
	}
	if err := cmp.Or(memory.CheckContext(ctx, "the steps of loops"), t.findRoots(ctx)); err != nil {
		return nil, err
	}
	if err := cmp.Or(t.solve(ctx, b.arm), memory.CheckContext(ctx, "the live ranges")); err != nil {
		return nil, err
	}
	if err := t.keepPinned(ctx, b.pins); err != nil {
		return nil, err
	}
	return t, nil
}

// keepPinned lets blocks live where they are pinned. The loops of a row pin the same blocks one after the other, so what is pinned is joined
// for each block before its live range is.
func (t *Timeline) keepPinned(ctx context.Context, pins []pin) error {
	if len(pins) == 0 {
		return nil
	}
	pinned := make([]Set, len(t.Vars))
	for _, p := range pins {
		if err := ctx.Err(); err != nil {
			return err
		}
		over := Set{p.over}
		for _, r := range t.Roots(p.v) {
			pinned[r] = pinned[r].Union(over)
		}
	}
	for r, over := range pinned {
		if len(over) > 0 {
			t.Own[r], t.Live[r] = t.Own[r].Union(over), t.Live[r].Union(over)
		}
	}
	return nil
}

// PlacesOf returns the places of a value, nil if it owns none.
func (t *Layout) PlacesOf(v *ssa.Value) *Places {
	if v == nil {
		return nil
	}
	p, _ := t.places.Get(v.ID, v)
	return p
}

// Rotation returns the analysis of a Loop or Scan node met while building.
func (t *Layout) Rotation(n *ssa.Node) *loops.Rotation { return t.loops[n] }

// String prints a variable for messages: the value's name and place.
func (t *Layout) String(v int) string {
	if v == None {
		return "-"
	}
	x := t.Vars[v]
	if x.Value == nil {
		return fmt.Sprintf("workspace#%d", v)
	}
	if x.Place == 0 {
		return x.Value.Name
	}
	return fmt.Sprintf("%s@%d", x.Value.Name, x.Place)
}
