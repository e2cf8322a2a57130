package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Facts about results that take the place of operands: of the same size
// ([Facts.InPlace]) and smaller ([Facts.Smaller], see smaller.go).

// inPlaceFirst is the InPlace fact of operators that may write result 0 over
// operand 0.
func inPlaceFirst(n *ssa.Node) []Pair {
	if x, y := n.Input(0), n.Output(0); x != nil && y != nil && sameLayout(x.Type, y.Type) {
		return []Pair{{0, 0}}
	}
	return nil
}

func sameLayout(a, b ssa.Type) bool {
	if a.Kind != ssa.KindTensor || b.Kind != ssa.KindTensor || !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		return false
	}
	for i := range a.Shape {
		if !a.Shape[i].Equal(b.Shape[i]) {
			return false
		}
	}
	return a.DType.Size() == b.DType.Size() && a.DType != ndarray.String && b.DType != ndarray.String
}

// narrowingFirst is narrowing for operators that read only operand 0 element by
// element.
func narrowingFirst(n *ssa.Node) []Pair {
	for _, p := range narrowing(n) {
		if p.In == 0 {
			return []Pair{p}
		}
	}
	return nil
}

// halves reports whether a result takes at most half of an operand's bytes; both
// are tensors of known shape and not empty.
func halves(operand, result *ssa.Value) bool {
	if operand == nil || result == nil {
		return false
	}
	a, ok := operand.Type.ByteSize()
	b, ok2 := result.Type.ByteSize()
	return ok && ok2 && b > 0 && 2*b <= a
}

// innerReduced pairs the result of a reduction with its operand if the reduced
// axes are the innermost: then every result element belongs to one run of the
// operand, and lies before it or at its start.
//
//	operand  0 0 0 0 1 1 1 1 2 2 2 2
//	result   0 1 2
func innerReduced(n *ssa.Node, mask []bool) []Pair {
	if !halves(n.Input(0), n.Output(0)) || n.In[0].Type.Rank() != len(mask) {
		return nil
	}
	kept := false // going inwards to outwards
	for i := len(mask) - 1; i >= 0; i-- {
		switch {
		case n.In[0].Type.Shape[i].Is(1):
		case !mask[i]:
			kept = true
		case kept:
			return nil
		}
	}
	return []Pair{{0, 0}}
}

// pooledPlanes pairs the result of a pooling with its operand if planes halve at
// least and, within a plane, windows move on by more than they reach back. Then
// row r of a result plane ends before the first row that later windows read, and
// result planes n … 2n-1 end before plane n of the operand.
func pooledPlanes(n *ssa.Node) []Pair {
	x := n.Input(0)
	if !halves(x, n.Output(0)) || n.Output(1) != nil || x.Type.Rank() < 3 {
		return nil
	}
	kernel, err := kernelAttr(n)
	if err != nil || len(kernel) != x.Type.Rank()-2 {
		return nil
	}
	w, err := windowOf(n, kernel)
	shape, ok := x.Type.Static()
	if err != nil || !ok || w.bind(shape[2:]) != nil {
		return nil
	}
	for i := range kernel {
		if w.strides[i] <= w.begin[i] || w.out[i] > w.in[i] {
			return nil
		}
	}
	return []Pair{{0, 0}}
}

// globalPlanes pairs the result of a global pooling, one element per plane, with
// its operand.
func globalPlanes(n *ssa.Node) []Pair {
	if !halves(n.Input(0), n.Output(0)) {
		return nil
	}
	return []Pair{{0, 0}}
}

// forwardSlice pairs a slice with its operand if no step goes backwards: what
// element i of the result is lies at place i of the operand, or behind.
func forwardSlice(n *ssa.Node) []Pair {
	if !halves(n.Input(0), n.Output(0)) {
		return nil
	}
	if n.Input(4) == nil {
		return []Pair{{0, 0}}
	}
	steps, ok := ConstInts(n, 4)
	for _, s := range steps {
		ok = ok && s > 0
	}
	if !ok {
		return nil
	}
	return []Pair{{0, 0}}
}
