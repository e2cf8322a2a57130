package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// DeformConv is convolution whose taps are moved by per-position offsets and
// weighted by a mask: https://onnx.ai/onnx/operators/onnx__DeformConv.html
//
//	Y[n,m,o] = B[m] + sum over c,k of W[m,c,k] * mask[n,k,o] * X[n,c, o*stride + k*dilation - pad + offset[n,k,o]]
//
// X at a fractional position is the multilinear mean of its 2^r neighbours;
// neighbours outside the input count as 0. Sources: https://arxiv.org/abs/1703.06211
// (offsets), https://arxiv.org/abs/1811.11168 (mask).
var DeformConv = Op{
	Name: "DeformConv", Since: 22, Form: sinceTypes(19, 22, ndarray.BFloat16), Doc: "convolution with learned tap offsets and weights",
	MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("dilations"), intAttr("group", 1).atLeast(1), intsAttr("kernel_shape"),
		intAttr("offset_group", 1), intsAttr("pads"), intsAttr("strides")},
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferConv(n, 0, 1, InType(n, 0).DType)
		return One(t)
	}),
	Eval:  floatKernel(evalDeformConv[float32], evalDeformConv[float64]),
	Facts: Facts{Traits: general, Cost: convCost(1)},
}

func evalDeformConv[T float32 | float64](c *Call) {
	x, w, off, b, mask := tensor(c, 0), tensor(c, 1), tensor(c, 2), c.Array(3), c.Array(4)
	s := convShapeOf(c.Node, x.Shape, w.Shape)
	og, taps, r := int(Int(c.Node, "offset_group")), s.win.taps(), len(s.win.kernel)
	if og < 1 || s.c%og != 0 {
		failf("offset_group=%d does not divide %d channels", og, s.c)
	}
	wantShape("offset", off, append([]int{s.n, og * taps * r}, s.win.out...)...)
	wantShape("mask", mask, append([]int{s.n, og * taps}, s.win.out...)...)
	wantLen("bias", b, s.m)
	y := newResult[T](c, 0, x.DType, s.yShape()...)
	d := deformer[T]{s: &s, offGroups: og, x: elements[T](x), off: elements[T](off), mask: elements[T](mask)}
	d.run(elements[T](w), elements[T](b), y.V)
	y.store()
}

// deformer unrolls deformed windows.
type deformer[T float32 | float64] struct {
	s            *convShape
	offGroups    int
	x, off, mask []T
}

func (d *deformer[T]) run(w, bias, y []T) {
	s := d.s
	outs, taps := sizeOf(s.win.out), s.win.taps()
	cg, mg := s.c/s.group, s.m/s.group
	fillBias(y, bias, s.m, outs)
	if len(y) == 0 {
		return
	}
	cols := make([]T, s.c*taps*outs)
	for i := range s.n {
		for ch := range s.c {
			d.unrollChannel(i, ch, cols[ch*taps*outs:(ch+1)*taps*outs])
		}
		for g := range s.group {
			rows := cg * taps
			matMulAdd(mg, outs, rows, w[g*mg*rows:], rows, cols[g*rows*outs:], outs, y[(i*s.m+g*mg)*outs:], outs)
		}
	}
}

// unrollChannel samples one channel of one image for every tap and output.
func (d *deformer[T]) unrollChannel(image, ch int, cols []T) {
	s := d.s
	w := &s.win
	outs, plane, r := sizeOf(w.out), sizeOf(w.in), len(w.kernel)
	group := image*d.offGroups + ch/(s.c/d.offGroups)
	x := d.x[(image*s.c+ch)*plane:][:plane]
	pos := make([]float64, r)
	tap := 0
	EachIndex(w.kernel, func(k []int) {
		slot := group*w.taps() + tap
		o := 0
		EachIndex(w.out, func(at []int) {
			for i := range pos {
				base := at[i]*w.strides[i] + k[i]*w.dilations[i] - w.begin[i]
				pos[i] = float64(base) + float64(d.off[(slot*r+i)*outs+o])
			}
			v := sampleLinear(x, w.in, pos)
			if d.mask != nil {
				v *= d.mask[slot*outs+o]
			}
			cols[tap*outs+o] = v
			o++
		})
		tap++
	})
}

// sampleLinear is the multilinear interpolation of a plane at pos, neighbours
// outside the plane counting as 0.
func sampleLinear[T float32 | float64](x []T, size []int, pos []float64) T {
	for i, p := range pos {
		if !(p > -1 && p < float64(size[i])) { // also NaN
			return 0
		}
	}
	var sum float64
	for corner := range 1 << len(pos) {
		weight, at := 1.0, 0
		for i, p := range pos {
			low := math.Floor(p)
			q, f := int(low), p-low
			if corner>>i&1 == 1 {
				q++
			} else {
				f = 1 - f
			}
			if q < 0 || q >= size[i] {
				weight = 0
				break
			}
			weight *= f
			at = at*size[i] + q
		}
		if weight != 0 {
			sum += weight * float64(x[at])
		}
	}
	return T(sum)
}
