package batch

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// setRepeats decides which nodes are computed again in later levels: cheap ones whose results that later levels read have more bytes than what they
// read and nothing else would keep. Nodes are looked at from the last one back, since what one reads may be computed again, too.
func (w *writer) setRepeats() {
	w.repeat = map[*ssa.Node]bool{}
	kept := map[*ssa.Value]bool{}
	for _, n := range w.old {
		for _, v := range n.In {
			if v != nil && v.Def != nil && w.recipes[n] != nil && w.forms[v].kind != whole && w.levels[v] < w.nodes[n] {
				kept[v] = true
			}
		}
	}
	for i := len(w.old) - 1; i >= 0; i-- {
		n := w.old[i]
		if w.recipes[n] == nil || !isCheap(n) {
			continue
		}
		var saves, costs int64
		for _, v := range n.Out {
			if v != nil && kept[v] {
				saves += bytesOf(v)
			}
		}
		need := map[*ssa.Value]int64{}
		for _, v := range n.In {
			costs += w.need(v, kept, need)
		}
		if saves <= costs {
			continue
		}
		w.repeat[n] = true
		for _, v := range n.In {
			if v != nil && v.Def != nil && w.forms[v].kind != whole {
				kept[v] = true
			}
		}
	}
}

// need is how many bytes more are kept for a value that a later level reads.
func (w *writer) need(v *ssa.Value, kept map[*ssa.Value]bool, known map[*ssa.Value]int64) int64 {
	if v == nil || v.Def == nil || w.forms[v].kind == whole || kept[v] {
		return 0
	}
	if size, ok := known[v]; ok {
		return size
	}
	size := bytesOf(v)
	if w.recipes[v.Def] != nil && isCheap(v.Def) {
		var sum int64
		for _, x := range v.Def.In {
			sum += w.need(x, kept, known)
		}
		size = min(size, sum)
	}
	known[v] = size
	return size
}

// isCheap reports nodes that take time in proportion to their elements.
func isCheap(n *ssa.Node) bool {
	o := ops.Of(n)
	switch n.Op {
	case "BatchNormalization", "MaxPool", "AveragePool", "MaxPoolGradient":
		return true
	}
	return o.Facts.IsElementwise() || o.Facts.IsMovement()
}

// repeating computes nodes again for a part in a level, once each.
func (w *writer) repeating(level, part int) func(v *ssa.Value) error {
	done := map[*ssa.Node]bool{}
	return func(v *ssa.Value) error {
		n := v.Def
		if n == nil || !w.repeat[n] || w.nodes[n] >= level || done[n] {
			return nil
		}
		done[n] = true
		_, err := w.scopes[part].copy(n, w.recipes[n], nil)
		return err
	}
}
