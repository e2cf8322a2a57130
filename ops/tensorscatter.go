package ops

import (
	"github.com/berth-onnx/berth/ndarray"
)

// TensorScatter writes new entries into a cache of keys or values:
// https://onnx.ai/onnx/operators/onnx__TensorScatter.html
//
//	present[b, …, write_indices[b] + s, …] = update[b, …, s, …]
//
// along axis; mode circular wraps the position around the end.
var TensorScatter = Op{
	Name: "TensorScatter", Since: 24, Doc: "present_cache = past_cache with update written from write_indices on",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", -2), strAttr("mode", "linear", "circular")},
	Infer: SameAs, Eval: kernel(evalTensorScatter),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: moveCost},
}

func evalTensorScatter(c *Call) {
	past := tensor(c, 0)
	up := tensor(c, 1)
	axis := try(NormAxis(Int(c.Node, "axis"), past.Rank()))
	if axis == 0 {
		failf("axis is the batch dimension")
	}
	if up.DType != past.DType || up.Rank() != past.Rank() {
		failf("update %s does not fit the cache %s", up, past)
	}
	for i, d := range up.Shape {
		if i != axis && d != past.Shape[i] || d > past.Shape[i] {
			failf("update %s does not fit the cache %s", up, past)
		}
	}
	first := writePositions(c, past.Shape[0], past.Shape[axis], up.Shape[axis])
	out := result(c, 0, past.DType, past.Shape...)
	copyWhole(out, past)
	writeCache(out, up, axis, first)
}

// writePositions returns where each batch entry's update of length n starts in a
// cache of length size.
func writePositions(c *Call, batch, size, n int) []int {
	at := optionalInts(c, 2)
	if c.Has(2) && len(at) != batch {
		failf("%d write indices for a batch of %d", len(at), batch)
	}
	mode := Str(c.Node, "mode")
	out := make([]int, batch)
	for i, p := range at {
		if mode == "circular" && size > 0 {
			p %= int64(size)
		}
		if p < 0 || mode == "linear" && p > int64(size-n) {
			failf("write index %d puts %d entries outside of a cache of %d", at[i], n, size)
		}
		out[i] = int(p)
	}
	return out
}

// writeCache copies the update's slices to first[b], first[b]+1, … along axis,
// around the end.
func writeCache(out, up *ndarray.Array, axis int, first []int) {
	outer, size, inner := splitDims(out.Shape, axis)
	n := up.Shape[axis]
	perBatch := 1
	for _, d := range out.Shape[1:axis] {
		perBatch *= d
	}
	for o := range outer {
		for s := range n {
			at := (first[o/perBatch] + s) % size
			copyElems(out, (o*size+at)*inner, up, (o*n+s)*inner, inner)
		}
	}
}
