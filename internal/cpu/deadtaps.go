package cpu

import "github.com/berth-onnx/berth/internal/cpu/kern/gemm"

// Taps that read nothing but padding are left out. Where images are small these may be
// most of a kernel: with dilation 4, a 3×3 kernel over 4×4 pixels reads one pixel at
// each position, and is a 1×1 kernel.
//
//	k . . . k . . . k        k: kernel, dilation 4
//	. . . . . . . . .        #: image
//	k . . . # # # # k
//	. . . . # # # # .
//	. . . . # # # # .        at the first output position; the outer taps are
//	k . . . # # # # k        outside at the others, too
//	. . . . . . . . .

// usedTaps returns a range of taps along dimension d that has all those that read the
// image at some output position, and one tap at least.
func (w *window) usedTaps(d int) (lo, hi int) {
	lo = w.kernel[d]
	for o := range w.out[d] {
		if _, from, to := w.taps(d, o); to > from {
			lo, hi = min(lo, from), max(hi, to)
		}
	}
	if hi == 0 {
		return 0, 1
	}
	return lo, hi
}

// cropped is the window without the outer taps that read only padding; the same window
// if there are none. Which weights it keeps is recorded in taken.
func (w window) cropped(taken *arrangement) window {
	s := w
	var first [3]int
	for d := range 3 {
		lo, hi := w.usedTaps(d)
		first[d], s.kernel[d] = lo, hi-lo
		s.begin[d] -= lo * w.dilation[d]
		s.end[d] -= (w.kernel[d] - hi) * w.dilation[d]
	}
	if s.kernel == w.kernel {
		return w
	}
	taken.first, taken.cropped, taken.full = first, s.kernel, w.kernel
	return s
}

// crop returns the weights of a convolution that an arrangement keeps.
func (p *prep) crop(w gemm.Source, taken arrangement) gemm.Source {
	if w.Splat || taken.cropped == [3]int{} {
		return w
	}
	full, first, left := taken.full, taken.first, taken.cropped
	kernels := len(w.Data) / sizeOf(full[:])
	out := make([]float32, 0, kernels*sizeOf(left[:]))
	for i := range kernels {
		for a := range left[0] {
			for b := range left[1] {
				at := ((i*full[0]+first[0]+a)*full[1]+first[1]+b)*full[2] + first[2]
				out = append(out, w.Data[at:at+left[2]]...)
			}
		}
	}
	return gemm.Source{Data: out}
}
