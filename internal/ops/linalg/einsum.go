package linalg

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Einsum is summation over named dimensions: https://onnx.ai/onnx/operators/onnx__Einsum.html
//
//	"bij,bjk->bik"   Y[b,i,k] = Σⱼ A[b,i,j] · B[b,j,k]
//
// A label that occurs twice in one term takes the diagonal; labels missing on the
// right are summed over; "..." stands for leading dimensions that broadcast.
// More than two operands are contracted from left to right, two at a time, so
// that the work does not grow with the product of all dimensions.
var Einsum = ops.Op{
	Name: "Einsum", Since: 28, Doc: "Y[output labels] = Σ over other labels of the product of the operands",
	Form:  kit.FormBy(kit.From(12, kit.FloatTypes|kit.IntegerTypes), kit.From(28, kit.AnyType)),
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.StrAttr("equation").Mandatory()},
	Infer: kit.Rule(inferEinsum), Eval: kit.NumberKernel(evalEinsum[float32], evalEinsum[float64], evalEinsum[int64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: einsumCost},
}

func inferEinsum(n *ssa.Node) []ops.Inferred {
	dt, ranks := kit.SameDType(n, kit.Positions(len(n.In))...), make([]int, len(n.In))
	for i := range n.In {
		ranks[i] = ops.InType(n, i).Rank()
	}
	if slices.Contains(ranks, -1) {
		return ops.One(ssa.UnrankedTensor(dt))
	}
	eq := kit.Try(parseEinsum(ops.Str(n, "equation"), ranks))
	dims := map[int]ssa.Dim{}
	for i, labels := range eq.in {
		for k, l := range labels {
			d := n.In[i].Type.Shape[k]
			if old, ok := dims[l]; ok {
				both, err := ops.BroadcastDim(old, d)
				if err != nil {
					kit.Failf("label %s: %w", labelName(l), err)
				}
				d = both
			}
			dims[l] = d
		}
	}
	t := ssa.TensorOf(dt)
	for _, l := range eq.out {
		t.Shape = append(t.Shape, dims[l])
	}
	return ops.One(t)
}

// mostCost bounds a cost, so that costs of many nodes can be added.
const mostCost = 1 << 56

// einsumCost is two operations per combination of labels of each product of two
// operands, contracted as the reference kernel does.
func einsumCost(n *ssa.Node) ops.Cost {
	c := ops.TrafficOf(n)
	var shapes [][]int
	for _, v := range n.In {
		s, ok := v.Type.Static()
		if !ok {
			return c
		}
		shapes = append(shapes, s)
	}
	eq, dims, err := parsed(ops.Str(n, "equation"), shapes)
	if err != nil {
		return c
	}
	left, work := eq.in[0], 0.0
	for i, right := range eq.in {
		if i == 0 && len(eq.in) > 1 {
			continue
		}
		product := 2.0
		for _, l := range union(union(nil, left), right) {
			product *= float64(dims[l])
		}
		work += product
		left = eq.neededAfter(left, right, i+1)
	}
	c.FLOPs = int64(min(work, mostCost))
	return c
}

func evalEinsum[T kit.ProductNum](c *ops.Call) {
	arrays, shapes := kit.SameTensors(c)
	eq, dims, err := parsed(ops.Str(c.Node, "equation"), shapes)
	kit.Check(err)
	factors := make([]factor[T], len(arrays))
	for i, a := range arrays {
		factors[i] = factor[T]{eq.in[i], a.Shape, kit.Elements[T](c, a)}
	}
	for len(factors) > 2 {
		m := factor[T]{labels: eq.neededAfter(factors[0].labels, factors[1].labels, len(arrays)-len(factors)+2)}
		m.shape = labelled(m.labels, dims)
		size, err := ndarray.ByteSize(ndarray.Float64, m.shape)
		if err != nil {
			kit.Failf("intermediate of shape %v: %w", m.shape, err)
		}
		m.data = kit.Make[T](c, size/8)
		contract(c, m, dims, factors[:2])
		factors = factors[1:]
		factors[0] = m
	}
	shape := labelled(eq.out, dims)
	y := kit.NewResult[T](c, 0, arrays[0].DType, shape...)
	kit.ClearSlice(c, y.V)
	contract(c, factor[T]{eq.out, shape, y.V}, dims, factors)
	y.Store()
}

// labelled is the shape of an array with the labels.
func labelled(labels []int, dims map[int]int) []int {
	shape := make([]int, len(labels))
	for i, l := range labels {
		shape[i] = dims[l]
	}
	return shape
}

// factor is one operand, or an intermediate product.
type factor[T kit.ProductNum] struct {
	labels []int
	shape  []int
	data   []T
}

// contract adds the product of one or two factors, summed over the labels the
// result lacks, to a zeroed result. The loops run over the result's labels
// outside and the summed ones inside.
func contract[T kit.ProductNum](c *ops.Call, result factor[T], dims map[int]int, factors []factor[T]) {
	order := result.labels
	for _, f := range factors {
		order = union(order, f.labels)
	}
	strides := [][]int{labelStrides(order, dims, result.labels, result.shape)}
	for _, f := range factors {
		strides = append(strides, labelStrides(order, dims, f.labels, f.shape))
	}
	w := kit.StridedWalk(c, labelled(order, dims), strides...)
	z, x := result.data, factors[0].data
	if len(factors) == 1 {
		w.Each(func(_ int, at []int) {
			z[at[0]] += x[at[1]]
		})
		return
	}
	y := factors[1].data
	w.Each(func(_ int, at []int) {
		z[at[0]] += x[at[1]] * y[at[2]]
	})
}

// labelStrides gives the step of an array along every label of the loop order: 0
// where it lacks the label or broadcasts, the sum of its strides on a diagonal.
func labelStrides(order []int, dims map[int]int, labels, shape []int) []int {
	own := ops.Strides(shape)
	out := make([]int, len(order))
	for i, l := range order {
		for k, m := range labels {
			if m == l && (shape[k] != 1 || dims[l] == 1) {
				out[i] += own[k]
			}
		}
	}
	return out
}
