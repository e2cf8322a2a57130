package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// SimplifiedLayerNormalization is layer normalization without the mean, which
// onnxruntime puts into the default domain:
//
//	Y = X / sqrt(mean(X²) + epsilon) * scale
//
// Result 1 is the reciprocal root of every row, always in float32.
var SimplifiedLayerNormalization = simplifiedNorm("")

// MSSimplifiedLayerNormalization is the same in the com.microsoft domain.
var MSSimplifiedLayerNormalization = simplifiedNorm(microsoft)

func simplifiedNorm(domain string) Op {
	return Op{
		Domain: domain, Name: "SimplifiedLayerNormalization", Since: 1, Doc: "Y = X / sqrt(mean(X²) + epsilon) * scale over the last dimensions",
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 2,
		Attrs: normAttrs, Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: normCost},
		Infer: rule(func(n *ssa.Node) []Inferred {
			stats := inferSuffixStats(n, ndarray.Float32)
			y := InType(n, 0)
			y.DType = InType(n, 1).DType
			return []Inferred{{Type: y}, {Type: stats}}
		}),
		Eval: floatKernel(evalSimplifiedNorm[float32], evalSimplifiedNorm[float64]),
	}
}

func evalSimplifiedNorm[T float32 | float64](c *Call) {
	x := tensor(c, 0)
	s := suffixNormOf(c.Node, x.Shape, false)
	if s.stash = ndarray.Float32; x.DType == ndarray.Float64 {
		s.stash = x.DType
	}
	scale := spread[T]("scale", tensor(c, 1), x.Shape)
	row := statWriter(c, -1, 1, s, x)
	y := newResult[T](c, 0, c.Array(1).DType, x.Shape...)
	normalizeSuffix(s, elements[T](x), y.V, row)
	scaleShift(y.V, scale, nil)
	y.store()
}

// statWriter returns a function that stores mean and reciprocal deviation of
// every row as results meanAt and invAt, where they are wanted (-1: never).
func statWriter(c *Call, meanAt, invAt int, s suffixNorm, x *ndarray.Array) func(r int, mean, inv float64) {
	var out [2]*ndarray.Array
	for i, at := range [2]int{meanAt, invAt} {
		if at < 0 || !c.Wants(at) {
			continue
		}
		out[i] = result(c, at, ndarray.Float32, s.statShape(x.Shape)...)
	}
	return func(r int, mean, inv float64) {
		for i, v := range [2]float64{mean, inv} {
			if out[i] != nil {
				out[i].SetFloat(r, v)
			}
		}
	}
}

// SkipLayerNormalization is layer normalization of a residual sum, of the
// com.microsoft domain:
//
//	sum    = input + skip + bias                        result 3
//	output = (sum - mean) / sqrt(var + epsilon) * gamma + beta
var SkipLayerNormalization = Op{
	Domain: microsoft, Name: "SkipLayerNormalization", Since: 1, Doc: "output = LayerNormalization(input + skip + bias)",
	MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 4,
	Attrs: []AttrSpec{floatAttr("epsilon", 1e-12)}, Infer: rule(inferSkipNorm), Facts: Facts{Traits: general, Cost: normCost},
	Eval: floatKernel(func(c *Call) { skipNorm(c, true, 3, 4) }, nil),
}

// SkipSimplifiedLayerNormalization is the same without mean and beta:
//
//	output = sum / sqrt(mean(sum²) + epsilon) * gamma
var SkipSimplifiedLayerNormalization = Op{
	Domain: microsoft, Name: "SkipSimplifiedLayerNormalization", Since: 1, Doc: "output = SimplifiedLayerNormalization(input + skip + bias)",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 4,
	Attrs: []AttrSpec{floatAttr("epsilon", 1e-12)}, Infer: rule(inferSkipNorm), Facts: Facts{Traits: general, Cost: normCost},
	Eval: floatKernel(func(c *Call) { skipNorm(c, false, -1, 3) }, nil),
}

func inferSkipNorm(n *ssa.Node) []Inferred {
	x := InType(n, 0)
	stats := inferSuffixStats(n, ndarray.Float32)
	return []Inferred{{Type: x}, {Type: stats}, {Type: stats}, {Type: x}}
}

// skipNorm runs both; betaAt and biasAt are operand positions, -1 for none.
func skipNorm(c *Call, center bool, betaAt, biasAt int) {
	x := tensor(c, 0)
	s := suffixNorm{axis: x.Rank() - 1, eps: float64(Float(c.Node, "epsilon")), center: center, stash: ndarray.Float32}
	if x.Rank() < 1 {
		failf("input is a scalar")
	}
	s.outer, s.inner = sizeOf(x.Shape[:s.axis]), x.Shape[s.axis]
	tensor(c, 1)
	tensor(c, 2)
	var extra [4][]float32 // skip, bias, gamma, beta
	for i, at := range [4]int{1, biasAt, 2, betaAt} {
		if at < 0 {
			continue
		}
		extra[i] = spread[float32]([]string{"skip", "bias", "gamma", "beta"}[i], c.Array(at), x.Shape)
	}
	sum := slices.Clone(elements[float32](x))
	scaleShift(sum, nil, extra[0])
	scaleShift(sum, nil, extra[1])
	setResult(c, 3, x.DType, x.Shape, sum)
	row := statWriter(c, 1, 2, s, x)
	y := newResult[float32](c, 0, x.DType, x.Shape...)
	normalizeSuffix(s, sum, y.V, row)
	scaleShift(y.V, extra[2], extra[3])
	y.store()
}

// EmbedLayerNormalization sums word, position and segment embeddings and
// normalizes them, of the com.microsoft domain:
//
//	sum    = word[input_ids] + position[position_ids] + segment[segment_ids]     result 2
//	output = LayerNormalization(sum) * gamma + beta
//
// Result 1 counts the ones of every row of mask. Positions count from 0 when
// position_ids is absent.
var EmbedLayerNormalization = Op{
	Domain: microsoft, Name: "EmbedLayerNormalization", Since: 1, Doc: "output = LayerNormalization(word[ids] + position + segment[ids])",
	MinIn: 1, MaxIn: 9, MinOut: 1, MaxOut: 3,
	Attrs: []AttrSpec{floatAttr("epsilon", 1e-12), intAttr("mask_index_type")},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		ids, w := InType(n, 0), InType(n, 2)
		y := ssa.TensorOf(w.DType, dimOf(ids, 0), dimOf(ids, 1), dimOf(w, 1))
		return []Inferred{{Type: y}, {Type: ssa.TensorOf(ids.DType, dimOf(ids, 0))}, {Type: y}}
	}),
	Eval: kernel(evalEmbedNorm),
}

func evalEmbedNorm(c *Call) {
	ids, words, positions, segments := c.Array(0), c.Array(2), c.Array(3), c.Array(4)
	for i, a := range []*ndarray.Array{ids, words, positions} {
		wantRank([]string{"input_ids", "word_embedding", "position_embedding"}[i], a, 2)
	}
	batch, seq, hidden := ids.Shape[0], ids.Shape[1], words.Shape[1]
	for i, a := range []*ndarray.Array{c.Array(1), c.Array(7)} {
		wantShape([]string{"segment_ids", "mask"}[i], a, batch, seq)
	}
	for i, a := range []*ndarray.Array{c.Array(5), c.Array(6)} {
		wantRank([]string{"gamma", "beta"}[i], a, 1)
		wantLen("gamma or beta", a, hidden)
	}
	if c.Has(1) != c.Has(4) {
		failf("segment_ids and segment_embedding come together")
	}
	sum := make([]float32, batch*seq*hidden)
	position := func(i int) int64 { return int64(i % seq) }
	if p := c.Array(8); p != nil {
		if p.Rank() != 2 || p.Shape[1] != seq || p.Shape[0] != batch && p.Shape[0] != 1 {
			failf("position_ids have shape %v", p.Shape)
		}
		position = func(i int) int64 { return p.Int(i % p.Len()) }
	}
	addRows(sum, words, hidden, ids.Int)
	addRows(sum, positions, hidden, position)
	if segments != nil {
		addRows(sum, segments, hidden, c.Array(1).Int)
	}
	storeEmbedNorm(c, sum, []int{batch, seq, hidden})
}

// addRows adds row index(i) of table to every row i of sum.
func addRows(sum []float32, table *ndarray.Array, width int, index func(i int) int64) {
	if table.Rank() != 2 || table.Shape[1] != width {
		failf("an embedding table has shape %v, expected [rows,%d]", table.Shape, width)
	}
	v := elements[float32](table)
	for i := 0; i*width < len(sum); i++ {
		k := index(i)
		if k < 0 || k >= int64(table.Shape[0]) {
			failf("index %d is outside an embedding table of %d rows", k, table.Shape[0])
		}
		addScaled(sum[i*width:(i+1)*width], 1, v[int(k)*width:][:width])
	}
}

func storeEmbedNorm(c *Call, sum []float32, shape []int) {
	words, ids, mask := c.Array(2), c.Array(0), c.Array(7)
	setResult(c, 2, words.DType, shape, sum)
	if c.Wants(1) {
		out := result(c, 1, ids.DType, shape[0])
		for b := range shape[0] {
			count := int64(0)
			for i := 0; mask != nil && i < shape[1]; i++ {
				if mask.Int(b*shape[1]+i) == 1 {
					count++
				}
			}
			out.SetInt(b, count)
		}
	}
	y := newResult[float32](c, 0, words.DType, shape...)
	s := suffixNorm{axis: 2, outer: shape[0] * shape[1], inner: shape[2], center: true, stash: ndarray.Float32,
		eps: float64(Float(c.Node, "epsilon"))}
	normalizeSuffix(s, sum, y.V, nil)
	scaleShift(y.V, elements[float32](c.Array(5)), elements[float32](c.Array(6)))
	y.store()
}
