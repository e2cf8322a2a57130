package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TensorScatter writes new entries into a cache of keys or values:
// https://onnx.ai/onnx/operators/onnx__TensorScatter.html
//
//	present[b, …, write_indices[b] + s, …] = update[b, …, s, …]
//
// along axis; mode circular wraps the position around the end.
var TensorScatter = ops.Op{
	Name: "TensorScatter", Since: 24, Doc: "present_cache = past_cache with update written from write_indices on",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", -2), ops.StrAttr("mode", "linear", "circular")},
	Infer: kit.Rule(inferTensorScatter), Eval: kit.Kernel(evalTensorScatter),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.MoveCost},
}

func inferTensorScatter(n *ssa.Node) []ops.Inferred {
	past, up := ops.InType(n, 0), ops.InType(n, 1)
	kit.MatchShapes(n, "B *", "B *", "B")
	if !past.Ranked || !up.Ranked {
		return ops.One(past)
	}
	if past.Rank() != up.Rank() {
		kit.Failf("past_cache %s and update %s must have one rank", past, up)
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), past.Rank()))
	for i := range past.Shape {
		p, ok1 := past.Shape[i].Const()
		u, ok2 := up.Shape[i].Const()
		if ok1 && ok2 && (i != axis && p != u || u > p) {
			kit.Failf("update %s does not fit past_cache %s", up, past)
		}
	}
	return ops.One(past)
}

func evalTensorScatter(c *ops.Call) {
	past, up := kit.Tensor(c, 0), kit.Tensor(c, 1)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), past.Rank()))
	if axis == 0 {
		kit.Failf("axis is the batch dimension")
	}
	if up.DType != past.DType || up.Rank() != past.Rank() {
		kit.Failf("update %s does not fit the cache %s", up, past)
	}
	for i, d := range up.Shape {
		if i != axis && d != past.Shape[i] || d > past.Shape[i] {
			kit.Failf("update %s does not fit the cache %s", up, past)
		}
	}
	first := writePositions(c, past.Shape[0], past.Shape[axis], up.Shape[axis])
	out := kit.Result(c, 0, past.DType, past.Shape...)
	kit.CopyWhole(c, out, past)
	writeCache(c, out, up, axis, first)
}

// writePositions returns where each batch entry's update of length n starts in a
// cache of length size.
func writePositions(c *ops.Call, batch, size, n int) []int {
	at := kit.OptionalInts(c, 2)
	if c.Has(2) && len(at) != batch {
		kit.Failf("%d write indices for a batch of %d", len(at), batch)
	}
	mode := ops.Str(c.Node, "mode")
	out := kit.Make[int](c, batch)
	for i, p := range at {
		if mode == "circular" && size > 0 {
			p %= int64(size)
		}
		if p < 0 || mode == "linear" && p > int64(size-n) {
			kit.Failf("write index %d puts %d entries outside of a cache of %d", at[i], n, size)
		}
		out[i] = int(p)
	}
	return out
}

// writeCache copies the update's slices to first[b], first[b]+1, … along axis,
// around the end.
func writeCache(c *ops.Call, out, up *ndarray.Array, axis int, first []int) {
	outer, size, inner := kit.SplitDims(out.Shape, axis)
	n := up.Shape[axis]
	perBatch := kit.SizeOf(out.Shape[1:axis])
	w := kit.Watching(c)
	for o := range outer {
		for s := range n {
			at := (first[o/perBatch] + s) % size
			kit.CopyElems(&w, out, (o*size+at)*inner, up, (o*n+s)*inner, inner)
		}
	}
}
