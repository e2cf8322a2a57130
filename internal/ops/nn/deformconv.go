package nn

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
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
func DeformConv() ops.Op {
	return ops.Op{
		Name: "DeformConv", Since: 22, Form: kit.SinceTypes(19, 22, ndarray.BFloat16), Doc: "convolution with learned tap offsets and weights",
		MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 1,
		Attrs: []*ops.AttrSpec{ops.IntsAttr("dilations").AtLeast(1), ops.IntAttr("group", 1).AtLeast(1), ops.IntsAttr("kernel_shape").AtLeast(1),
			ops.IntAttr("offset_group", 1).AtLeast(1), ops.IntsAttr("pads"), ops.IntsAttr("strides").AtLeast(1)},
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return InferConv(n, 0, 1, ops.InType(n, 0).DType) }),
		Eval:  kit.FloatKernel(evalDeformConv[float32], evalDeformConv[float64]),
		Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ConvCost(1)},
	}
}

func evalDeformConv[T float32 | float64](c *ops.Call) {
	x, w, off, b, mask := kit.Tensor(c, 0), kit.Tensor(c, 1), kit.Tensor(c, 2), c.Array(3), c.Array(4)
	s := ConvShapeOf(c.Node, x.Shape, w.Shape)
	og, taps, r := int(ops.Int(c.Node, "offset_group")), s.Win.taps(), len(s.Win.kernel)
	if s.C%og != 0 {
		kit.Failf("offset_group=%d does not divide %d channels", og, s.C)
	}
	kit.WantShape("offset", off, append([]int{s.N, og * taps * r}, s.Win.Out...)...)
	kit.WantShape("mask", mask, append([]int{s.N, og * taps}, s.Win.Out...)...)
	kit.WantLen("bias", b, s.M)
	y := kit.NewResult[T](c, 0, x.DType, s.YShape()...)
	d := deformer[T]{s: &s, offGroups: og, x: kit.Elements[T](c, x), off: kit.Elements[T](c, off), mask: kit.Elements[T](c, mask)}
	d.run(c, kit.Elements[T](c, w), kit.Elements[T](c, b), y.V)
	y.Store()
}

// deformer unrolls deformed windows.
type deformer[T float32 | float64] struct {
	s            *ConvShape
	offGroups    int
	x, off, mask []T
}

func (d *deformer[T]) run(c *ops.Call, w, bias, y []T) {
	s := d.s
	outs, taps := kit.SizeOf(s.Win.Out), s.Win.taps()
	cg, mg := s.C/s.group, s.M/s.group
	fillBias(c, y, bias, s.M, outs)
	if len(y) == 0 {
		return
	}
	cols := kit.Make[T](c, s.C*taps*outs)
	for i := range s.N {
		for ch := range s.C {
			kit.CheckEnded(c)
			d.unrollChannel(c, i, ch, cols[ch*taps*outs:(ch+1)*taps*outs])
		}
		for g := range s.group {
			rows := cg * taps
			kit.MatMulAdd(c, mg, outs, rows, w[g*mg*rows:], rows, cols[g*rows*outs:], outs, y[(i*s.M+g*mg)*outs:], outs)
		}
	}
}

// unrollChannel samples one channel of one image for every tap and output.
func (d *deformer[T]) unrollChannel(c *ops.Call, image, ch int, cols []T) {
	s := d.s
	w := &s.Win
	outs, plane, r := kit.SizeOf(w.Out), kit.SizeOf(w.In), len(w.kernel)
	group := image*d.offGroups + ch/(s.C/d.offGroups)
	x := d.x[(image*s.C+ch)*plane:][:plane]
	pos, watch := make([]float64, r), kit.Watching(c)
	tap := 0
	kit.EachIndex(c, w.kernel, func(k []int) {
		slot := group*w.taps() + tap
		o := 0
		kit.EachIndex(c, w.Out, func(at []int) {
			for i := range pos {
				base := at[i]*w.strides[i] + k[i]*w.dilations[i] - w.begin[i]
				pos[i] = float64(base) + float64(d.off[(slot*r+i)*outs+o])
			}
			watch.Did(4)
			v := sampleLinear(x, w.In, pos)
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
