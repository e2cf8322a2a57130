package cpu

import "github.com/berth-onnx/berth/backend/cpu/kern"

// Kernel elements that meet nothing but padding are left out. Where images are
// small these may be most of a kernel: under dilation 4, a 3×3 kernel that slides
// over 4×4 pixels reads one pixel at a time, and is a 1×1 kernel.
//
//	k . . . k . . . k        k: kernel, dilation 4
//	. . . . . . . . .        #: image
//	k . . . # # # # k
//	. . . . # # # # .
//	. . . . # # # # .        at the first output position; at the others the
//	k . . . # # # # k        outer taps stay outside, too
//	. . . . . . . . .

// live returns the taps lo up to hi along dimension d that meet the image at some
// output position. There may be others among them. One is left at least.
func (w *window) live(d int) (lo, hi int) {
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

// cropped is the window without the outer taps that meet no image; the same window if
// all do. What it takes of the weights is noted.
func (w window) cropped(taken *arrangement) window {
	s := w
	var first [3]int
	for d := range 3 {
		lo, hi := w.live(d)
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

// crop is what an arrangement takes of the weights of a convolution.
func (p *prep) crop(w kern.Source, taken arrangement) kern.Source {
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
	return kern.Source{Data: out}
}
