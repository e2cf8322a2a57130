package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TopK finds the K largest or smallest elements along an axis and their
// positions: https://onnx.ai/onnx/operators/onnx__TopK.html
//
// Results are sorted whether asked for or not; of equal elements the one with the
// lower position comes first. NaN ranks as the largest element, as numpy sorts.
var TopK = Op{
	Name: "TopK", Since: 24, Doc: "Values, Indices = K best elements along axis", Form: topKForm,
	MinIn: 2, MaxIn: 2, MinOut: 2, MaxOut: 2,
	Attrs: []AttrSpec{intAttr("axis", -1), intAttr("largest", 1).since(11), intAttr("sorted", 1).since(11),
		intAttr("k").required().until(10)},
	Facts: Facts{Traits: passing}, Infer: rule(inferTopK), Eval: kernel(evalTopK),
	Upgrades: []Upgrade{{Below: 10, Source: changelog("TopK", 10), Apply: upgradeTopK}},
}

func topKForm(n *ssa.Node) int {
	dt := InType(n, 0).DType
	return versionFor(dt, typeStep{10, floatTypes}, typeStep{11, integerTypes}, typeStep{24, anyType})
}

// upgradeTopK makes the attribute k an operand.
func upgradeTopK(u *Upgrader, n *ssa.Node) error {
	if !n.Has("k") {
		return fmt.Errorf("required attribute %q is missing", "k")
	}
	u.AttrToInput(n, "k", 1)
	return nil
}

func inferTopK(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return []Inferred{{Type: t}, {Type: ssa.UnrankedTensor(ndarray.Int64)}}
	}
	axis := try(NormAxis(Int(n, "axis"), len(t.Shape)))
	shape := slices.Clone(t.Shape)
	shape[axis] = ssa.Dim{}
	if k := known(n, 1); len(k) == 1 {
		shape[axis] = k[0]
	}
	return []Inferred{{Type: ssa.TensorOf(t.DType, shape...)}, {Type: ssa.TensorOf(ndarray.Int64, shape...)}}
}

func evalTopK(c *Call) {
	a := tensor(c, 0)
	axis := try(NormAxis(Int(c.Node, "axis"), len(a.Shape)))
	k := scalarInt(c, 1)
	outer, size, inner := splitDims(a.Shape, axis)
	if k < 0 || k > int64(size) {
		failf("K is %d and the axis has %d elements", k, size)
	}
	shape := slices.Clone(a.Shape)
	shape[axis] = int(k)
	values := result(c, 0, a.DType, shape...)
	indices := result(c, 1, ndarray.Int64, shape...)
	better := topKOrder(a, Int(c.Node, "largest") != 0)
	line, at := make([]int, size), ndarray.Slice[int64](indices)
	for o := range outer {
		for i := range inner {
			base := o*size*inner + i
			for p := range line {
				line[p] = p
			}
			slices.SortStableFunc(line, func(p, q int) int { return -better(base+p*inner, base+q*inner) })
			for r, p := range line[:k] {
				to := (o*int(k)+r)*inner + i
				copyElems(values, to, a, base+p*inner, 1)
				at[to] = int64(p)
			}
		}
	}
}

// topKOrder ranks large elements first, or small ones with NaN last.
func topKOrder(a *ndarray.Array, largest bool) func(i, j int) int {
	f := orderOf(a, 1)
	if largest {
		return f
	}
	return func(i, j int) int { return -f(i, j) }
}
