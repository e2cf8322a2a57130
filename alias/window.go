package alias

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// IsPointer reports whether a value may own no memory: its bytes can be those of
// another value (a view, or a result of control flow).
func IsPointer(v *ssa.Value) bool { return new(Views).IsPointer(v) }

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
func WindowOf(v *ssa.Value) (w Window, ok bool) { return new(Views).WindowOf(v) }

// Views answers for one value after the other what [WindowOf] and [IsPointer] do. It looks at a node once
// for all its results, if they are asked for in a row, and expects that types do not change meanwhile. The zero value
// is ready; it is for one goroutine.
type Views struct {
	node    *ssa.Node
	windows []Window // by result, without Of where there is none; nil if some used result of the node is none
}

// IsPointer is the function of this name.
func (s *Views) IsPointer(v *ssa.Value) bool {
	if v.Def == nil {
		return false
	}
	if ops.IsControl(v.Def) {
		return true
	}
	_, ok := s.WindowOf(v)
	return ok
}

// WindowOf is the function of this name.
func (s *Views) WindowOf(v *ssa.Value) (w Window, ok bool) {
	if v.Def == nil {
		return w, false
	}
	if s.node != v.Def {
		s.node, s.windows = v.Def, windowsOf(v.Def)
	}
	if s.windows == nil {
		return w, false
	}
	if w = s.windows[v.DefIndex]; w.Of == nil {
		return w, false
	}
	n, ok1 := v.Type.ByteSize()
	m, ok2 := w.Of.Type.ByteSize()
	w.Whole = n == m && w.Offset == 0
	return w, ok1 && ok2 && w.Offset+int64(n) <= int64(m)
}

// windowsOf lists the windows that a node's results are, nil if some used result is none.
func windowsOf(n *ssa.Node) []Window {
	aliases := ops.Aliases(n)
	if len(aliases) == 0 || !n.IsStatic() {
		return nil
	}
	out := make([]Window, len(n.Out))
	missing := 0
	for _, v := range n.Out {
		if v != nil {
			missing++
		}
	}
	for _, a := range aliases {
		if !a.Concat && n.Output(a.Out) != nil {
			missing--
			out[a.Out] = Window{Of: n.Input(a.In), Operand: a.In, Offset: a.Offset, Moving: a.Moving}
		}
	}
	if missing != 0 {
		return nil
	}
	return out
}

// HasParts reports whether some result of a graph or of its bodies is a window of
// part of an operand.
func HasParts(g *ssa.Graph) bool {
	found := false
	var views Views
	g.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			for _, v := range n.Out {
				if v != nil && !found {
					w, ok := views.WindowOf(v)
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

// Unpaired lists the operands of a node that result k may not be written over. Memory that one of them shows can
// not be the result's, whatever other operands show it.
func Unpaired(n *ssa.Node, k int, pairs []ops.Pair) (operands []int) {
	paired := make([]bool, len(n.In))
	for _, p := range pairs {
		if p.Out == k && p.In < len(paired) {
			paired[p.In] = true
		}
	}
	for i, v := range n.In {
		if v != nil && !paired[i] {
			operands = append(operands, i)
		}
	}
	return operands
}
