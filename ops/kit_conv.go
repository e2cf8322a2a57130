package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Convolution as a matrix product over unrolled windows (im2col): for one image
// and one group,
//
//	Y [M/g, outputs] = W [M/g, C/g*taps] · cols [C/g*taps, outputs]
//
//	cols, row c*taps+t:  the input element that tap t sees, one per output,
//	                     0 where the window is in the padding
//
// cols is made for a few output lines at a time so that it stays in cache.
// Source: K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional
// Neural Networks for Document Processing", 2006, section 3.

// colBudget is about how many elements of unrolled windows exist at a time.
const colBudget = 1 << 17

// convShape is a bound convolution: n images of c channels to m channels.
type convShape struct {
	win     window
	group   int
	n, c, m int
}

// convShapeOf checks the shapes of X [N,C,D...] and W [M,C/group,k...].
func convShapeOf(n *ssa.Node, x, w []int) convShape {
	s := convShape{group: int(Int(n, "group"))}
	if len(x) < 3 || len(w) != len(x) {
		failf("operands of shape %v and %v; both must have batch, channel and the same number of spatial dimensions", x, w)
	}
	s.n, s.c, s.m = x[0], x[1], w[0]
	if s.group < 1 || s.c%s.group != 0 || w[1] != s.c/s.group || s.m%s.group != 0 {
		failf("weights %v with group=%d do not fit %d input channels", w, s.group, s.c)
	}
	checkKernel(n, w[2:])
	s.win = try(windowOf(n, w[2:]))
	check(s.win.bind(x[2:]))
	return s
}

// checkKernel compares the attribute kernel_shape with the weights.
func checkKernel(n *ssa.Node, kernel []int) {
	attr := try(kernelAttr(n))
	if attr != nil && !slices.Equal(attr, kernel) {
		failf("kernel_shape %v does not fit weights with spatial shape %v", attr, kernel)
	}
}

// yShape is the result's shape.
func (s *convShape) yShape() []int { return append([]int{s.n, s.m}, s.win.out...) }

// pointwise reports a kernel of one tap that reads every input position once:
// the input is then its own unrolled form.
func (s *convShape) pointwise() bool {
	for i := range s.win.kernel {
		if s.win.kernel[i] != 1 || s.win.strides[i] != 1 || s.win.begin[i] != 0 || s.win.end[i] != 0 {
			return false
		}
	}
	return true
}

// convolve computes Y = W * X + bias; bias (one per output channel) may be nil.
func convolve[T productNum](s *convShape, x, w, bias, y []T) {
	plane, outPlane := sizeOf(s.win.in), sizeOf(s.win.out)
	cg, mg := s.c/s.group, s.m/s.group
	rows := cg * s.win.taps()
	fillBias(y, bias, s.m, outPlane)
	if len(y) == 0 || rows == 0 || plane == 0 {
		return
	}
	step := max(1, min(s.win.lines(), colBudget/(rows*s.win.lineLen())))
	var cols []T
	if !s.pointwise() {
		cols = make([]T, rows*step*s.win.lineLen())
	}
	for i := range s.n {
		for g := range s.group {
			xg := x[(i*s.c+g*cg)*plane:][:cg*plane]
			wg := w[g*mg*rows:][:mg*rows]
			yg := y[(i*s.m+g*mg)*outPlane:][:mg*outPlane]
			if cols == nil {
				matMulAdd(mg, outPlane, cg, wg, cg, xg, plane, yg, outPlane)
				continue
			}
			for from := 0; from < s.win.lines(); from += step {
				to := min(from+step, s.win.lines())
				width := (to - from) * s.win.lineLen()
				unroll(&s.win, xg, cg, from, to, cols[:rows*width])
				matMulAdd(mg, width, rows, wg, rows, cols, width, yg[from*s.win.lineLen():], outPlane)
			}
		}
	}
}

// fillBias starts every output channel with its bias, or 0.
func fillBias[T productNum](y, bias []T, m, outPlane int) {
	if bias == nil {
		clear(y)
		return
	}
	for i := 0; i*outPlane < len(y); i++ {
		row, b := y[i*outPlane:(i+1)*outPlane], bias[i%m]
		for j := range row {
			row[j] = b
		}
	}
}

// unroll writes the windows of output lines [from, to) of c channels to cols.
func unroll[T productNum](w *window, x []T, c, from, to int, cols []T) {
	clear(cols)
	taps, plane, stride := w.taps(), sizeOf(w.in), w.strides[len(w.strides)-1]
	width := (to - from) * w.lineLen()
	w.eachRun(from, to, func(tap, o, at, n int) {
		for ch := range c {
			dst := cols[(ch*taps+tap)*width+o:][:n]
			src := x[ch*plane+at:]
			if stride == 1 {
				copy(dst, src)
				continue
			}
			for j := range dst {
				dst[j] = src[j*stride]
			}
		}
	})
}

// inferConv is the type rule of convolutions whose data is operand xi, weights
// operand wi, and whose result has element type dt.
func inferConv(n *ssa.Node, xi, wi int, dt ndarray.DType) ssa.Type {
	x, w := InType(n, xi), InType(n, wi)
	rank := max(x.Rank(), w.Rank())
	if rank < 0 {
		return ssa.UnrankedTensor(dt)
	}
	if rank < 3 || x.Ranked && w.Ranked && x.Rank() != w.Rank() {
		failf("data %s and weights %s; both must have batch, channel and the same number of spatial dimensions", x, w)
	}
	out := make([]ssa.Dim, rank)
	if w.Ranked {
		out[1] = w.Shape[0]
	}
	if x.Ranked && w.Ranked {
		want := w.Shape[1].MulN(Int(n, "group"))
		if a, ok := want.Const(); ok {
			if b, ok := x.Shape[1].Const(); ok && a != b {
				failf("weights %s with group=%d do not fit %d input channels", w, Int(n, "group"), b)
			}
		}
	}
	if !x.Ranked {
		return ssa.TensorOf(dt, out...)
	}
	out[0] = x.Shape[0]
	kernel := try(inferKernel(n, w, rank-2))
	if kernel == nil {
		return ssa.TensorOf(dt, out...)
	}
	win := try(windowOf(n, kernel))
	copy(out[2:], win.outDims(x.Shape[2:]))
	return ssa.TensorOf(dt, out...)
}

// outDims is outDim for every dimension; a size that can not be is unknown.
func (w *window) outDims(in []ssa.Dim) []ssa.Dim {
	out := make([]ssa.Dim, len(in))
	for i, d := range in {
		out[i] = w.outDim(i, d)
		if k, ok := out[i].Const(); ok && k < 0 {
			out[i] = ssa.Dim{}
		}
	}
	return out
}

// inferKernel finds the kernel's spatial shape in the attribute or the weights'
// type; nil if it is not known.
func inferKernel(n *ssa.Node, w ssa.Type, r int) ([]int, error) {
	attr, err := kernelAttr(n)
	if err != nil {
		return nil, err
	}
	if attr != nil {
		if len(attr) != r {
			return nil, fmt.Errorf("kernel_shape %v does not fit %d spatial dimensions", attr, r)
		}
		return attr, nil
	}
	if !w.Ranked {
		return nil, nil
	}
	if w.Rank() != r+2 {
		return nil, fmt.Errorf("weights %s do not fit %d spatial dimensions", w, r)
	}
	kernel := make([]int, r)
	for i := range kernel {
		k, ok := w.Shape[2+i].Const()
		if !ok {
			return nil, nil
		}
		kernel[i] = int(k)
	}
	return kernel, nil
}

// channelsFirst copies [n, plane, c] to [n, c, plane]; channelsLast is its inverse.
func channelsFirst[T any](v []T, n, plane, c int) []T {
	out := make([]T, 0, len(v))
	for i := range n {
		out = append(out, transposed(plane, c, v[i*plane*c:(i+1)*plane*c])...)
	}
	return out
}

func channelsLast[T any](v []T, n, c, plane int) []T { return channelsFirst(v, n, c, plane) }

// autoPad is how windows are padded; empty is read as NOTSET, as ONNX Runtime does.
var autoPad = strAttr("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")

// convAttrs are the attributes all convolutions have.
var convAttrs = []AttrSpec{autoPad, intsAttr("dilations").atLeast(1), intAttr("group", 1).atLeast(1),
	intsAttr("kernel_shape").atLeast(1), intsAttr("pads"), intsAttr("strides").atLeast(1)}

// inferChannelsLast is inferConv for data with channels last.
func inferChannelsLast(n *ssa.Node, xi, wi int, dt ndarray.DType) []Inferred {
	x, w := InType(n, xi), InType(n, wi)
	if !x.Ranked || x.Rank() < 3 {
		return One(ssa.UnrankedTensor(dt))
	}
	kernel := try(inferKernel(n, w, x.Rank()-2))
	out := make([]ssa.Dim, x.Rank())
	out[0], out[len(out)-1] = x.Shape[0], dimOf(w, 0)
	if kernel != nil {
		win := try(windowOf(n, kernel))
		copy(out[1:], win.outDims(x.Shape[1:len(out)-1]))
	}
	return One(ssa.TensorOf(dt, out...))
}

// firstShape turns a shape with channels last into one with channels first.
func firstShape(shape []int) []int {
	if len(shape) < 3 {
		return shape
	}
	return slices.Concat(shape[:1], shape[len(shape)-1:], shape[1:len(shape)-1])
}

// lastShape is the inverse of firstShape.
func lastShape(shape []int) []int {
	return slices.Concat(shape[:1], shape[2:], shape[1:2])
}
