package ops

import "github.com/berth-onnx/berth/ndarray"

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
func newRotation[T realNum](cos, sin, ids *ndarray.Array, x heads[T], dim int) *rotation[T] {
	if dim == 0 {
		dim = x.size
	}
	if dim < 0 || dim > x.size || dim%2 != 0 {
		failf("a rotary dimension of %d does not fit heads of size %d", dim, x.size)
	}
	r := &rotation[T]{cos: elements[T](cos), sin: elements[T](sin), half: dim / 2, scale: 1}
	wantShape("sin_cache", sin, cos.Shape...)
	if ids == nil {
		r.row = func(b, s int) int { return b*x.seq + s }
		wantShape("cos_cache", cos, x.batch, x.seq, r.half)
		return r
	}
	if cos.Rank() != 2 || cos.Shape[1] != r.half {
		failf("cos_cache has shape %v, expected [positions,%d]", cos.Shape, r.half)
	}
	wantShape("position_ids", ids, x.batch, x.seq)
	rows := ids.Ints()
	for _, p := range rows {
		if p < 0 || p >= int64(cos.Shape[0]) {
			failf("position %d is outside a cache of %d positions", p, cos.Shape[0])
		}
	}
	r.row = func(b, s int) int { return int(rows[b*x.seq+s]) }
	return r
}

// eval makes the first result of a call: its first operand, seen as heads x, rotated.
func (r *rotation[T]) eval(c *Call, x heads[T]) {
	a := c.Array(0)
	y := newResult[T](c, 0, a.DType, a.Shape...)
	out := x
	out.v = y.V
	r.applyAll(out, x)
	y.store()
}
