package ops

import "github.com/berth-onnx/berth/ssa"

// MRotaryEmbedding is RotaryEmbedding with three positions per token, time, height
// and width, of the com.microsoft domain; mrope_section says how many of the angles
// each of the three gives:
//
//	mrope_layout 0    T…T H…H W…W
//	mrope_layout 1    T H W T H W … T…T: H at 1, 4, …, W at 2, 5, …, as many as theirs
//
// Source: https://arxiv.org/abs/2409.12191
var MRotaryEmbedding = Op{
	Domain: microsoft, Name: "MRotaryEmbedding", Since: 1, Doc: "rotate pairs of input by angles of three positions each",
	MinIn: 4, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("interleaved"), intAttr("is_packed_batching"), intAttr("mrope_layout"),
		intsAttr("mrope_section").required(), intAttr("num_heads"), intAttr("rotary_embedding_dim"),
		floatAttr("scale", 1)},
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst}, Eval: floatKernel(evalMRotary, nil),
}

func evalMRotary(c *Call) {
	a, ids, cos, sin := c.Array(0), c.Array(1), c.Array(2), c.Array(3)
	wantRank("cos_cache", cos, 2)
	if s := Float(c.Node, "scale"); s != 1 {
		failf("scale=%g: %w", s, ErrUnsupported)
	}
	half := cos.Shape[1]
	n, dim := int(Int(c.Node, "num_heads")), int(Int(c.Node, "rotary_embedding_dim"))
	if dim == 0 && a.Rank() == 3 && half > 0 {
		n = a.Shape[2] / (2 * half)
	}
	x := headsOf[float32]("input", a, n)
	wantShape("position_ids", ids, 3, x.batch, x.seq)
	stream := angleStreams(c.Node, half)
	positions := ids.Ints()
	for _, p := range positions {
		if p < 0 || p >= int64(cos.Shape[0]) {
			failf("position %d is outside a cache of %d positions", p, cos.Shape[0])
		}
	}
	// one row of angles per token, gathered from three
	gathered := func(v []float32) []float32 {
		tokens := x.batch * x.seq
		out := make([]float32, tokens*half)
		for t := range tokens {
			for i, s := range stream {
				out[t*half+i] = v[int(positions[s*tokens+t])*half+i]
			}
		}
		return out
	}
	wantShape("sin_cache", sin, cos.Shape...)
	if 2*half > x.size || dim != 0 && dim != 2*half {
		failf("a cache of %d angles does not fit heads of size %d with rotary_embedding_dim=%d", half, x.size, dim)
	}
	r := &rotation[float32]{cos: gathered(elements[float32](cos)), sin: gathered(elements[float32](sin)), half: half, scale: 1,
		interleaved: Int(c.Node, "interleaved") != 0, row: func(b, s int) int { return b*x.seq + s }}
	r.eval(c, x)
}

// angleStreams says for every angle which of the three positions it belongs to.
func angleStreams(n *ssa.Node, half int) []int {
	section := Ints(n, "mrope_section")
	if len(section) != 3 || section[0] < 0 || section[1] < 0 || section[2] < 0 || section[0]+section[1]+section[2] != int64(half) {
		failf("mrope_section=%v does not divide %d angles among three positions", section, half)
	}
	out := make([]int, half)
	switch layout := Int(n, "mrope_layout"); layout {
	case 0:
		for i := range out {
			switch {
			case int64(i) >= section[0]+section[1]:
				out[i] = 2
			case int64(i) >= section[0]:
				out[i] = 1
			}
		}
	case 1:
		for s := 1; s <= 2; s++ {
			for i := s; i < half && int64(i) < 3*section[s]; i += 3 {
				out[i] = s
			}
		}
	default:
		failf("mrope_layout=%d is neither 0 nor 1", layout)
	}
	return out
}
