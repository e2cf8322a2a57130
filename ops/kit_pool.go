package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// poolAttrs are the attributes all pooling operators have.
var poolAttrs = []AttrSpec{autoPad, intsAttr("pads"), intsAttr("strides").atLeast(1)}

// inferPool is the type rule of pooling: batch and channels stay, the spatial
// dimensions become windows. inferPoolLast is the same with channels last.
func inferPool(n *ssa.Node) []Inferred     { return inferPoolAt(n, 2) }
func inferPoolLast(n *ssa.Node) []Inferred { return inferPoolAt(n, 1) }

// inferPoolAt is the type rule of pooling where the spatial dimensions begin at axis
// first, and all others stay.
func inferPoolAt(n *ssa.Node, first int) []Inferred {
	x := InType(n, 0)
	kernel := try(kernelAttr(n))
	if x.Ranked && x.Rank() != len(kernel)+2 {
		failf("kernel_shape %v does not fit an operand %s", kernel, x)
	}
	win := try(windowOf(n, kernel))
	out := make([]ssa.Dim, len(kernel)+2)
	if x.Ranked {
		copy(out, x.Shape)
		copy(out[first:], win.outDims(x.Shape[first:first+len(kernel)]))
	}
	return One(ssa.TensorOf(x.DType, out...))
}

// poolWindow binds the pooling window of operand 0 and gives the result's shape.
func poolWindow(c *Call) (window, []int) {
	x := c.Array(0)
	if x == nil || x.Rank() < 3 {
		failf("operand 0 is no tensor with batch, channel and spatial dimensions")
	}
	kernel := try(kernelAttr(c.Node))
	w := try(windowOf(c.Node, kernel))
	check(w.bind(x.Shape[2:]))
	return w, append([]int{x.Shape[0], x.Shape[1]}, w.out...)
}

// poolSum adds f(x) over every window of every plane to y, which is cleared.
func poolSum[T realNum](w *window, planes int, x, y []T, f func(T) T) {
	clear(y)
	in, out := sizeOf(w.in), sizeOf(w.out)
	stride := w.strides[len(w.strides)-1]
	w.eachRun(0, w.lines(), func(_, o, at, n int) {
		for p := range planes {
			dst, src := y[p*out+o:][:n], x[p*in+at:]
			if f == nil {
				for j := range dst {
					dst[j] += src[j*stride]
				}
				continue
			}
			for j := range dst {
				dst[j] += f(src[j*stride])
			}
		}
	})
}

// coverage returns, for one dimension, how many taps of each output lie inside
// the input, or inside the padded input if padded is set. A window that ceil_mode
// adds may reach beyond even the padding.
func (w *window) coverage(i int, padded bool) []int {
	lo, hi := 0, w.in[i]
	if padded {
		lo, hi = -w.begin[i], w.in[i]+w.end[i]
	}
	counts := make([]int, w.out[i])
	for o := range counts {
		for k := range w.kernel[i] {
			if pos := o*w.strides[i] + k*w.dilations[i] - w.begin[i]; pos >= lo && pos < hi {
				counts[o]++
			}
		}
	}
	return counts
}

// eachCoverage calls f with every output position and its number of covered taps.
func (w *window) eachCoverage(padded bool, f func(o, count int)) {
	counts := make([][]int, len(w.kernel))
	for i := range counts {
		counts[i] = w.coverage(i, padded)
	}
	o := 0
	EachIndex(w.out, func(idx []int) {
		n := 1
		for i, at := range idx {
			n *= counts[i][at]
		}
		f(o, n)
		o++
	})
}

// inferGlobalPool is the type rule of global pooling: spatial dimensions become 1.
func inferGlobalPool(n *ssa.Node) []Inferred {
	x := InType(n, 0)
	if !x.Ranked {
		return One(ssa.UnrankedTensor(x.DType))
	}
	if x.Rank() < 2 {
		failf("operand %s has no batch and channel dimension", x)
	}
	out := make([]ssa.Dim, x.Rank())
	for i := range out {
		out[i] = ssa.D(1)
	}
	copy(out, x.Shape[:2])
	return One(ssa.TensorOf(x.DType, out...))
}

// globalPool computes f over every plane of operand 0.
func globalPool[T realNum](c *Call, f func(plane []T) T) {
	x := c.Array(0)
	if x.Rank() < 2 {
		failf("operand 0 has shape %v, without batch and channel dimensions", x.Shape)
	}
	shape := make([]int, x.Rank())
	for i := range shape {
		shape[i] = 1
	}
	copy(shape, x.Shape[:2])
	y := newResult[T](c, 0, x.DType, shape...)
	v, plane := elements[T](x), sizeOf(x.Shape[2:])
	for i := range y.V {
		y.V[i] = f(v[i*plane : (i+1)*plane])
	}
	y.store()
}

// bf16Since22 is the Form of operators that took bfloat16 in operator set 22.
func bf16Since22(base int) func(*ssa.Node) int { return sinceTypes(base, 22, ndarray.BFloat16) }

// poolNum is what maxima are taken of.
type poolNum interface{ float32 | float64 | int64 }

// maxPool computes maxima and, if arg is not nil, their flat row-major indices.
// A window wholly in the padding gives least and index -1.
func maxPool[T poolNum](w *window, planes int, x []T, least T, y []T, arg []int64) {
	for i := range y {
		y[i] = least
	}
	for i := range arg {
		arg[i] = -1
	}
	in, out := sizeOf(w.in), sizeOf(w.out)
	stride := w.strides[len(w.strides)-1]
	w.eachRun(0, w.lines(), func(_, o, at, n int) {
		for p := range planes {
			dst, src := y[p*out+o:][:n], x[p*in+at:]
			if arg != nil {
				maxRunIndexed(dst, arg[p*out+o:][:n], src, stride, int64(p*in+at))
				continue
			}
			for j := range dst {
				if v := src[j*stride]; v > dst[j] || v != v {
					dst[j] = v
				}
			}
		}
	})
}

// maxRunIndexed is one run of maxPool with indices; first is the flat index of src[0].
func maxRunIndexed[T poolNum](y []T, arg []int64, src []T, stride int, first int64) {
	for j := range y {
		v := src[j*stride]
		if v > y[j] || arg[j] < 0 || v != v && y[j] == y[j] {
			y[j], arg[j] = v, first+int64(j*stride)
		}
	}
}
