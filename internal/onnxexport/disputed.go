package onnxexport

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Lengths that onnx infers otherwise (ops.Facts.Disputed). A file that declares the lengths
// of a run is refused by onnx.checker, and one that declares what onnx infers is wrong, so no
// number is written for what depends on such a node: declared names stay, the rest is open.
//
//	x ─▶ MaxPool (3 run, onnx infers 4) ─▶ Relu ─▶ y: [1, 1, ?]

// disputed lists the results of disputed nodes and all that is computed from them. Where a
// node with bodies reads or contains such a value, everything in its bodies counts.
func disputed(ctx context.Context, g *ssa.Graph) map[*ssa.Value]bool {
	open := map[*ssa.Value]bool{}
	for _, n := range g.Nodes {
		if ctx.Err() != nil {
			return open
		}
		if !slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return open[v] }) && !isDisputed(n) {
			continue
		}
		for _, v := range n.Out {
			open[v] = true
		}
		for _, b := range n.Bodies {
			b.Walk(func(inner *ssa.Graph) {
				for _, v := range inner.Values() {
					open[v] = true
				}
			})
		}
	}
	delete(open, nil)
	return open
}

// isDisputed reports a disputed node, or one that contains one.
func isDisputed(n *ssa.Node) bool {
	if o := ops.Of(n); o != nil && o.Facts.Disputed != nil && o.Facts.Disputed(n) {
		return true
	}
	return slices.ContainsFunc(n.Bodies, func(b *ssa.Graph) bool { return slices.ContainsFunc(b.Nodes, isDisputed) })
}

// typeOf is the type of a value as it is declared.
func (x *exporter) typeOf(v *ssa.Value) ssa.Type {
	if !x.open[v] {
		return v.Type
	}
	return withoutLengths(v.Type)
}

// withoutLengths keeps the rank and the symbols of a type.
func withoutLengths(t ssa.Type) ssa.Type {
	t.Shape = slices.Clone(t.Shape)
	for i, d := range t.Shape {
		if _, number := d.Const(); number {
			t.Shape[i] = ssa.Dim{}
		}
	}
	if t.Elem != nil {
		e := withoutLengths(*t.Elem)
		t.Elem = &e
	}
	return t
}
