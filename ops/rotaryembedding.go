package ops

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
	Attrs: []AttrSpec{intAttr("interleaved", 0), intAttr("num_heads"), intAttr("rotary_embedding_dim", 0)},
	Infer: SameAs,
	Eval:  floatKernel(evalRotary[float32], evalRotary[float64]),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst},
}

func evalRotary[T float32 | float64](c *Call) {
	a := tensor(c, 0)
	x := headsOf[T]("X", a, int(Int(c.Node, "num_heads")))
	r := newRotation(tensor(c, 1), tensor(c, 2), c.Array(3), x, int(Int(c.Node, "rotary_embedding_dim")))
	r.interleaved = Int(c.Node, "interleaved") != 0
	r.eval(c, x)
}
