package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// GatherND picks slices by index tuples: https://onnx.ai/onnx/operators/onnx__GatherND.html
//
//	output[b…, i…, r…] = data[b…, indices[b…, i…, 0], indices[b…, i…, 1], …, r…]
//
// The first batch_dims dimensions b belong to both operands.
var GatherND = Op{
	Name: "GatherND", Since: 13, Form: typeForm(11, 13), Doc: "output = data at the index tuples in the last dimension of indices",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("batch_dims", 0).since(12)},
	Infer: rule(inferGatherND), Eval: kernel(evalGatherND),
	Facts: Facts{Traits: movement, Alias: gatherNDAlias, Cost: moveCost},
}

// gatherNDAlias finds the gather of one index tuple.
func gatherNDAlias(n *ssa.Node) []Alias {
	t, ix := InType(n, 0), InType(n, 1)
	if !t.IsStatic() || !ix.IsStatic() || !isPlainTensor(n.In[0]) || len(ix.Shape) == 0 || Int(n, "batch_dims") != 0 {
		return nil
	}
	k, _ := ix.Shape[len(ix.Shape)-1].Const()
	if int(k) > len(t.Shape) {
		return nil
	}
	return tupleAlias(n, 1, 0, int(k))
}

// checkTuples checks that tuples of width k below batch dimensions address data.
func checkTuples(data, indices, batch, k int) {
	if indices < 1 || batch < 0 || batch >= indices || k < 0 || batch+k > data {
		failf("index tuples of width %d below %d batch dimensions do not fit data of rank %d", k, batch, data)
	}
}

func inferGatherND(n *ssa.Node) []Inferred {
	t, ix := InType(n, 0), InType(n, 1)
	if !t.Ranked || !ix.Ranked || len(ix.Shape) == 0 {
		return One(ssa.UnrankedTensor(t.DType))
	}
	q := len(ix.Shape)
	k, ok := ix.Shape[q-1].Const()
	if !ok {
		return One(ssa.UnrankedTensor(t.DType))
	}
	batch := int(Int(n, "batch_dims"))
	checkTuples(len(t.Shape), q, batch, int(k))
	return One(ssa.TensorOf(t.DType, slices.Concat(ix.Shape[:q-1], t.Shape[batch+int(k):])...))
}

// tupleOffsets returns the element offset in an array of the given shape that
// each tuple of width k in indices stands for; strides are those of shape.
func tupleOffsets(indices *ndarray.Array, shape []int, k int) []int {
	if !indices.DType.IsInteger() {
		failf("indices are %s, they must be integers", indices)
	}
	count := 1
	for _, d := range indices.Shape[:indices.Rank()-1] {
		count *= d
	}
	strides := Strides(shape)
	out := make([]int, count)
	for i := range out {
		for j := range k {
			x := try(wrapIndex(indices.Int(i*k+j), shape[j]))
			out[i] += x * strides[j]
		}
	}
	return out
}

func evalGatherND(c *Call) {
	a := tensor(c, 0)
	ix := tensor(c, 1)
	batch, k := int(Int(c.Node, "batch_dims")), 0
	if ix.Rank() > 0 {
		k = ix.Shape[ix.Rank()-1]
	}
	checkTuples(a.Rank(), ix.Rank(), batch, k)
	if !slices.Equal(a.Shape[:batch], ix.Shape[:batch]) {
		failf("batch dimensions of %v and %v differ", a.Shape, ix.Shape)
	}
	at := tupleOffsets(ix, a.Shape[batch:], k)
	shape := slices.Concat(ix.Shape[:ix.Rank()-1], a.Shape[batch+k:])
	out := result(c, 0, a.DType, shape...)
	if out.Len() == 0 {
		return
	}
	batches, run, each := 1, 1, 1
	for i, d := range a.Shape {
		switch {
		case i < batch:
			batches *= d
		default:
			each *= d
			if i >= batch+k {
				run *= d
			}
		}
	}
	per := len(at) / batches
	for i, o := range at {
		copyElems(out, i*run, a, i/per*each+o, run)
	}
}
