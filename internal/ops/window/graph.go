package window

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Windows in groups. A group that copies a window is all that is needed to read one, and groups
// behind it read the window where it lies instead; likewise a group writes its result into a window:
//
//	before   w = {Copy}(x) window of x    y = {Mul, Add}(w, b)    z = {Copy}(y) into a window
//	after                                 z = {Mul, Add}(x window, b) into the window
//
// What groups do not read (an operand of a product) stays a copy.

// View adds a group that copies a window of a tensor to a graph.
func View(g *ssa.Graph, of *ssa.Value, w *Window) *ssa.Value {
	return copyGroup(g, of, &Windows{Operands: []*Window{w}, Results: []*Window{nil}})
}

// Copied adds a group that copies a tensor to a graph.
func Copied(g *ssa.Graph, of *ssa.Value) *ssa.Value {
	return copyGroup(g, of, &Windows{Operands: []*Window{nil}, Results: []*Window{nil}})
}

// copyGroup adds a group that copies its operand.
func copyGroup(g *ssa.Graph, of *ssa.Value, w *Windows) *ssa.Value {
	p := &tile.Program{Operands: []ndarray.DType{of.Type.DType}}
	p.Store(p.Add(tile.Instr{Op: tile.Copy, DType: of.Type.DType, Args: []tile.Ref{0}}))
	n := g.NewNode(fused.Name, []*ssa.Value{of}, 1, fused.Attr(p))
	n.Domain = fused.Domain
	n.SetAttr(Attr(w))
	return n.Out[0]
}

// inferred makes the type of a value known.
func inferred(v *ssa.Value) error {
	if v.Def == nil || v.Type.Kind != ssa.KindUnknown {
		return nil
	}
	return ops.Infer(v.Def)
}

// copied is the window that a value is a copy of.
func copied(v *ssa.Value) (of *ssa.Value, w *Window) {
	if v == nil || v.Def == nil || !fused.Is(v.Def) {
		return nil, nil
	}
	p, err := fused.Of(v.Def)
	if err != nil || len(p.Instrs) != 1 || p.Instrs[0].Op != tile.Copy {
		return nil, nil
	}
	if all := Of(v.Def); all.Results[0] == nil {
		return v.Def.In[0], all.Operands[0]
	}
	return nil, nil
}

// ReadWindows lets the groups of a graph read windows where they lie, and drops copies that
// nothing reads any more.
func ReadWindows(g *ssa.Graph) {
	for _, n := range g.Nodes {
		for i := range n.In {
			if !fused.Is(n) {
				break
			}
			of, w := copied(n.In[i])
			if w == nil || Of(n).Operands[i] != nil {
				continue
			}
			old := n.In[i]
			change(n, func(all *Windows) {
				n.SetInput(i, of)
				all.Operands[i] = w
			}, func() { n.SetInput(i, old) })
		}
	}
	dropUnread(g)
}

// change sets windows of a node, and takes that back where rows would be more than one loop.
func change(n *ssa.Node, set func(*Windows), undo func()) bool {
	all := Of(n)
	all = &Windows{Operands: slices.Clone(all.Operands), Results: slices.Clone(all.Results)}
	before := n.Attr("windows")
	if before != nil {
		kept := *before
		before = &kept
	}
	set(all)
	n.SetAttr(Attr(all))
	p, err := fused.Of(n)
	if err == nil {
		_, _, _, err = all.Loops(n, p)
	}
	if err == nil {
		return true
	}
	undo()
	if n.DropAttr("windows"); before != nil {
		n.SetAttr(*before)
	}
	return false
}

// dropUnread removes groups without readers.
func dropUnread(g *ssa.Graph) {
	for removed := 1; removed > 0; {
		removed = g.RemoveNodes(func(n *ssa.Node) bool {
			return fused.Is(n) && !slices.ContainsFunc(n.Out, func(v *ssa.Value) bool { return len(v.Uses()) > 0 || g.IsResult(v) })
		})
	}
}

// Place makes a result of the graph one that a kernel writes into memory of the caller's, into a
// window of it unless that is nil: by the group that computes it, or else by one that copies.
// isPlaceable says whether the node of the result may write there.
func Place(g *ssa.Graph, result int, w *Window, isPlaceable func(result int) bool) error {
	v := g.Results[result]
	switch {
	case w == nil && isPlaceable(result):
		return nil
	case w != nil && isPlaceable(result) && fused.Is(v.Def):
		set := func(all *Windows) { all.Results[v.DefIndex] = w }
		if change(v.Def, set, func() {}) {
			return ops.Infer(v.Def)
		}
	}
	if err := inferred(v); err != nil {
		return err
	}
	c := copyGroup(g, v, &Windows{Operands: []*Window{nil}, Results: []*Window{w}})
	g.Results[result] = c
	return ops.Infer(c.Def)
}
