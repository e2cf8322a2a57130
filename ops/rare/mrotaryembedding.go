package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MRotaryEmbedding is RotaryEmbedding with three positions per token, time, height
// and width, of the com.microsoft domain; mrope_section says how many of the angles
// each of the three gives:
//
//	mrope_layout 0    T…T H…H W…W
//	mrope_layout 1    T H W T H W … T…T: H at 1, 4, …, W at 2, 5, …, as many as theirs
//
// Source: https://arxiv.org/abs/2409.12191
var MRotaryEmbedding = ops.Op{
	Domain: contrib.Microsoft, Name: "MRotaryEmbedding", Since: 1, Doc: "rotate pairs of input by angles of three positions each",
	MinIn: 4, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("interleaved"), ops.IntAttr("is_packed_batching"), ops.IntAttr("mrope_layout").Between(0, 1),
		ops.IntsAttr("mrope_section").Mandatory().AtLeast(0), ops.IntAttr("num_heads"), ops.IntAttr("rotary_embedding_dim"),
		ops.FloatAttr("scale", 1)},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst}, Eval: kit.FloatKernel(evalMRotary, nil),
}

func evalMRotary(c *ops.Call) {
	watch := kit.Watching(c)
	a, ids, cos, sin := c.Array(0), c.Array(1), c.Array(2), c.Array(3)
	kit.WantRank("cos_cache", cos, 2)
	if s := ops.Float(c.Node, "scale"); s != 1 {
		kit.Failf("scale=%g: %w", s, ops.ErrUnsupported)
	}
	half := cos.Shape[1]
	n, dim := int(ops.Int(c.Node, "num_heads")), int(ops.Int(c.Node, "rotary_embedding_dim"))
	if dim == 0 && a.Rank() == 3 && half > 0 {
		n = a.Shape[2] / (2 * half)
	}
	x := nn.HeadsOf[float32](c, "input", a, n)
	kit.WantShape("position_ids", ids, 3, x.Batch, x.Seq)
	stream := angleStreams(c.Node, half)
	positions := kit.Elements[int64](c, ids)
	for _, p := range positions {
		watch.Did(1)
		if p < 0 || p >= int64(cos.Shape[0]) {
			kit.Failf("position %d is outside a cache of %d positions", p, cos.Shape[0])
		}
	}
	// one row of angles per token, gathered from three
	gathered := func(v []float32) []float32 {
		tokens := x.Batch * x.Seq
		out := kit.Make[float32](c, tokens*half)
		for t := range tokens {
			for i, s := range stream {
				watch.Did(1)
				out[t*half+i] = v[int(positions[s*tokens+t])*half+i]
			}
		}
		return out
	}
	kit.WantShape("sin_cache", sin, cos.Shape...)
	if 2*half > x.Size || dim != 0 && dim != 2*half {
		kit.Failf("a cache of %d angles does not fit heads of size %d with rotary_embedding_dim=%d", half, x.Size, dim)
	}
	r := &nn.Rotation[float32]{Cos: gathered(kit.Elements[float32](c, cos)), Sin: gathered(kit.Elements[float32](c, sin)), Half: half, Scale: 1,
		Interleaved: ops.Int(c.Node, "interleaved") != 0, Row: func(b, s int) int { return b*x.Seq + s }}
	r.Eval(c, x)
}

// angleStreams says for every angle which of the three positions it belongs to.
func angleStreams(n *ssa.Node, half int) []int {
	section := ops.Ints(n, "mrope_section")
	if len(section) != 3 || section[0]+section[1]+section[2] != int64(half) {
		kit.Failf("mrope_section=%v does not divide %d angles among three positions", section, half)
	}
	out := make([]int, half)
	if ops.Int(n, "mrope_layout") == 0 {
		for i := range out {
			out[i] = kit.Btoi(int64(i) >= section[0]) + kit.Btoi(int64(i) >= section[0]+section[1])
		}
		return out
	}
	for s := 1; s <= 2; s++ {
		for i := s; i < half && int64(i) < 3*section[s]; i += 3 {
			out[i] = s
		}
	}
	return out
}
