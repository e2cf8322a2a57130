package alias

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// IsPointer reports whether a value may own no memory: its bytes can be those of
// another value (a view, or a result of control flow).
func IsPointer(v *ssa.Value) bool {
	if v.Def == nil {
		return false
	}
	if ops.IsControl(v.Def) {
		return true
	}
	_, ok := WindowOf(v)
	return ok
}

// Window is the contiguous part of an operand that a result shows.
type Window struct {
	Of      *ssa.Value
	Operand int
	Offset  int64 // bytes from the operand's start
	Whole   bool  // the operand's bytes, all of them
	// Moving says how far after Offset the window begins, if that is known only
	// while running: it may be anywhere in the operand.
	Moving *ops.Moving
}

// WindowOf returns what a value is a window of. ok is false unless every used
// result of its node is one: then there is nothing to compute.
func WindowOf(v *ssa.Value) (w Window, ok bool) {
	if v.Def == nil {
		return w, false
	}
	aliases := ops.Aliases(v.Def)
	if len(aliases) == 0 || !v.Def.IsStatic() {
		return w, false
	}
	found := 0
	for _, a := range aliases {
		if a.Concat || v.Def.Output(a.Out) == nil {
			continue
		}
		found++
		if a.Out == v.DefIndex {
			w = Window{Of: v.Def.Input(a.In), Operand: a.In, Offset: a.Offset, Moving: a.Moving}
		}
	}
	used := 0
	for _, o := range v.Def.Out {
		if o != nil {
			used++
		}
	}
	if w.Of == nil || found != used {
		return w, false
	}
	n, ok1 := v.Type.ByteSize()
	m, ok2 := w.Of.Type.ByteSize()
	w.Whole = n == m && w.Offset == 0
	return w, ok1 && ok2 && w.Offset+int64(n) <= int64(m)
}

// HasParts reports whether some result of a graph or of its bodies is a window of
// part of an operand.
func HasParts(g *ssa.Graph) bool {
	found := false
	g.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			for _, v := range n.Out {
				if v != nil && !found {
					w, ok := WindowOf(v)
					found = ok && !w.Whole
				}
			}
		}
	})
	return found
}

// Shown follows views of whole values to the value that they show.
func Shown(v *ssa.Value) *ssa.Value {
	for {
		w, ok := WindowOf(v)
		if !ok || !w.Whole {
			return v
		}
		v = w.Of
	}
}

// Identical follows Identity nodes, of any type, to the value that they pass on.
func Identical(v *ssa.Value) *ssa.Value {
	for v.Def != nil && v.Def.Op == "Identity" && v.Def.Domain == "" {
		v = v.Def.In[0]
	}
	return v
}

// Part is an operand that its node copies whole to bytes [Offset, Offset+size) of a
// result: an operand of a concatenation.
type Part struct {
	In, Out int
	Offset  int64
}

// Parts lists the operands of a node that could be made inside its results, none
// unless all its types are static.
func Parts(n *ssa.Node) []Part {
	var out []Part
	for _, a := range ops.Aliases(n) {
		if a.Concat && n.Input(a.In) != nil && n.Output(a.Out) != nil {
			out = append(out, Part{a.In, a.Out, a.Offset})
		}
	}
	if len(out) > 0 && !n.IsStatic() {
		return nil
	}
	return out
}

// OverwritesAll reports whether result k of a node may be written over memory that
// operands show: each operand that does forms a pair with k.
func OverwritesAll(n *ssa.Node, k int, pairs []ops.Pair, shows func(operand int) bool) bool {
	for i := range n.In {
		if shows(i) && !slices.Contains(pairs, ops.Pair{In: i, Out: k}) {
			return false
		}
	}
	return true
}
