package ops

import (
	"fmt"

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
	Infer: SameAs, Eval: evalTensorScatter,
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: moveCost},
}

func evalTensorScatter(c *Call) error {
	past, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	up, err := needTensor(c, 1)
	if err != nil {
		return err
	}
	axis, err := NormAxis(Int(c.Node, "axis"), past.Rank())
	if err != nil {
		return err
	}
	if axis == 0 {
		return fmt.Errorf("axis is the batch dimension")
	}
	if up.DType != past.DType || up.Rank() != past.Rank() {
		return fmt.Errorf("update %s does not fit the cache %s", up, past)
	}
	for i, d := range up.Shape {
		if i != axis && d != past.Shape[i] || d > past.Shape[i] {
			return fmt.Errorf("update %s does not fit the cache %s", up, past)
		}
	}
	first, err := writePositions(c, past.Shape[0], past.Shape[axis], up.Shape[axis])
	if err != nil {
		return err
	}
	out, err := c.Output(0, past.DType, past.Shape...)
	if err != nil {
		return err
	}
	copyWhole(out, past)
	writeCache(out, up, axis, first)
	return nil
}

// writePositions returns where each batch entry's update of length n starts in a
// cache of length size.
func writePositions(c *Call, batch, size, n int) ([]int, error) {
	at, err := optInts(c, 2)
	if err != nil {
		return nil, err
	}
	if c.Has(2) && len(at) != batch {
		return nil, fmt.Errorf("%d write indices for a batch of %d", len(at), batch)
	}
	mode := Str(c.Node, "mode")
	out := make([]int, batch)
	for i, p := range at {
		if mode == "circular" && size > 0 {
			p %= int64(size)
		}
		if p < 0 || mode == "linear" && p > int64(size-n) {
			return nil, fmt.Errorf("write index %d puts %d entries outside of a cache of %d", at[i], n, size)
		}
		out[i] = int(p)
	}
	return out, nil
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
