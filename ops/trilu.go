package ops

import "github.com/berth-onnx/berth/ssa"

// Trilu keeps a triangle of every matrix and clears the rest:
// https://onnx.ai/onnx/operators/onnx__Trilu.html
//
//	upper=1, k=0  x x x      upper=1, k=1  . x x      upper=0, k=-1  . . .
//	              . x x                    . . x                     x . .
//	              . . x                    . . .                     x x .
var Trilu = Op{
	Name: "Trilu", Since: 14, Doc: "Y[i,j] = j - i ≥ k (upper) or ≤ k (lower) ? X[i,j] : 0",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("upper", 1)},
	Infer: rule(inferTrilu), Eval: kernel(evalTrilu),
	Facts: Facts{Traits: passing, InPlace: inPlaceFirst},
}

func inferTrilu(n *ssa.Node) []Inferred {
	if t := InType(n, 0); t.Ranked && len(t.Shape) < 2 {
		failf("operand of rank %d, it must hold matrices", len(t.Shape))
	}
	return try(SameAs(n))
}

func evalTrilu(c *Call) {
	a := tensor(c, 0)
	if len(a.Shape) < 2 {
		failf("operand of rank %d, it must hold matrices", len(a.Shape))
	}
	k := int64(0)
	if c.Has(1) {
		k = scalarInt(c, 1)
	}
	out := result(c, 0, a.DType, a.Shape...)
	copyWhole(out, a)
	rows, cols := a.Shape[len(a.Shape)-2], a.Shape[len(a.Shape)-1]
	k = max(-int64(rows), min(k, int64(cols))) // beyond that nothing changes
	upper := Int(c.Node, "upper") != 0
	for row := range out.Len() / max(cols, 1) {
		// The first column on or right of the diagonal, and the one after it.
		from := row%rows + int(k)
		if upper {
			clearElems(out, row*cols, max(0, min(from, cols)))
		} else {
			from = max(0, min(from+1, cols))
			clearElems(out, row*cols+from, cols-from)
		}
	}
}
