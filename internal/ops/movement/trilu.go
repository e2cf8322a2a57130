package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Trilu keeps a triangle of every matrix and clears the rest:
// https://onnx.ai/onnx/operators/onnx__Trilu.html
//
//	upper=1, k=0  x x x      upper=1, k=1  . x x      upper=0, k=-1  . . .
//	              . x x                    . . x                     x . .
//	              . . x                    . . .                     x x .
var Trilu = ops.Op{
	Name: "Trilu", Since: 14, Doc: "Y[i,j] = j - i ≥ k (upper) or ≤ k (lower) ? X[i,j] : 0",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("upper", 1)},
	Infer: kit.Rule(InferTrilu), Eval: kit.Kernel(EvalTrilu),
	Facts: ops.Facts{Traits: ops.PassingTraits, InPlace: kit.InPlaceFirst},
}

// InferTrilu is the type and shape rule of [Trilu].
func InferTrilu(n *ssa.Node) []ops.Inferred {
	if t := ops.InType(n, 0); t.Ranked && len(t.Shape) < 2 {
		kit.Failf("operand of rank %d, it must hold matrices", len(t.Shape))
	}
	return kit.Try(ops.SameAs(n))
}

// EvalTrilu is the reference kernel of [Trilu].
func EvalTrilu(c *ops.Call) {
	a := kit.Tensor(c, 0)
	if len(a.Shape) < 2 {
		kit.Failf("operand of rank %d, it must hold matrices", len(a.Shape))
	}
	k := int64(0)
	if c.Has(1) {
		k = kit.ScalarInt(c, 1)
	}
	out := kit.Result(c, 0, a.DType, a.Shape...)
	kit.CopyWhole(c, out, a)
	rows, cols := a.Shape[len(a.Shape)-2], a.Shape[len(a.Shape)-1]
	k = max(-int64(rows), min(k, int64(cols))) // beyond that nothing changes
	upper := ops.Int(c.Node, "upper") != 0
	w := kit.Watching(c)
	for row := range out.Len() / max(cols, 1) {
		// The first column on or right of the diagonal, and the one after it.
		from := row%rows + int(k)
		if upper {
			kit.ClearElems(&w, out, row*cols, max(0, min(from, cols)))
		} else {
			from = max(0, min(from+1, cols))
			kit.ClearElems(&w, out, row*cols+from, cols-from)
		}
	}
}
