package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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
var MSSimplifiedLayerNormalization = simplifiedNorm(Microsoft)

func simplifiedNorm(domain string) ops.Op {
	return ops.Op{
		Domain: domain, Name: "SimplifiedLayerNormalization", Since: 1, Doc: "Y = X / sqrt(mean(X²) + epsilon) * scale over the last dimensions",
		MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 2,
		Attrs: nn.NormAttrs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.NormCost},
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			y := kit.Retyped(ops.InType(n, 0), ops.InType(n, 1).DType)
			return []ops.Inferred{{Type: y}, {Type: nn.InferSuffixStats(n, ndarray.Float32)}}
		}),
		Eval: kit.FloatKernel(evalSimplifiedNorm[float32], evalSimplifiedNorm[float64]),
	}
}

func evalSimplifiedNorm[T float32 | float64](c *ops.Call) {
	x := kit.Tensor(c, 0)
	s := nn.SuffixNormOf(c.Node, x.Shape, false)
	if s.Stash = ndarray.Float32; x.DType == ndarray.Float64 {
		s.Stash = x.DType
	}
	scale := kit.Spread[T](c, "scale", kit.Tensor(c, 1), x.Shape)
	row := statWriter(c, -1, 1, s, x)
	y := kit.NewResult[T](c, 0, c.Array(1).DType, x.Shape...)
	nn.NormalizeSuffix(c, s, kit.Elements[T](c, x), y.V, row)
	nn.ScaleShift(c, y.V, scale, nil)
	y.Store()
}

// statWriter returns a function that stores mean and reciprocal deviation of
// every row as results meanAt and invAt, where they are wanted (-1: never).
func statWriter(c *ops.Call, meanAt, invAt int, s nn.SuffixNorm, x *ndarray.Array) func(r int, mean, inv float64) {
	var out [2]*ndarray.Array
	for i, at := range [2]int{meanAt, invAt} {
		if at < 0 || !c.Wants(at) {
			continue
		}
		out[i] = kit.Result(c, at, ndarray.Float32, s.StatShape(x.Shape)...)
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
var SkipLayerNormalization = ops.Op{
	Domain: Microsoft, Name: "SkipLayerNormalization", Since: 1, Doc: "output = LayerNormalization(input + skip + bias)",
	MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 4,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-12)}, Infer: kit.Rule(inferSkipNorm), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.NormCost},
	Eval: kit.FloatKernel(func(c *ops.Call) { skipNorm(c, true, 3, 4) }, nil),
}

// SkipSimplifiedLayerNormalization is the same without mean and beta:
//
//	output = sum / sqrt(mean(sum²) + epsilon) * gamma
var SkipSimplifiedLayerNormalization = ops.Op{
	Domain: Microsoft, Name: "SkipSimplifiedLayerNormalization", Since: 1, Doc: "output = SimplifiedLayerNormalization(input + skip + bias)",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 4,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-12)}, Infer: kit.Rule(inferSkipNorm), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.NormCost},
	Eval: kit.FloatKernel(func(c *ops.Call) { skipNorm(c, false, -1, 3) }, nil),
}

func inferSkipNorm(n *ssa.Node) []ops.Inferred {
	x := ops.InType(n, 0)
	stats := nn.InferSuffixStats(n, ndarray.Float32)
	return []ops.Inferred{{Type: x}, {Type: stats}, {Type: stats}, {Type: x}}
}

// skipNorm runs both; betaAt and biasAt are operand positions, -1 for none.
func skipNorm(c *ops.Call, center bool, betaAt, biasAt int) {
	x := kit.Tensor(c, 0)
	s := nn.SuffixNorm{Axis: x.Rank() - 1, Eps: float64(ops.Float(c.Node, "epsilon")), Center: center, Stash: ndarray.Float32}
	if x.Rank() < 1 {
		kit.Failf("input is a scalar")
	}
	s.Outer, s.Inner = kit.SizeOf(x.Shape[:s.Axis]), x.Shape[s.Axis]
	kit.Tensor(c, 1)
	kit.Tensor(c, 2)
	var extra [4][]float32 // skip, bias, gamma, beta
	for i, at := range [4]int{1, biasAt, 2, betaAt} {
		if at < 0 {
			continue
		}
		extra[i] = kit.Spread[float32](c, []string{"skip", "bias", "gamma", "beta"}[i], c.Array(at), x.Shape)
	}
	sum := kit.Copy(c, kit.Elements[float32](c, x))
	nn.ScaleShift(c, sum, nil, extra[0])
	nn.ScaleShift(c, sum, nil, extra[1])
	kit.SetResult(c, 3, x.DType, x.Shape, sum)
	row := statWriter(c, 1, 2, s, x)
	y := kit.NewResult[float32](c, 0, x.DType, x.Shape...)
	nn.NormalizeSuffix(c, s, sum, y.V, row)
	nn.ScaleShift(c, y.V, extra[2], extra[3])
	y.Store()
}

// EmbedLayerNormalization sums word, position and segment embeddings and
// normalizes them, of the com.microsoft domain:
//
//	sum    = word[input_ids] + position[position_ids] + segment[segment_ids]     result 2
//	output = LayerNormalization(sum) * gamma + beta
//
// Result 1 counts the ones of every row of mask. Positions count from 0 when
// position_ids is absent.
var EmbedLayerNormalization = ops.Op{
	Domain: Microsoft, Name: "EmbedLayerNormalization", Since: 1, Doc: "output = LayerNormalization(word[ids] + position + segment[ids])",
	MinIn: 1, MaxIn: 9, MinOut: 1, MaxOut: 3,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-12), ops.IntAttr("mask_index_type")},
	Facts: ops.Facts{Traits: ops.GeneralTraits, Whole: true}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		ids, w := ops.InType(n, 0), ops.InType(n, 2)
		y := ssa.TensorOf(w.DType, kit.DimOf(ids, 0), kit.DimOf(ids, 1), kit.DimOf(w, 1))
		return []ops.Inferred{{Type: y}, {Type: ssa.TensorOf(ids.DType, kit.DimOf(ids, 0))}, {Type: y}}
	}),
	Eval: kit.Kernel(evalEmbedNorm),
}

func evalEmbedNorm(c *ops.Call) {
	ids, words, positions, segments := c.Array(0), c.Array(2), c.Array(3), c.Array(4)
	for i, a := range []*ndarray.Array{ids, words, positions} {
		kit.WantRank([]string{"input_ids", "word_embedding", "position_embedding"}[i], a, 2)
	}
	batch, seq, hidden := ids.Shape[0], ids.Shape[1], words.Shape[1]
	for i, a := range []*ndarray.Array{c.Array(1), c.Array(7)} {
		kit.WantShape([]string{"segment_ids", "mask"}[i], a, batch, seq)
	}
	for i, a := range []*ndarray.Array{c.Array(5), c.Array(6)} {
		kit.WantRank([]string{"gamma", "beta"}[i], a, 1)
		kit.WantLen("gamma or beta", a, hidden)
	}
	if c.Has(1) != c.Has(4) {
		kit.Failf("segment_ids and segment_embedding come together")
	}
	sum := kit.Make[float32](c, batch*seq*hidden)
	position := func(i int) int64 { return int64(i % seq) }
	if p := c.Array(8); p != nil {
		if p.Rank() != 2 || p.Shape[1] != seq || p.Shape[0] != batch && p.Shape[0] != 1 {
			kit.Failf("position_ids have shape %v", p.Shape)
		}
		position = func(i int) int64 { return p.Int(i % p.Len()) }
	}
	addRows(c, sum, words, hidden, ids.Int)
	addRows(c, sum, positions, hidden, position)
	if segments != nil {
		addRows(c, sum, segments, hidden, c.Array(1).Int)
	}
	storeEmbedNorm(c, sum, []int{batch, seq, hidden})
}

// addRows adds row index(i) of table to every row i of sum.
func addRows(c *ops.Call, sum []float32, table *ndarray.Array, width int, index func(i int) int64) {
	watch := kit.Watching(c)
	if table.Rank() != 2 || table.Shape[1] != width {
		kit.Failf("an embedding table has shape %v, expected [rows,%d]", table.Shape, width)
	}
	v := kit.Elements[float32](c, table)
	for i := 0; i*width < len(sum); i++ {
		watch.Did(width)
		k := index(i)
		if k < 0 || k >= int64(table.Shape[0]) {
			kit.Failf("index %d is outside an embedding table of %d rows", k, table.Shape[0])
		}
		kit.AddScaled(sum[i*width:(i+1)*width], 1, v[int(k)*width:][:width])
	}
}

func storeEmbedNorm(c *ops.Call, sum []float32, shape []int) {
	watch := kit.Watching(c)
	words, ids, mask := c.Array(2), c.Array(0), c.Array(7)
	kit.SetResult(c, 2, words.DType, shape, sum)
	if c.Wants(1) {
		out := kit.Result(c, 1, ids.DType, shape[0])
		for b := range shape[0] {
			count := int64(0)
			for i := 0; mask != nil && i < shape[1]; i++ {
				watch.Did(1)
				if mask.Int(b*shape[1]+i) == 1 {
					count++
				}
			}
			out.SetInt(b, count)
		}
	}
	y := kit.NewResult[float32](c, 0, words.DType, shape...)
	s := nn.SuffixNorm{Axis: 2, Outer: shape[0] * shape[1], Inner: shape[2], Center: true, Stash: ndarray.Float32,
		Eps: float64(ops.Float(c.Node, "epsilon"))}
	nn.NormalizeSuffix(c, s, sum, y.V, nil)
	nn.ScaleShift(c, y.V, kit.Elements[float32](c, c.Array(5)), kit.Elements[float32](c, c.Array(6)))
	y.Store()
}
