package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
)

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
	Eval:  func(c *Call) error { return byReal(c, 0, evalRotary[float32], evalRotary[float64]) },
	Facts: Facts{Traits: general, InPlace: inPlaceFirst},
}

// rotation is the angles of every position and how to apply them.
type rotation[T realNum] struct {
	cos, sin    []T // rows of half angles
	half        int // pairs per vector
	interleaved bool
	scale       T // applied to the rotated part
	row         func(b, s int) int
}

// apply rotates one vector; dst and src may be the same.
func (r *rotation[T]) apply(dst, src []T, b, s int) {
	at := r.row(b, s) * r.half
	cos, sin := r.cos[at:at+r.half], r.sin[at:at+r.half]
	copy(dst[2*r.half:], src[2*r.half:])
	for i := range r.half {
		p, q := i, i+r.half
		if r.interleaved {
			p, q = 2*i, 2*i+1
		}
		x, y := src[p], src[q]
		dst[p], dst[q] = (x*cos[i]-y*sin[i])*r.scale, (x*sin[i]+y*cos[i])*r.scale
	}
}

// applyAll rotates every vector of x into out.
func (r *rotation[T]) applyAll(out, x heads[T]) {
	for b := range x.batch {
		for h := range x.n {
			for s := range x.seq {
				r.apply(out.at(b, h, s), x.at(b, h, s), b, s)
			}
		}
	}
}

// newRotation checks the caches: [positions, half] with position ids, else one
// row per batch and position [B,S,half].
func newRotation[T realNum](cos, sin, ids *ndarray.Array, x heads[T], dim int) (*rotation[T], error) {
	if dim == 0 {
		dim = x.size
	}
	if dim < 0 || dim > x.size || dim%2 != 0 {
		return nil, fmt.Errorf("a rotary dimension of %d does not fit heads of size %d", dim, x.size)
	}
	r := &rotation[T]{cos: reals[T](cos), sin: reals[T](sin), half: dim / 2, scale: 1}
	if err := wantShape("sin_cache", sin, cos.Shape...); err != nil {
		return nil, err
	}
	if ids == nil {
		r.row = func(b, s int) int { return b*x.seq + s }
		return r, wantShape("cos_cache", cos, x.batch, x.seq, r.half)
	}
	if cos.Rank() != 2 || cos.Shape[1] != r.half {
		return nil, fmt.Errorf("cos_cache has shape %v, expected [positions,%d]", cos.Shape, r.half)
	}
	if err := wantShape("position_ids", ids, x.batch, x.seq); err != nil {
		return nil, err
	}
	rows := ids.Ints()
	for _, p := range rows {
		if p < 0 || p >= int64(cos.Shape[0]) {
			return nil, fmt.Errorf("position %d is outside a cache of %d positions", p, cos.Shape[0])
		}
	}
	r.row = func(b, s int) int { return int(rows[b*x.seq+s]) }
	return r, nil
}

// eval makes the first result of a call: its first operand, seen as heads x, rotated.
func (r *rotation[T]) eval(c *Call, x heads[T]) error {
	a := c.Array(0)
	y, err := newReal[T](c, 0, a.DType, a.Shape...)
	if err != nil {
		return err
	}
	out := x
	out.v = y.V
	r.applyAll(out, x)
	return y.store()
}

func evalRotary[T float32 | float64](c *Call) error {
	if err := wantArrays(c, 3); err != nil {
		return err
	}
	a := c.Array(0)
	x, err := headsOf[T]("X", a, int(Int(c.Node, "num_heads")))
	if err != nil {
		return err
	}
	r, err := newRotation(c.Array(1), c.Array(2), c.Array(3), x, int(Int(c.Node, "rotary_embedding_dim")))
	if err != nil {
		return err
	}
	r.interleaved = Int(c.Node, "interleaved") != 0
	return r.eval(c, x)
}
