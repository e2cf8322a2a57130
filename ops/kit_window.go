package ops

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/berth-onnx/berth/ssa"
)

// Sliding windows, shared by convolution, pooling and their inverses.
//
//	input    . . [x0 x1 x2 x3 x4 x5] . .        pad 2 on both sides
//	window 0 *   *   *                          kernel 3, dilation 2: extent 5
//	window 1       *   *   *                    stride 1
//
// Output position o of tap k reads input position o*stride + k*dilation - pad.
// For one tap and one line of outputs the positions that fall inside the input
// form one run; kernels are loops over such runs, see [window.eachRun].

// window is the geometry of a sliding window over the spatial dimensions.
type window struct {
	kernel, strides, dilations []int
	begin, end                 []int  // padding; for SAME modes set by bind
	auto                       string // "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"
	ceil                       bool
	in, out                    []int // spatial sizes, set by bind
}

// windowOf reads a node's window attributes for a kernel of known size.
func windowOf(n *ssa.Node, kernel []int) (window, error) {
	r := len(kernel)
	w := window{kernel: kernel, auto: Str(n, "auto_pad"), ceil: Int(n, "ceil_mode") != 0}
	switch w.auto {
	case "", "NOTSET":
		w.auto = "NOTSET"
	case "SAME_UPPER", "SAME_LOWER", "VALID":
	default:
		return w, fmt.Errorf("auto_pad=%q is not one of NOTSET, SAME_UPPER, SAME_LOWER, VALID", w.auto)
	}
	var err error
	if w.strides, err = smallInts(n, "strides", r, 1, 1); err != nil {
		return w, err
	}
	if w.dilations, err = smallInts(n, "dilations", r, 1, 1); err != nil {
		return w, err
	}
	pads := make([]int, 2*r)
	if w.auto == "NOTSET" {
		if pads, err = smallInts(n, "pads", 2*r, 0, math.MinInt32); err != nil {
			return w, err
		}
	}
	w.begin, w.end = pads[:r:r], pads[r:]
	for i, k := range kernel {
		if k < 1 || k > math.MaxInt32 {
			return w, fmt.Errorf("kernel dimension %d is %d", i, k)
		}
		if hi, lo := bits.Mul64(uint64(k), uint64(w.dilations[i])); hi != 0 || lo > math.MaxInt32 {
			return w, fmt.Errorf("kernel %d with dilation %d is too large", k, w.dilations[i])
		}
	}
	return w, nil
}

// smallInts reads a list attribute of r numbers in [least, 2^31), def each if absent.
func smallInts(n *ssa.Node, name string, r, def, least int) ([]int, error) {
	out := make([]int, r)
	list := Ints(n, name)
	if len(list) == 0 {
		for i := range out {
			out[i] = def
		}
		return out, nil
	}
	if len(list) != r {
		return nil, fmt.Errorf("attribute %s has %d elements, expected %d", name, len(list), r)
	}
	for i, v := range list {
		if v < int64(least) || v > math.MaxInt32 {
			return nil, fmt.Errorf("attribute %s has the element %d", name, v)
		}
		out[i] = int(v)
	}
	return out, nil
}

// kernelAttr reads kernel_shape; nil if the node has none.
func kernelAttr(n *ssa.Node) ([]int, error) {
	list := Ints(n, "kernel_shape")
	if list == nil {
		return nil, nil
	}
	return smallInts(n, "kernel_shape", len(list), 1, 1)
}

// extent is the span of the window along dimension i.
func (w *window) extent(i int) int { return (w.kernel[i]-1)*w.dilations[i] + 1 }

// outDim is the symbolic size of output dimension i for an input dimension.
func (w *window) outDim(i int, in ssa.Dim) ssa.Dim {
	s := ssa.D(int64(w.strides[i]))
	switch w.auto {
	case "SAME_UPPER", "SAME_LOWER":
		return in.CeilDiv(s)
	case "VALID":
		return in.AddN(int64(-w.extent(i))).FloorDiv(s).AddN(1)
	}
	span := in.AddN(int64(w.begin[i] + w.end[i] - w.extent(i)))
	if !w.ceil {
		return span.FloorDiv(s).AddN(1)
	}
	// A window that would start in the end padding is left out.
	return span.CeilDiv(s).AddN(1).Min(in.AddN(int64(w.begin[i])).CeilDiv(s))
}

// bind fixes the spatial input sizes: it sets out, and the padding of SAME modes.
func (w *window) bind(in []int) error {
	if len(in) != len(w.kernel) {
		return fmt.Errorf("the input has %d spatial dimensions, the kernel %d", len(in), len(w.kernel))
	}
	w.in, w.out = in, make([]int, len(in))
	begin, end := make([]int, len(in)), make([]int, len(in))
	copy(begin, w.begin)
	copy(end, w.end)
	for i, size := range in {
		o, _ := w.outDim(i, ssa.D(int64(size))).Const()
		if o < 0 {
			return fmt.Errorf("the window spans %d, more than spatial dimension %d with its padding (%d+%d+%d)",
				w.extent(i), i, w.begin[i], size, w.end[i])
		}
		w.out[i] = int(o)
		if w.auto == "SAME_UPPER" || w.auto == "SAME_LOWER" {
			total := max((w.out[i]-1)*w.strides[i]+w.extent(i)-size, 0)
			begin[i] = total / 2
			if w.auto == "SAME_LOWER" {
				begin[i] = total - total/2
			}
			end[i] = total - begin[i]
		}
	}
	w.begin, w.end = begin, end
	return nil
}

// run returns the outputs [lo, hi) along dimension i whose tap k is inside the input.
func (w *window) run(i, k int) (lo, hi int) {
	s := w.strides[i]
	first := k*w.dilations[i] - w.begin[i] // input position of output 0
	if first < 0 {
		lo = (-first + s - 1) / s
	}
	if last := w.in[i] - 1 - first; last >= 0 {
		hi = min(last/s+1, w.out[i])
	}
	return min(lo, hi), hi
}

// taps is the number of kernel positions, lines the number of output lines (all
// dimensions but the last), lineLen the length of one.
func (w *window) taps() int    { return sizeOf(w.kernel) }
func (w *window) lines() int   { return sizeOf(w.out[:len(w.out)-1]) }
func (w *window) lineLen() int { return w.out[len(w.out)-1] }

// eachRun calls f(tap, o, x, n) for every tap and every output line in
// [from, to): outputs o+j read inputs x+j*stride of the last dimension, j in
// [0, n). Positions count from the start of one channel's plane; o counts from
// the first line. Taps come in row-major order; empty runs are left out.
func (w *window) eachRun(from, to int, f func(tap, o, x, n int)) {
	r := len(w.kernel)
	last := r - 1
	inStride := Strides(w.in)
	tap := 0
	EachIndex(w.kernel, func(k []int) {
		lo, hi := w.run(last, k[last])
		base := lo*w.strides[last] + k[last]*w.dilations[last] - w.begin[last]
		for line := from; line < to && lo < hi; line++ {
			x, ok := base, true
			for i, rest := last-1, line; i >= 0; i-- {
				pos := rest%w.out[i]*w.strides[i] + k[i]*w.dilations[i] - w.begin[i]
				rest /= w.out[i]
				if pos < 0 || pos >= w.in[i] {
					ok = false
					break
				}
				x += pos * inStride[i]
			}
			if ok {
				f(tap, (line-from)*w.out[last]+lo, x, hi-lo)
			}
		}
		tap++
	})
}
