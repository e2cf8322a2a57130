package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ConvTranspose is the transpose of convolution: every input element adds its
// weighted kernel to the output. https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
//
//	Y[n,m,i*stride + k*dilation - pad] += X[n,c,i] * W[c,m,k]      then + B[m]
var ConvTranspose = ops.Op{
	Name: "ConvTranspose", Since: 22, Form: bf16Since22(1), Doc: "Y = Wᵀ * X + B, the transpose of convolution",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: append([]*ops.AttrSpec{ops.IntsAttr("output_padding").AtLeast(0), ops.IntsAttr("output_shape").AtLeast(0)}, ConvAttrs...),
	Infer: kit.Rule(InferConvTranspose),
	Eval:  kit.FloatKernel(EvalConvTranspose[float32], EvalConvTranspose[float64]),
	Facts: ops.Facts{Traits: ops.IgnoringTraits, Linear: ops.ConvTransposeLinear, Cost: kit.ConvTransposeCost, Disputed: disputedGrowth},
}

// growth is the geometry of a transposed convolution: the window of the
// convolution that maps the output back to the input.
type growth struct {
	win         Window
	extra, want []int // output_padding; output_shape or nil
}

func growthOf(n *ssa.Node, kernel []int) growth {
	g := growth{win: kit.Try(WindowOf(n, kernel)), extra: kit.Try(smallInts(n, "output_padding", len(kernel), 0))}
	if len(ops.Ints(n, "output_shape")) > 0 {
		g.want = kit.Try(smallInts(n, "output_shape", len(kernel), 0))
	}
	return g
}

// outDim is the symbolic size of output dimension i.
func (g *growth) outDim(i int, in ssa.Dim) ssa.Dim {
	switch w := &g.win; {
	case g.want != nil:
		return ssa.D(int64(g.want[i]))
	case w.isSame():
		return in.MulN(int64(w.strides[i]))
	default:
		return g.full(i, in).AddN(int64(-w.begin[i] - w.end[i]))
	}
}

// full is the size before padding is cut off.
func (g *growth) full(i int, in ssa.Dim) ssa.Dim {
	return in.AddN(-1).MulN(int64(g.win.strides[i])).AddN(int64(g.extra[i] + g.win.extent(i)))
}

// bind fixes the input's spatial sizes; the window then maps output to input.
func (g *growth) bind(in []int) {
	w := &g.win
	if len(in) != len(w.kernel) {
		kit.Failf("the input has %d spatial dimensions, the kernel %d", len(in), len(w.kernel))
	}
	w.Out, w.In = in, make([]int, len(in))
	for i, size := range in {
		d := ssa.D(int64(size))
		o, known := g.outDim(i, d).Const()
		if !known || o < 0 {
			kit.Failf("spatial dimension %d of %d gives an output of %d elements", i, size, o)
		}
		w.In[i] = int(o)
		if g.want != nil || w.isSame() {
			f, _ := g.full(i, d).Const()
			w.pad(i, max(int(f-o), 0))
		}
	}
}

// InferConvTranspose is the type and shape rule of [ConvTranspose].
func InferConvTranspose(n *ssa.Node) []ops.Inferred {
	x, w := ops.InType(n, 0), ops.InType(n, 1)
	rank := convRank(x, w)
	if rank < 0 {
		return ops.One(ssa.UnrankedTensor(x.DType))
	}
	if c, ok := kit.DimOf(x, 1).Const(); ok && c%max(ops.Int(n, "group"), 1) != 0 {
		kit.Failf("%d input channels are no multiple of group=%d", c, ops.Int(n, "group"))
	}
	out := make([]ssa.Dim, rank)
	out[1] = kit.DimOf(w, 1).MulN(ops.Int(n, "group"))
	if !x.Ranked {
		return ops.One(ssa.TensorOf(x.DType, out...))
	}
	out[0] = x.Shape[0]
	if kernel := inferKernel(n, w, rank-2); kernel != nil {
		g := growthOf(n, kernel)
		for i := range kernel {
			out[2+i] = g.outDim(i, x.Shape[2+i])
		}
	}
	return ops.One(ssa.TensorOf(x.DType, out...))
}

// disputedGrowth reports that auto_pad=SAME_* cuts off more than the kernel reaches beyond the
// stride, or less: onnx infers a length with what is left, or without what is missing.
//
//	3 elements, kernel 1, stride 2      x0 .  x1 .  x2 .     6 run, onnx infers 5
func disputedGrowth(n *ssa.Node) (disputed bool) {
	x, w := ops.InType(n, 0), ops.InType(n, 1)
	rank := convRank(x, w)
	if rank < 2 || kit.Attempt(func() {
		kernel := inferKernel(n, w, rank-2)
		g := growthOf(n, kernel)
		for i := range kernel {
			disputed = disputed || g.win.isSame() && g.want == nil && (g.extra[i] > 0 || g.win.extent(i) < g.win.strides[i])
		}
	}) != nil {
		return false
	}
	return disputed
}

// EvalConvTranspose is the reference kernel of [ConvTranspose].
func EvalConvTranspose[T float32 | float64](c *ops.Call) {
	x, w, b := kit.Tensor(c, 0), kit.Tensor(c, 1), c.Array(2)
	group := int(ops.Int(c.Node, "group"))
	if x.Rank() < 3 || w.Rank() != x.Rank() || x.Shape[1] != w.Shape[0] || w.Shape[0]%group != 0 {
		kit.Failf("data %v and weights %v with group=%d do not fit", x.Shape, w.Shape, group)
	}
	checkKernel(c.Node, w.Shape[2:])
	g := growthOf(c.Node, w.Shape[2:])
	g.bind(x.Shape[2:])
	s := ConvShape{Win: g.win, group: group, N: x.Shape[0], C: x.Shape[1], M: w.Shape[1] * group}
	kit.WantLen("bias", b, s.M)
	y := kit.NewResult[T](c, 0, x.DType, append([]int{s.N, s.M}, s.Win.In...)...)
	fillBias(c, y.V, kit.Elements[T](c, b), s.M, kit.SizeOf(s.Win.In))
	convolveBack(c, &s, kit.Elements[T](c, x), kit.Elements[T](c, w), y.V)
	y.Store()
}

// convolveBack adds the transposed convolution of X to Y. The window's In is Y's
// spatial shape, its Out X's.
func convolveBack[T kit.ProductNum](call *ops.Call, s *ConvShape, x, w, y []T) {
	yPlane, xPlane, stride := kit.SizeOf(s.Win.In), kit.SizeOf(s.Win.Out), s.Win.lastStride()
	cg, mg := s.C/s.group, s.M/s.group
	byTap := kit.Transposed(call, s.C*mg, s.Win.taps(), w)
	watch := kit.Watching(call)
	s.Win.eachRun(call, func(tap, o, at, n int) {
		for i := range s.N * s.C {
			c := i % s.C
			in, out := x[i*xPlane+o:][:n], y[(i/s.C*s.M+c/cg*mg)*yPlane:]
			for m, f := range byTap[(tap*s.C+c)*mg:][:mg] {
				watch.Did(n)
				dst := out[m*yPlane+at:]
				for j, v := range in {
					dst[j*stride] += f * v
				}
			}
		}
	})
}
