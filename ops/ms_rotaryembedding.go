package ops

import (
	"github.com/berth-onnx/berth/ndarray"
)

// MSRotaryEmbedding is RotaryEmbedding of the com.microsoft domain: positions
// come before the caches, one position stands for a run that starts there, and
// the head size of a packed operand follows from the caches unless
// rotary_embedding_dim is given.
var MSRotaryEmbedding = Op{
	Domain: microsoft, Name: "RotaryEmbedding", Since: 1, Doc: "rotate pairs of input by the angles of position_ids",
	MinIn: 4, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("interleaved"), intAttr("is_packed_batching"), intAttr("num_heads"),
		intAttr("rotary_embedding_dim"), floatAttr("scale", 1)},
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: floatKernel(evalMSRotary[float32], evalMSRotary[float64]),
}

func evalMSRotary[T float32 | float64](c *Call) {
	a, ids, cos, sin := tensor(c, 0), tensor(c, 1), tensor(c, 2), tensor(c, 3)
	wantRank("cos_cache", cos, 2)
	n, dim := int(Int(c.Node, "num_heads")), int(Int(c.Node, "rotary_embedding_dim"))
	if dim == 0 {
		dim = 2 * cos.Shape[1]
		if a.Rank() == 3 && dim > 0 {
			n = a.Shape[2] / dim
		}
	}
	x := headsOf[T]("input", a, n)
	if ids.Len() == 1 && ids.Rank() <= 1 {
		ids = runFrom(ids.Int(0), x.batch, x.seq)
	}
	r := newRotation(cos, sin, ids, x, dim)
	r.interleaved = Int(c.Node, "interleaved") != 0
	if s := Float(c.Node, "scale"); s != 1 {
		failf("scale=%g: %w", s, ErrUnsupported)
	}
	r.eval(c, x)
}

// runFrom is the positions start, start+1, … of every batch.
func runFrom(start int64, batch, seq int) *ndarray.Array {
	ids := make([]int64, batch*seq)
	for i := range ids {
		ids[i] = start + int64(i%seq)
	}
	return ndarray.Of(ids, batch, seq)
}
