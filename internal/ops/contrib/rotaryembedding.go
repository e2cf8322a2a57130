package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// MSRotaryEmbedding is RotaryEmbedding of the com.microsoft domain: positions
// come before the caches, one position stands for a run that starts there, and
// the head size of a packed operand follows from the caches unless
// rotary_embedding_dim is given.
var MSRotaryEmbedding = ops.Op{
	Domain: Microsoft, Name: "RotaryEmbedding", Since: 1, Doc: "rotate pairs of input by the angles of position_ids",
	MinIn: 4, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("interleaved"), ops.IntAttr("is_packed_batching"), ops.IntAttr("num_heads"),
		ops.IntAttr("rotary_embedding_dim"), ops.FloatAttr("scale", 1)},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.FloatKernel(evalMSRotary[float32], evalMSRotary[float64]),
}

func evalMSRotary[T float32 | float64](c *ops.Call) {
	a, ids, cos, sin := kit.Tensor(c, 0), kit.Tensor(c, 1), kit.Tensor(c, 2), kit.Tensor(c, 3)
	kit.WantRank("cos_cache", cos, 2)
	n, dim := int(ops.Int(c.Node, "num_heads")), int(ops.Int(c.Node, "rotary_embedding_dim"))
	if dim == 0 {
		dim = 2 * cos.Shape[1]
		if a.Rank() == 3 && dim > 0 {
			n = a.Shape[2] / dim
		}
	}
	x := nn.HeadsOf[T](c, "input", a, n)
	if ids.Len() == 1 && ids.Rank() <= 1 {
		ids = runFrom(c, ids.Int(0), x.Batch, x.Seq)
	}
	r := nn.NewRotation(c, cos, sin, ids, x, dim)
	r.Interleaved = ops.Int(c.Node, "interleaved") != 0
	if s := ops.Float(c.Node, "scale"); s != 1 {
		kit.Failf("scale=%g: %w", s, ops.ErrUnsupported)
	}
	r.Eval(c, x)
}

// runFrom is the positions start, start+1, … of every batch.
func runFrom(c *ops.Call, start int64, batch, seq int) *ndarray.Array {
	watch := kit.Watching(c)
	ids := kit.Make[int64](c, batch*seq)
	for i := range ids {
		watch.Did(1)
		ids[i] = start + int64(i%seq)
	}
	return ndarray.Of(ids, batch, seq)
}
