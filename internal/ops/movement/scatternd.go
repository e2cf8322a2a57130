package movement

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// ScatterND writes slices at index tuples into a copy of data:
// https://onnx.ai/onnx/operators/onnx__ScatterND.html
//
//	output = data
//	output[indices[i…, 0], indices[i…, 1], …] = f(output[…], updates[i…])
//
// f takes the update, or is the sum, product, maximum or minimum.
var ScatterND = ops.Op{
	Name: "ScatterND", Since: 18, Form: scatterForm, Doc: "output = data with updates written at the index tuples",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{scatterReduction.From(16)},
	Infer: ops.SameAs, Eval: kit.Kernel(evalScatterND),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.MoveCost},
}

func evalScatterND(c *ops.Call) {
	a, ix, up := kit.Tensor(c, 0), kit.Tensor(c, 1), kit.Tensor(c, 2)
	k := 0
	if ix.Rank() > 0 {
		k = ix.Shape[ix.Rank()-1]
	}
	checkTuples(a.Rank(), ix.Rank(), 0, k)
	if want := slices.Concat(ix.Shape[:ix.Rank()-1], a.Shape[k:]); up.DType != a.DType || !slices.Equal(up.Shape, want) {
		kit.Failf("updates %s must be %s%v", up, a.DType, want)
	}
	eachTuple(c, ix, a.Shape, k, func(int, int) {}) // nothing is written if some index is out of range
	s := newScatter(c, a, up)
	run := kit.SizeOf(a.Shape[k:])
	eachTuple(c, ix, a.Shape, k, func(i, offset int) { s.apply(offset, i*run, run) })
	s.finish()
}
