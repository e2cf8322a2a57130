package reduction

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TopK finds the K largest or smallest elements along an axis and their
// positions: https://onnx.ai/onnx/operators/onnx__TopK.html
//
// Results are sorted whether asked for or not; of equal elements the one with the
// lower position comes first. NaN ranks as the largest element, as numpy sorts.
var TopK = ops.Op{
	Name: "TopK", Since: 24, Doc: "Values, Indices = K best elements along axis",
	Form:  kit.FormBy(kit.From(10, kit.FloatTypes), kit.From(11, kit.IntegerTypes), kit.From(24, kit.AnyType)),
	MinIn: 2, MaxIn: 2, MinOut: 2, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", -1), ops.IntAttr("largest", 1).From(11), ops.IntAttr("sorted", 1).From(11),
		ops.IntAttr("k").Mandatory().Before(10)},
	Facts: ops.Facts{Traits: ops.PassingTraits}, Infer: kit.Rule(inferTopK), Eval: kit.Kernel(evalTopK),
	Upgrades: []ops.Upgrade{kit.AttrToOperand("TopK", 10, "k", 1)},
	Downgrades: []ops.Downgrade{
		{Below: 11, Form: kit.FormBy(kit.From(10, kit.FloatTypes), kit.From(11, kit.AnyType)), Apply: downgradeTopK},
		kit.OperandToAttr(10, "k", 1, kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(11, kit.AnyType)))},
}

// downgradeTopK drops what older versions do not ask: their results are sorted.
func downgradeTopK(u *ops.Upgrader, n *ssa.Node) error {
	n.DropAttr("sorted")
	return kit.PositiveAxes(0, nil).Apply(u, n)
}

func inferTopK(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return []ops.Inferred{{Type: t}, {Type: ssa.UnrankedTensor(ndarray.Int64)}}
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
	shape := kit.WithDim(t.Shape, axis, kit.SoleKnown(n, 1))
	if want, ok := shape[axis].Const(); ok {
		if most, ok := t.Shape[axis].Const(); ok && want > most {
			kit.Failf("K is %d and the axis has %d elements", want, most)
		}
	}
	return []ops.Inferred{{Type: ssa.TensorOf(t.DType, shape...)}, {Type: ssa.TensorOf(ndarray.Int64, shape...)}}
}

func evalTopK(c *ops.Call) {
	a := kit.Tensor(c, 0)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), len(a.Shape)))
	k := kit.ScalarInt(c, 1)
	outer, size, inner := kit.SplitDims(a.Shape, axis)
	if k < 0 || k > int64(size) {
		kit.Failf("K is %d and the axis has %d elements", k, size)
	}
	shape := kit.WithDim(a.Shape, axis, int(k))
	values := kit.Result(c, 0, a.DType, shape...)
	indices := kit.Result(c, 1, ndarray.Int64, shape...)
	better := topKOrder(c, a, ops.Int(c.Node, "largest") != 0)
	at := ndarray.Slice[int64](indices)
	w, line := kit.Watching(c), kit.Make[int](c, size)
	for o := range outer {
		for i := range inner {
			base := o*size*inner + i
			for p := range line {
				w.Did(1)
				line[p] = p
			}
			slices.SortStableFunc(line, func(p, q int) int {
				w.Did(1)
				return -better(base+p*inner, base+q*inner)
			})
			for r, p := range line[:k] {
				to := (o*int(k)+r)*inner + i
				kit.CopyElems(&w, values, to, a, base+p*inner, 1)
				at[to] = int64(p)
			}
		}
	}
}

// topKOrder ranks large elements first, or small ones with NaN last.
func topKOrder(c *ops.Call, a *ndarray.Array, largest bool) func(i, j int) int {
	f := orderOf(c, a, 1)
	if largest {
		return f
	}
	return func(i, j int) int { return -f(i, j) }
}
