package cpu

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

// cropped is the window without the outer taps that meet no image, and what is left
// of the weights of a convolution; the same window if all do.
func (w window) cropped(weights []float32) (window, []float32) {
	s, full := w, w.kernel
	var first [3]int
	for d := range 3 {
		lo, hi := w.live(d)
		first[d], s.kernel[d] = lo, hi-lo
		s.begin[d] -= lo * w.dilation[d]
		s.end[d] -= (full[d] - hi) * w.dilation[d]
	}
	if s.kernel == full {
		return w, weights
	}
	kernels := len(weights) / sizeOf(full[:])
	left := make([]float32, 0, kernels*sizeOf(s.kernel[:]))
	for i := range kernels {
		for a := range s.kernel[0] {
			for b := range s.kernel[1] {
				at := ((i*full[0]+first[0]+a)*full[1]+first[1]+b)*full[2] + first[2]
				left = append(left, weights[at:at+s.kernel[2]]...)
			}
		}
	}
	return s, left
}
