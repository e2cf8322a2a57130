package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
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
var Einsum = Op{
	Name: "Einsum", Since: 28, Doc: "Y[output labels] = Σ over other labels of the product of the operands",
	Form:  formBy(typeStep{12, floatTypes | integerTypes}, typeStep{28, anyType}),
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "equation", Kind: ssa.AttrString, Required: true}},
	Infer: rule(inferEinsum), Eval: kernel(evalEinsum),
	Facts: Facts{Cost: einsumCost},
}

func inferEinsum(n *ssa.Node) []Inferred {
	all := make([]int, len(n.In))
	ranks := make([]int, len(n.In))
	for i := range n.In {
		all[i], ranks[i] = i, InType(n, i).Rank()
	}
	dt := sameDType(n, all...)
	if slices.Contains(ranks, -1) {
		return One(ssa.UnrankedTensor(dt))
	}
	eq := try(parseEinsum(n.Str("equation", ""), ranks))
	dims := map[int]ssa.Dim{}
	for i, labels := range eq.in {
		for k, l := range labels {
			d := n.In[i].Type.Shape[k]
			if old, ok := dims[l]; ok {
				both, err := broadcastDim(old, d)
				if err != nil {
					failf("label %s: %w", labelName(l), err)
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
	return One(t)
}

// einsumCost is two operations per combination of labels of a product of two
// operands; more operands are counted as if contracted at once.
func einsumCost(n *ssa.Node) Cost {
	var c Cost
	var shapes [][]int
	var ranks []int
	for _, v := range append(slices.Clone(n.In), n.Out[0]) {
		b, _ := v.Type.ByteSize()
		c.Bytes += int64(b)
	}
	for _, v := range n.In {
		s, ok := v.Type.Static()
		if !ok {
			return c
		}
		shapes, ranks = append(shapes, s), append(ranks, len(s))
	}
	eq, err := parseEinsum(n.Str("equation", ""), ranks)
	if err != nil {
		return c
	}
	dims, err := eq.dims(shapes)
	if err != nil {
		return c
	}
	c.FLOPs = 2
	for _, l := range eq.order() {
		c.FLOPs *= int64(dims[l])
	}
	return c
}

func evalEinsum(c *Call) {
	arrays := make([]*ndarray.Array, len(c.In))
	shapes, ranks := make([][]int, len(c.In)), make([]int, len(c.In))
	for i := range c.In {
		a := needTensor(c, i)
		if a.DType != c.Array(0).DType {
			failf("operands 0 and %d have element types %s and %s", i, c.Array(0).DType, a.DType)
		}
		arrays[i], shapes[i], ranks[i] = a, a.Shape, len(a.Shape)
	}
	eq := try(parseEinsum(c.Node.Str("equation", ""), ranks))
	dims := try(eq.dims(shapes))
	shape := make([]int, len(eq.out))
	for i, l := range eq.out {
		shape[i] = dims[l]
	}
	t := productType(arrays[0].DType)
	if t == ndarray.Undefined {
		check(unsupportedType(arrays[0].DType))
	}
	out := try(c.Output(0, arrays[0].DType, shape...))
	switch t {
	case ndarray.Float64:
		runEinsum[float64](eq, dims, out, arrays)
		return
	case ndarray.Int32:
		runEinsum[int32](eq, dims, out, arrays)
		return
	case ndarray.Int64:
		runEinsum[int64](eq, dims, out, arrays)
		return
	}
	runEinsum[float32](eq, dims, out, arrays)
}

// factor is one operand, or an intermediate product.
type factor[T productNum] struct {
	labels []int
	shape  []int
	data   []T
}

func runEinsum[T productNum](eq einsum, dims map[int]int, out *ndarray.Array, arrays []*ndarray.Array) {
	factors := make([]factor[T], len(arrays))
	for i, a := range arrays {
		factors[i] = factor[T]{eq.in[i], a.Shape, operandAs[T](a)}
	}
	for len(factors) > 2 {
		keep := eq.neededAfter(factors[0].labels, factors[1].labels, len(arrays)-len(factors)+2)
		m := factor[T]{labels: keep}
		for _, l := range keep {
			m.shape = append(m.shape, dims[l])
		}
		size, err := ndarray.ByteSize(ndarray.Float64, m.shape)
		if err != nil {
			failf("intermediate of shape %v: %w", m.shape, err)
		}
		m.data = make([]T, size/8)
		contract(m, dims, factors[:2])
		factors = append([]factor[T]{m}, factors[2:]...)
	}
	z := resultAs[T](out)
	contract(factor[T]{eq.out, out.Shape, z}, dims, factors)
	storeResult(out, z)
}

// contract adds the product of one or two factors, summed over the labels the
// result lacks, to a zeroed result. The loops run over the result's labels
// outside and the summed ones inside.
func contract[T productNum](result factor[T], dims map[int]int, factors []factor[T]) {
	order := slices.Clone(result.labels)
	for _, f := range factors {
		for _, l := range f.labels {
			if !slices.Contains(order, l) {
				order = append(order, l)
			}
		}
	}
	extent := make([]int, len(order))
	for i, l := range order {
		extent[i] = dims[l]
	}
	strides := [][]int{labelStrides(order, dims, result.labels, result.shape)}
	for _, f := range factors {
		strides = append(strides, labelStrides(order, dims, f.labels, f.shape))
	}
	w := stridedWalk(extent, strides...)
	z, x := result.data, factors[0].data
	if len(factors) == 1 {
		w.each(func(_ int, at []int) {
			for k := range w.run {
				z[at[0]+k*w.step[0]] += x[at[1]+k*w.step[1]]
			}
		})
		return
	}
	y := factors[1].data
	w.each(func(_ int, at []int) {
		o, i, j := at[0], at[1], at[2]
		if w.step[0] == 0 {
			sum := z[o]
			for range w.run {
				sum += x[i] * y[j]
				i += w.step[1]
				j += w.step[2]
			}
			z[o] = sum
			return
		}
		for range w.run {
			z[o] += x[i] * y[j]
			o += w.step[0]
			i += w.step[1]
			j += w.step[2]
		}
	})
}

// labelStrides gives the step of an array along every label of the loop order: 0
// where it lacks the label or broadcasts, the sum of its strides on a diagonal.
func labelStrides(order []int, dims map[int]int, labels, shape []int) []int {
	own := Strides(shape)
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
