package movement

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// GatherND picks slices by index tuples: https://onnx.ai/onnx/operators/onnx__GatherND.html
//
//	output[b…, i…, r…] = data[b…, indices[b…, i…, 0], indices[b…, i…, 1], …, r…]
//
// The first batch_dims dimensions b belong to both operands.
var GatherND = ops.Op{
	Name: "GatherND", Since: 13, Form: kit.TypeForm(11, 13), Doc: "output = data at the index tuples in the last dimension of indices",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("batch_dims", 0).From(12)},
	Infer: kit.Rule(InferGatherND), Eval: kit.Kernel(EvalGatherND),
	Facts: ops.Facts{Traits: ops.MovementTraits, Alias: gatherNDAlias, Cost: kit.MoveCost},
}

// gatherNDAlias finds the gather of one index tuple.
func gatherNDAlias(n *ssa.Node) []ops.Alias {
	t, ix := ops.InType(n, 0), ops.InType(n, 1)
	if !t.IsStatic() || !ix.IsStatic() || !kit.IsPlainTensor(n.In[0]) || len(ix.Shape) == 0 || ops.Int(n, "batch_dims") != 0 {
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
	if indices < 1 || batch < 0 || batch >= indices || k < 0 || batch > data || k > data-batch {
		kit.Failf("index tuples of width %d below %d batch dimensions do not fit data of rank %d", k, batch, data)
	}
}

// InferGatherND is the type and shape rule of [GatherND].
func InferGatherND(n *ssa.Node) []ops.Inferred {
	t, ix := ops.InType(n, 0), ops.InType(n, 1)
	if !t.Ranked || !ix.Ranked || len(ix.Shape) == 0 {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	q := len(ix.Shape)
	k, ok := ix.Shape[q-1].Const()
	if !ok {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	batch := int(ops.Int(n, "batch_dims"))
	checkTuples(len(t.Shape), q, batch, int(k))
	return ops.One(ssa.TensorOf(t.DType, slices.Concat(ix.Shape[:q-1], t.Shape[batch+int(k):])...))
}

// eachTuple calls f with the element offset in an array of the given shape of each
// tuple of width k in indices.
func eachTuple(c *ops.Call, indices *ndarray.Array, shape []int, k int, f func(i, offset int)) {
	if !indices.DType.IsInteger() {
		kit.Failf("indices are %s, they must be integers", indices)
	}
	strides, w := ops.Strides(shape), kit.Watching(c)
	for i := range kit.SizeOf(indices.Shape[:indices.Rank()-1]) {
		w.Did(1 + k)
		at := 0
		for j := range k {
			at += kit.Try(ops.WrapIndex(indices.Int(i*k+j), shape[j])) * strides[j]
		}
		f(i, at)
	}
}

// EvalGatherND is the reference kernel of [GatherND].
func EvalGatherND(c *ops.Call) {
	a, ix := kit.Tensor(c, 0), kit.Tensor(c, 1)
	batch, k := int(ops.Int(c.Node, "batch_dims")), 0
	if ix.Rank() > 0 {
		k = ix.Shape[ix.Rank()-1]
	}
	checkTuples(a.Rank(), ix.Rank(), batch, k)
	if !slices.Equal(a.Shape[:batch], ix.Shape[:batch]) {
		kit.Failf("batch dimensions of %v and %v differ", a.Shape, ix.Shape)
	}
	shape := slices.Concat(ix.Shape[:ix.Rank()-1], a.Shape[batch+k:])
	out, w := kit.Result(c, 0, a.DType, shape...), kit.Watching(c)
	each, run, per := kit.SizeOf(a.Shape[batch:]), kit.SizeOf(a.Shape[batch+k:]), kit.SizeOf(ix.Shape[batch:max(batch, ix.Rank()-1)])
	eachTuple(c, ix, a.Shape[batch:], k, func(i, offset int) {
		kit.CopyElems(&w, out, i*run, a, i/per*each+offset, run)
	})
}
