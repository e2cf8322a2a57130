package ops

import (
	"slices"
)

// ScatterND writes slices at index tuples into a copy of data:
// https://onnx.ai/onnx/operators/onnx__ScatterND.html
//
//	output = data
//	output[indices[i…, 0], indices[i…, 1], …] = f(output[…], updates[i…])
//
// f takes the update, or is the sum, product, maximum or minimum.
var ScatterND = Op{
	Name: "ScatterND", Since: 18, Form: scatterForm, Doc: "output = data with updates written at the index tuples",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{scatterReduction.since(16)},
	Infer: SameAs, Eval: kernel(evalScatterND),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: moveCost},
}

func evalScatterND(c *Call) {
	a := tensor(c, 0)
	ix := tensor(c, 1)
	up := tensor(c, 2)
	k := 0
	if ix.Rank() > 0 {
		k = ix.Shape[ix.Rank()-1]
	}
	checkTuples(a.Rank(), ix.Rank(), 0, k)
	if want := slices.Concat(ix.Shape[:ix.Rank()-1], a.Shape[k:]); up.DType != a.DType || !slices.Equal(up.Shape, want) {
		failf("updates %s must be %s%v", up, a.DType, want)
	}
	at := tupleOffsets(ix, a.Shape, k)
	s := newScatter(c, a, up)
	run := 1
	for _, d := range a.Shape[k:] {
		run *= d
	}
	for i, o := range at {
		s.apply(o, i*run, run)
	}
	s.finish()
}
