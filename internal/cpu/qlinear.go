package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Arithmetic of quantized tensors in one pass over their bytes:
//
//	round((a − za)·sa/sy + (b − zb)·sb/sy + zy)  =  round(a·fa + b·fb + start)
//
// The factors are rounded once, so where a result lies within 2⁻¹³ of its step of the middle
// between two integers, it may be the other one.

var qLinearOps = []entry{
	{domain: microsoft, op: "QLinearAdd", prepare: prepareQLinearAdd},
}

// qLinearAdd is the sum of two tensors of one shape.
type qLinearAdd struct {
	signed bool
	zeros  [3]int // operand positions, -1 for none
}

func prepareQLinearAdd(p *prep) (ops.Kernel, error) {
	k := &qLinearAdd{}
	dt := p.in[0].dt
	for i, at := range []int{0, 3, 5} {
		scale, zero := at+1, at+2
		if !isByte(dt) || i < 2 && (p.in[at].dt != dt || !slices.Equal(p.in[at].shape, p.out[0].shape)) ||
			p.in[scale].n != 1 || p.in[scale].dt != ndarray.Float32 || p.has(zero) && (p.in[zero].n != 1 || p.in[zero].dt != dt) {
			return nil, nil
		}
		k.zeros[i] = present(p, zero)
	}
	k.signed = dt == ndarray.Int8
	return elementwise(p.out[0].n, TileElems, k.add), nil
}

// add computes elements lo up to hi.
func (k *qLinearAdd) add(c *ops.Call, lo, hi int) {
	sa, sb, sy := float64(f32(c.In[1])[0]), float64(f32(c.In[4])[0]), float64(f32(c.In[6])[0])
	fa, fb := float32(sa/sy), float32(sb/sy)
	start := k.zero(c, 2) - k.zero(c, 0)*float64(fa) - k.zero(c, 1)*float64(fb)
	vec.AddQuantized(arrayOf(c.Out[0]).Data[lo:hi], arrayOf(c.In[0]).Data[lo:hi], arrayOf(c.In[3]).Data[lo:hi], k.signed, fa, fb, float32(start))
}

// zero is the zero point of an operand or the result.
func (k *qLinearAdd) zero(c *ops.Call, i int) float64 {
	if k.zeros[i] < 0 {
		return 0
	}
	return float64(byteOf(arrayOf(c.In[k.zeros[i]]), 0))
}
