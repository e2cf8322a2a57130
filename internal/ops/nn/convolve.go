package nn

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Convolution by its formula, over runs of outputs (see window.go): each tap of each
// input channel adds its weight times the input elements that it reads.
//
//	Y[m, o+j] += W[m, c, tap] * X[c, at + j*stride]        j = 0 … n-1

// AutoPad is how windows are padded; empty is read as NOTSET, as ONNX Runtime does.
var AutoPad = ops.StrAttr("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")

// ConvAttrs are the attributes all convolutions have.
var ConvAttrs = []*ops.AttrSpec{AutoPad, ops.IntsAttr("dilations").AtLeast(1), ops.IntAttr("group", 1).AtLeast(1),
	ops.IntsAttr("kernel_shape").AtLeast(1), ops.IntsAttr("pads"), ops.IntsAttr("strides").AtLeast(1)}

// ConvShape is a convolution of known sizes: N images of C channels to M channels.
type ConvShape struct {
	Win     Window
	group   int
	N, C, M int
}

// ConvShapeOf checks the shapes of X [N,C,D...] and W [M,C/group,k...].
func ConvShapeOf(n *ssa.Node, x, w []int) ConvShape {
	s := ConvShape{group: int(ops.Int(n, "group"))}
	if len(x) < 3 || len(w) != len(x) {
		kit.Failf("operands of shape %v and %v; both must have batch, channel and the same number of spatial dimensions", x, w)
	}
	s.N, s.C, s.M = x[0], x[1], w[0]
	if s.C%s.group != 0 || w[1] != s.C/s.group || s.M%s.group != 0 {
		kit.Failf("weights %v with group=%d do not fit %d input channels", w, s.group, s.C)
	}
	checkKernel(n, w[2:])
	s.Win = kit.Try(WindowOf(n, w[2:]))
	kit.Check(s.Win.Bind(x[2:]))
	return s
}

// checkKernel compares the attribute kernel_shape with the weights.
func checkKernel(n *ssa.Node, kernel []int) {
	if attr := kit.Try(KernelAttr(n)); attr != nil && !slices.Equal(attr, kernel) {
		kit.Failf("kernel_shape %v does not fit weights with spatial shape %v", attr, kernel)
	}
}

// YShape is the result's shape.
func (s *ConvShape) YShape() []int { return append([]int{s.N, s.M}, s.Win.Out...) }

// Convolve computes Y = W * X + bias; bias (one per output channel) may be nil.
func Convolve[T kit.ProductNum](call *ops.Call, s *ConvShape, x, w, bias, y []T) {
	plane, outPlane, stride := kit.SizeOf(s.Win.In), kit.SizeOf(s.Win.Out), s.Win.lastStride()
	cg, mg := s.C/s.group, s.M/s.group
	fillBias(call, y, bias, s.M, outPlane)
	byTap := kit.Transposed(call, s.M*cg, s.Win.taps(), w)
	watch := kit.Watching(call)
	s.Win.eachRun(call, func(tap, o, at, n int) {
		for i := range s.N * s.M {
			m := i % s.M
			out, in := y[i*outPlane+o:][:n], x[(i/s.M*s.C+m/mg*cg)*plane:]
			taps := byTap[(tap*s.M+m)*cg:][:cg]
			c := 0
			for ; stride == 1 && c+4 <= cg; c += 4 {
				watch.Did(4 * n)
				addFour(out, taps[c:], in[c*plane+at:], plane)
			}
			for ; c < cg; c++ {
				watch.Did(n)
				f, src := taps[c], in[c*plane+at:]
				for j := range out {
					out[j] += f * src[j*stride]
				}
			}
		}
	})
}

// addFour adds the products of the first four factors with the rows of x that are so far from each other, one after the other: what it
// adds to is read and written once.
func addFour[T kit.ProductNum](y, factors, x []T, distance int) {
	x0, x1, x2, x3 := x[:len(y)], x[distance:][:len(y)], x[2*distance:][:len(y)], x[3*distance:][:len(y)]
	f0, f1, f2, f3 := factors[0], factors[1], factors[2], factors[3]
	for j := range y {
		y[j] = y[j] + f0*x0[j] + f1*x1[j] + f2*x2[j] + f3*x3[j]
	}
}

// fillBias starts every output channel with its bias, or 0.
func fillBias[T kit.ProductNum](c *ops.Call, y, bias []T, m, outPlane int) {
	if bias == nil {
		kit.ClearSlice(c, y)
		return
	}
	w := kit.Watching(c)
	for i := 0; i*outPlane < len(y); i++ {
		row, b := y[i*outPlane:(i+1)*outPlane], bias[i%m]
		for j := range row {
			w.Did(1)
			row[j] = b
		}
	}
}

// InferConv is the type rule of convolutions whose data is operand xi, weights
// operand wi, and whose result has element type dt.
func InferConv(n *ssa.Node, xi, wi int, dt ndarray.DType) []ops.Inferred {
	return inferConvAt(n, xi, wi, 2, dt)
}

// InferChannelsLast is [InferConv] for data with channels last.
func InferChannelsLast(n *ssa.Node, xi, wi int, dt ndarray.DType) []ops.Inferred {
	return inferConvAt(n, xi, wi, 1, dt)
}

// inferConvAt is the type rule of convolutions whose spatial dimensions begin at axis
// first; channels are axis 1, or the last if those begin there.
func inferConvAt(n *ssa.Node, xi, wi, first int, dt ndarray.DType) []ops.Inferred {
	x, w := ops.InType(n, xi), ops.InType(n, wi)
	rank := convRank(x, w)
	if rank < 0 {
		return ops.One(ssa.UnrankedTensor(dt))
	}
	channel := 1
	if first == 1 {
		channel = rank - 1
	}
	out := make([]ssa.Dim, rank)
	out[channel] = kit.DimOf(w, 0)
	if x.Ranked && w.Ranked {
		want, ok := w.Shape[1].MulN(ops.Int(n, "group")).Const()
		if have, known := x.Shape[channel].Const(); ok && known && want != have {
			kit.Failf("weights %s with group=%d do not fit %d input channels", w, ops.Int(n, "group"), have)
		}
	}
	if !x.Ranked {
		return ops.One(ssa.TensorOf(dt, out...))
	}
	out[0] = x.Shape[0]
	if kernel := inferKernel(n, w, rank-2); kernel != nil {
		win := kit.Try(WindowOf(n, kernel))
		win.outDims(out[first:], x.Shape[first:first+rank-2])
	}
	return ops.One(ssa.TensorOf(dt, out...))
}

// convRank is the rank that data and weights have in common, -1 if neither is known.
func convRank(x, w ssa.Type) int {
	rank := max(x.Rank(), w.Rank())
	if rank >= 0 && rank < 3 || x.Ranked && w.Ranked && x.Rank() != w.Rank() {
		kit.Failf("data %s and weights %s; both must have batch, channel and the same number of spatial dimensions", x, w)
	}
	return rank
}

// inferKernel finds the kernel's r spatial dimensions in the attribute or the
// weights' type; nil if they are not known.
func inferKernel(n *ssa.Node, w ssa.Type, r int) []int {
	if kernel := kit.Try(KernelAttr(n)); kernel != nil {
		if len(kernel) != r {
			kit.Failf("kernel_shape %v does not fit %d spatial dimensions", kernel, r)
		}
		return kernel
	}
	kernel := make([]int, r)
	for i := range kernel {
		k, ok := kit.DimOf(w, 2+i).Const()
		if !ok {
			return nil
		}
		kernel[i] = int(k)
	}
	return kernel
}

// ChannelsFirst copies [n, plane, c] to [n, c, plane]; ChannelsLast is its inverse.
func ChannelsFirst[T any](call *ops.Call, v []T, n, plane, c int) []T {
	out := kit.Make[T](call, len(v))[:0]
	for i := range n {
		out = append(out, kit.Transposed(call, plane, c, v[i*plane*c:(i+1)*plane*c])...)
	}
	return out
}

// ChannelsLast undoes [ChannelsFirst].
func ChannelsLast[T any](call *ops.Call, v []T, n, c, plane int) []T {
	return ChannelsFirst(call, v, n, c, plane)
}

// FirstShape turns a shape with channels last into one with channels first.
func FirstShape(shape []int) []int {
	if len(shape) < 3 {
		return shape
	}
	return slices.Concat(shape[:1], shape[len(shape)-1:], shape[1:len(shape)-1])
}

// LastShape is the inverse of [FirstShape].
func LastShape(shape []int) []int {
	return slices.Concat(shape[:1], shape[2:], shape[1:2])
}
