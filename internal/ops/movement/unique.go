package movement

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Unique finds distinct elements, or slices along an axis:
// https://onnx.ai/onnx/operators/onnx__Unique.html
//
// The results are the distinct ones (sorted, or in order of appearance), where
// each appears first, which of them every element is, and how often each appears.
// NaNs count as equal and sort last; subtensors compare element by element.
var Unique = ops.Op{
	Name: "Unique", Since: 28, Form: kit.TypeForm(11, 28), Doc: "Y = distinct elements of X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 4,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis"), ops.IntAttr("sorted", 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.ExtentBounded)}, Infer: kit.Rule(inferUnique), Eval: kit.Kernel(evalUnique),
}

func inferUnique(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	y := ssa.TensorOf(t.DType, ssa.Dim{})
	inverse := t.NumElems()
	if n.Has("axis") {
		y, inverse = ssa.UnrankedTensor(t.DType), ssa.Dim{}
		if t.Ranked {
			axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
			y, inverse = ssa.TensorOf(t.DType, kit.WithDim(t.Shape, axis, ssa.Dim{})...), t.Shape[axis]
		}
	}
	count := ssa.TensorOf(ndarray.Int64, ssa.Dim{})
	return []ops.Inferred{{Type: y}, {Type: count}, {Type: ssa.TensorOf(ndarray.Int64, inverse)}, {Type: count}}
}

// compareElems orders elements i and j of an array; NaN comes last, complex
// numbers go by real part first.
func compareElems(a *ndarray.Array) func(i, j int) int {
	floats := func(x, y float64) int {
		if nx, ny := math.IsNaN(x), math.IsNaN(y); nx || ny {
			return cmp.Compare(kit.Btoi(nx), kit.Btoi(ny))
		}
		return cmp.Compare(x, y)
	}
	switch dt := a.DType; {
	case dt == ndarray.String:
		return func(i, j int) int { return strings.Compare(a.Str[i], a.Str[j]) }
	case dt.IsFloat():
		return func(i, j int) int { return floats(a.Float(i), a.Float(j)) }
	case dt == ndarray.Uint64:
		v := ndarray.Slice[uint64](a)
		return func(i, j int) int { return cmp.Compare(v[i], v[j]) }
	case dt == ndarray.Complex64:
		v := ndarray.Slice[complex64](a)
		return func(i, j int) int {
			return cmp.Or(floats(float64(real(v[i])), float64(real(v[j]))), floats(float64(imag(v[i])), float64(imag(v[j]))))
		}
	case dt == ndarray.Complex128:
		v := ndarray.Slice[complex128](a)
		return func(i, j int) int { return cmp.Or(floats(real(v[i]), real(v[j])), floats(imag(v[i]), imag(v[j]))) }
	}
	return func(i, j int) int { return cmp.Compare(a.Int(i), a.Int(j)) }
}

// uniqueGroups is the classes of equal slices.
type uniqueGroups struct {
	first   []int // index of the first member of each class
	inverse []int // class of each index
	count   []int
}

// groupEqual sorts the indices 0..n-1 by compare and cuts the order where
// neighbours differ. Classes come sorted, or by first appearance.
func groupEqual(c *ops.Call, n int, compare func(i, j int) int, sorted bool) uniqueGroups {
	order := kit.Make[int](c, n)
	w := kit.Watching(c)
	for i := range order {
		w.Did(1)
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		w.Did(1)
		return compare(i, j)
	})
	g := uniqueGroups{inverse: kit.Make[int](c, n)}
	for k, i := range order {
		w.Did(1)
		if k == 0 || compare(order[k-1], i) != 0 {
			g.first, g.count = kit.Append(c, g.first, i), kit.Append(c, g.count, 0)
		}
		g.inverse[i] = len(g.first) - 1
		g.count[len(g.count)-1]++
	}
	if sorted {
		return g
	}
	rank := kit.Make[int](c, len(g.first)) // class -> position by first appearance
	byFirst := kit.PositionsIn(c, len(g.first))
	slices.SortFunc(byFirst, func(a, b int) int {
		w.Did(1)
		return cmp.Compare(g.first[a], g.first[b])
	})
	first, count := kit.Make[int](c, len(rank)), kit.Make[int](c, len(rank))
	for pos, class := range byFirst {
		w.Did(1)
		rank[class], first[pos], count[pos] = pos, g.first[class], g.count[class]
	}
	for i, class := range g.inverse {
		w.Did(1)
		g.inverse[i] = rank[class]
	}
	g.first, g.count = first, count
	return g
}

func evalUnique(c *ops.Call) {
	a, axis := axisOrFlat(c.Node, kit.Tensor(c, 0))
	outer, dim, inner := kit.SplitDims(a.Shape, axis)
	elems, w := compareElems(a), kit.Watching(c)
	g := groupEqual(c, dim, func(i, j int) int {
		for o := range outer {
			for k := range inner {
				w.Did(1)
				if r := elems((o*dim+i)*inner+k, (o*dim+j)*inner+k); r != 0 {
					return r
				}
			}
		}
		return 0
	}, ops.Int(c.Node, "sorted") != 0)
	y := kit.Result(c, 0, a.DType, kit.WithDim(a.Shape, axis, len(g.first))...)
	kit.TakeAlong(c, y, a, axis, g.first)
	for i, list := range [][]int{g.first, g.inverse, g.count} {
		kit.SetResult(c, i+1, ndarray.Int64, []int{len(list)}, ints64(list))
	}
}
