package convolve

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// PoolGradient sends the derivative of a maximum to where it was, plane by plane.
type PoolGradient struct {
	s        PoolSpec
	t        *simd.Table
	out      [2]int
	disjoint bool // windows do not overlap: each is read before it is written, so that the result may lie over the operand
}

// NewPoolGradient prepares it for the window of a pooling and the sizes of its result.
func NewPoolGradient(s PoolSpec, out [2]int) *PoolGradient {
	return &PoolGradient{s, simd.Active(), out, s.Kernel == s.Stride && s.Dilation == [2]int{1, 1} && s.PadBegin == [2]int{} && s.PadEnd == [2]int{}}
}

// Plane computes y of one plane.
func (k *PoolGradient) Plane(x, d, y []float32) {
	if !k.disjoint {
		clear(y)
		for row := range k.out[0] {
			for col := range k.out[1] {
				if at := k.best(x, row, col); at >= 0 {
					y[at] += d[row*k.out[1]+col]
				}
			}
		}
		return
	}
	width, height, wide := k.s.Kernel[1], k.s.Kernel[0], k.s.In[1]
	for row := range k.out[0] {
		at, by := row*height*wide, d[row*k.out[1]:][:k.out[1]]
		covered := width * len(by)
		if width == 2 && height == 2 {
			k.fourths(y[at:][:covered], y[at+wide:][:covered], x[at:][:covered], x[at+wide:][:covered], by)
		} else {
			for col, v := range by {
				best := k.best(x, row, col)
				for r := range height {
					clear(y[at+r*wide+col*width:][:width])
				}
				y[best] = v
			}
		}
		for r := range height {
			clear(y[at+r*wide+covered : at+(r+1)*wide])
		}
	}
	clear(y[k.out[0]*height*wide:])
}

// best is where the first maximum of a window is, -1 for one that is all padding.
func (k *PoolGradient) best(x []float32, row, col int) int {
	s, best := &k.s, -1
	for ky := range s.Kernel[0] {
		for kx := range s.Kernel[1] {
			r, u := row*s.Stride[0]+ky*s.Dilation[0]-s.PadBegin[0], col*s.Stride[1]+kx*s.Dilation[1]-s.PadBegin[1]
			if at := r*s.In[1] + u; r >= 0 && r < s.In[0] && u >= 0 && u < s.In[1] && (best < 0 || x[at] > x[best]) {
				best = at
			}
		}
	}
	return best
}

// fourths is a line of windows of 2×2: y0, x0 are the upper halves, y1, x1 the lower ones.
func (k *PoolGradient) fourths(y0, y1, x0, x1, d []float32) {
	n := k.t.Fourths(y0, y1, x0, x1, d)
	fourths(y0[2*n:], y1[2*n:], x0[2*n:], x1[2*n:], d[n:])
}

// fourths does so without branches, which would be mispredicted.
func fourths(y0, y1, x0, x1, d []float32) {
	for i, v := range d {
		a, b, e, f := x0[2*i], x0[2*i+1], x1[2*i], x1[2*i+1]
		right, left := mask(b > a), mask(f > e)
		above, below := choose(right, b, a), choose(left, f, e)
		low := mask(below > above)
		bits := math.Float32bits(v)
		y0[2*i], y0[2*i+1] = math.Float32frombits(bits&^low&^right), math.Float32frombits(bits&^low&right)
		y1[2*i], y1[2*i+1] = math.Float32frombits(bits&low&^left), math.Float32frombits(bits&low&left)
	}
}

// mask has all bits of a condition that holds, and none of another.
func mask(holds bool) uint32 {
	m := uint32(0)
	if holds {
		m = math.MaxUint32
	}
	return m
}

// choose is a where the mask is set, else b.
func choose(m uint32, a, b float32) float32 {
	return math.Float32frombits(math.Float32bits(a)&m | math.Float32bits(b)&^m)
}
