package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// RotaryEmbedding rotates pairs of every head's vector by an angle that depends
// on the position: https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
//
//	(a, b) -> (a*cos - b*sin, a*sin + b*cos)
//
// Pairs are (i, i+half) or, interleaved, (2i, 2i+1); only the first
// rotary_embedding_dim elements take part. Source: https://arxiv.org/abs/2104.09864
var RotaryEmbedding = ops.Op{
	Name: "RotaryEmbedding", Since: 23, Doc: "rotate pairs of X by the angles in cos_cache and sin_cache",
	MinIn: 3, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("interleaved", 0), ops.IntAttr("num_heads"), ops.IntAttr("rotary_embedding_dim", 0)},
	Infer: kit.Rule(inferRotary),
	Eval:  kit.FloatKernel(evalRotary[float32], evalRotary[float64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
}

func inferRotary(n *ssa.Node) []ops.Inferred {
	x := ops.InType(n, 0)
	if x.Ranked && x.Rank() != 3 && x.Rank() != 4 || x.Rank() == 3 && ops.Int(n, "num_heads") == 0 {
		kit.Failf("X is %s; it must have rank 4, or rank 3 with num_heads", x)
	}
	return ops.One(x)
}

func evalRotary[T float32 | float64](c *ops.Call) {
	a := kit.Tensor(c, 0)
	x := HeadsOf[T](c, "X", a, int(ops.Int(c.Node, "num_heads")))
	r := NewRotation(c, kit.Tensor(c, 1), kit.Tensor(c, 2), c.Array(3), x, int(ops.Int(c.Node, "rotary_embedding_dim")))
	r.Interleaved = ops.Int(c.Node, "interleaved") != 0
	r.Eval(c, x)
}
