package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Rotation is the angles of every position and how to apply them.
type Rotation[T kit.RealNum] struct {
	Cos, Sin    []T // rows of half angles
	Half        int // pairs per vector
	Interleaved bool
	Scale       T // applied to the rotated part
	Row         func(b, s int) int
}

// apply rotates one vector; dst and src may be the same.
func (r *Rotation[T]) apply(dst, src []T, b, s int) {
	at := r.Row(b, s) * r.Half
	cos, sin := r.Cos[at:at+r.Half], r.Sin[at:at+r.Half]
	copy(dst[2*r.Half:], src[2*r.Half:])
	for i := range r.Half {
		p, q := i, i+r.Half
		if r.Interleaved {
			p, q = 2*i, 2*i+1
		}
		x, y := src[p], src[q]
		dst[p], dst[q] = (x*cos[i]-y*sin[i])*r.Scale, (x*sin[i]+y*cos[i])*r.Scale
	}
}

// ApplyAll rotates every vector of x into out.
func (r *Rotation[T]) ApplyAll(c *ops.Call, out, x Heads[T]) {
	w := kit.Watching(c)
	for b := range x.Batch {
		for h := range x.N {
			for s := range x.Seq {
				w.Did(x.Size)
				r.apply(out.At(b, h, s), x.At(b, h, s), b, s)
			}
		}
	}
}

// NewRotation checks the caches: [positions, half] with position ids, else one
// row per batch and position [B,S,half].
func NewRotation[T kit.RealNum](c *ops.Call, cos, sin, ids *ndarray.Array, x Heads[T], dim int) *Rotation[T] {
	if dim == 0 {
		dim = x.Size
	}
	if dim < 0 || dim > x.Size || dim%2 != 0 {
		kit.Failf("a rotary dimension of %d does not fit heads of size %d", dim, x.Size)
	}
	r := &Rotation[T]{Cos: kit.Elements[T](c, cos), Sin: kit.Elements[T](c, sin), Half: dim / 2, Scale: 1}
	kit.WantShape("sin_cache", sin, cos.Shape...)
	if ids == nil {
		r.Row = func(b, s int) int { return b*x.Seq + s }
		kit.WantShape("cos_cache", cos, x.Batch, x.Seq, r.Half)
		return r
	}
	if cos.Rank() != 2 || cos.Shape[1] != r.Half {
		kit.Failf("cos_cache has shape %v, expected [positions,%d]", cos.Shape, r.Half)
	}
	kit.WantShape("position_ids", ids, x.Batch, x.Seq)
	rows := kit.Elements[int64](c, ids)
	w := kit.Watching(c)
	for _, p := range rows {
		w.Did(1)
		if p < 0 || p >= int64(cos.Shape[0]) {
			kit.Failf("position %d is outside a cache of %d positions", p, cos.Shape[0])
		}
	}
	r.Row = func(b, s int) int { return int(rows[b*x.Seq+s]) }
	return r
}

// Eval stores operand 0 of a call, seen as heads x, rotated as result 0.
func (r *Rotation[T]) Eval(c *ops.Call, x Heads[T]) {
	a := c.Array(0)
	y := kit.NewResult[T](c, 0, a.DType, a.Shape...)
	out := x
	out.V = y.V
	r.ApplyAll(c, out, x)
	y.Store()
}
