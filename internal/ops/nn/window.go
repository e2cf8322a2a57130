package nn

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
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
// form one run; kernels are loops over such runs, see eachRun.

// Window is the geometry of a sliding window over the spatial dimensions.
type Window struct {
	kernel, strides, dilations []int
	begin, end                 []int  // padding; for SAME modes set by Bind
	auto                       string // auto_pad
	ceil                       bool
	pool                       bool  // of a pooling operator
	In, Out                    []int // spatial sizes, set by Bind
}

// WindowOf reads a node's window attributes for a kernel of known size.
func WindowOf(n *ssa.Node, kernel []int) (w Window, err error) {
	r := len(kernel)
	w = Window{kernel: kernel, auto: ops.Str(n, "auto_pad"), ceil: ops.Int(n, "ceil_mode") != 0, pool: strings.HasSuffix(n.Op, "Pool")}
	all := make([]int, 4*r)
	w.strides, w.dilations, w.begin, w.end = all[:r:r], all[r:2*r:2*r], all[2*r:3*r:3*r], all[3*r:]
	if err = readSmallInts(w.strides, n, "strides", 1); err != nil {
		return w, err
	}
	if err = readSmallInts(w.dilations, n, "dilations", 1); err != nil {
		return w, err
	}
	if w.auto == "NOTSET" || w.auto == "" {
		if err = readSmallInts(all[2*r:], n, "pads", 0); err != nil {
			return w, err
		}
	}
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

// smallInts reads a list attribute of r numbers of 32 bits, def each if absent.
func smallInts(n *ssa.Node, name string, r, def int) ([]int, error) {
	out := make([]int, r)
	return out, readSmallInts(out, n, name, def)
}

// readSmallInts is smallInts for numbers that have their place.
func readSmallInts(out []int, n *ssa.Node, name string, def int) error {
	list := ops.Ints(n, name)
	if len(list) == 0 {
		for i := range out {
			out[i] = def
		}
		return nil
	}
	if len(list) != len(out) {
		return fmt.Errorf("attribute %s has %d elements, expected %d", name, len(list), len(out))
	}
	for i, v := range list {
		if v != int64(int32(v)) {
			return fmt.Errorf("attribute %s has the element %d", name, v)
		}
		out[i] = int(v)
	}
	return nil
}

// KernelAttr reads kernel_shape; nil if the node has none.
func KernelAttr(n *ssa.Node) ([]int, error) {
	if list := ops.Ints(n, "kernel_shape"); list != nil {
		return smallInts(n, "kernel_shape", len(list), 1)
	}
	return nil, nil
}

// isSame reports that the padding follows from the sizes of input and output.
func (w *Window) isSame() bool { return w.auto == "SAME_UPPER" || w.auto == "SAME_LOWER" }

// pad sets the padding of dimension i to total elements; the odd one lies at the end
// for SAME_UPPER, else at the beginning.
func (w *Window) pad(i, total int) {
	w.begin[i] = total - total/2
	if w.auto == "SAME_UPPER" {
		w.begin[i] = total / 2
	}
	w.end[i] = total - w.begin[i]
}

// extent is the span of the window along dimension i.
func (w *Window) extent(i int) int { return (w.kernel[i]-1)*w.dilations[i] + 1 }

// outDim is the symbolic size of output dimension i for an input dimension.
func (w *Window) outDim(i int, in ssa.Dim) ssa.Dim {
	s := ssa.D(int64(w.strides[i]))
	switch w.auto {
	case "SAME_UPPER", "SAME_LOWER":
		return in.CeilDiv(s)
	case "VALID":
		return in.AddN(int64(-w.extent(i))).FloorDiv(s).AddN(1)
	}
	span := in.AddN(int64(w.begin[i] + w.end[i] - w.extent(i)))
	if k, ok := span.Const(); ok && w.pool && k < 0 && !in.Is(0) {
		return ssa.D(k/int64(w.strides[i]) + 1) // onnx and ONNX Runtime round toward zero: a window larger than the padded input
	}
	if !w.ceil {
		return span.FloorDiv(s).AddN(1)
	}
	// A window that would start in the end padding is left out.
	return span.CeilDiv(s).AddN(1).Min(in.AddN(int64(w.begin[i])).CeilDiv(s))
}

// outDims sets out to outDim of every dimension; a size that can not be is unknown.
func (w *Window) outDims(out, in []ssa.Dim) {
	for i, d := range in {
		out[i] = w.outDim(i, d)
		if k, ok := out[i].Const(); ok && k < 0 {
			out[i] = ssa.Dim{}
		}
	}
}

// Bind fixes the spatial input sizes: it sets Out, and the padding of SAME modes.
func (w *Window) Bind(in []int) error {
	if len(in) != len(w.kernel) {
		return fmt.Errorf("the input has %d spatial dimensions, the kernel %d", len(in), len(w.kernel))
	}
	w.In, w.Out = in, make([]int, len(in))
	for i, size := range in {
		o, _ := w.outDim(i, ssa.D(int64(size))).Const()
		if o < 0 {
			return fmt.Errorf("the window spans %d, more than spatial dimension %d with its padding (%d+%d+%d)",
				w.extent(i), i, w.begin[i], size, w.end[i])
		}
		w.Out[i] = int(o)
		if w.isSame() {
			w.pad(i, max((w.Out[i]-1)*w.strides[i]+w.extent(i)-size, 0))
		}
	}
	return nil
}

// run returns the outputs [lo, hi) along dimension i whose tap k is inside the input.
func (w *Window) run(i, k int) (lo, hi int) {
	s := w.strides[i]
	first := k*w.dilations[i] - w.begin[i] // input position of output 0
	if first < 0 {
		lo = (-first + s - 1) / s
	}
	if last := w.In[i] - 1 - first; last >= 0 {
		hi = min(last/s+1, w.Out[i])
	}
	return min(lo, hi), hi
}

// taps is the number of kernel positions.
func (w *Window) taps() int { return kit.SizeOf(w.kernel) }

// lastStride is the distance of inputs along a run, see eachRun.
func (w *Window) lastStride() int { return w.strides[len(w.strides)-1] }

// eachRun calls f(tap, o, x, n) for every tap and every line of outputs: outputs o+j
// read inputs x+j*stride of the last dimension, j in [0, n). Positions count from
// the start of one channel's plane. Taps come in row-major order; empty runs are
// left out.
func (w *Window) eachRun(c *ops.Call, f func(tap, o, x, n int)) {
	last := len(w.kernel) - 1
	inStride := ops.Strides(w.In)
	tap := 0
	watch := kit.Watching(c)
	kit.EachIndex(c, w.kernel, func(k []int) {
		lo, hi := w.run(last, k[last])
		base := lo*w.strides[last] + k[last]*w.dilations[last] - w.begin[last]
		for line := 0; line < kit.SizeOf(w.Out[:last]) && lo < hi; line++ {
			watch.Did(1)
			x, ok := base, true
			for i, rest := last-1, line; i >= 0; i-- {
				pos := rest%w.Out[i]*w.strides[i] + k[i]*w.dilations[i] - w.begin[i]
				rest /= w.Out[i]
				if pos < 0 || pos >= w.In[i] {
					ok = false
					break
				}
				x += pos * inStride[i]
			}
			if ok {
				f(tap, line*w.Out[last]+lo, x, hi-lo)
			}
		}
		tap++
	})
}
