package ops

import "github.com/berth-onnx/berth/ssa"

// RotaryEmbedding rotates pairs of every head's vector by an angle that depends
// on the position: https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
//
//	(a, b) -> (a*cos - b*sin, a*sin + b*cos)
//
// Pairs are (i, i+half) or, interleaved, (2i, 2i+1); only the first
// rotary_embedding_dim elements take part. Source: https://arxiv.org/abs/2104.09864
var RotaryEmbedding = Op{
	Name: "RotaryEmbedding", Since: 23, Doc: "rotate pairs of X by the angles in cos_cache and sin_cache",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "interleaved", Kind: ssa.AttrInt}, {Name: "num_heads", Kind: ssa.AttrInt}, {Name: "rotary_embedding_dim", Kind: ssa.AttrInt}},
	Infer: SameAs,
	Eval:  floatKernel(evalRotary[float32], evalRotary[float64]),
	Facts: Facts{InPlace: inPlaceFirst},
}

func evalRotary[T float32 | float64](c *Call) {
	a := tensor(c, 0)
	x := headsOf[T]("X", a, int(c.Node.Int("num_heads", 0)))
	r := newRotation(tensor(c, 1), tensor(c, 2), c.Array(3), x, int(c.Node.Int("rotary_embedding_dim", 0)))
	r.interleaved = c.Node.Int("interleaved", 0) != 0
	r.eval(c, x)
}
