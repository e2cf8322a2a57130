package vision

import "math"

// tapsOf is how many elements along an axis a mode interpolates; nearest computes nothing.
var tapsOf = map[string]int64{"nearest": 0, "linear": 2, "cubic": 4}

// tap is one operand index and its weight.
type tap struct {
	index  int
	weight float64
}

// linearKernel and cubicKernel weigh a tap by its distance d; a is the slope of the
// cubic at distance 1.
// Source: R. Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981.
func linearKernel(d float64) float64 { return max(0, 1-math.Abs(d)) }

func cubicKernel(a, d float64) float64 {
	switch d = math.Abs(d); {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((d-5)*d+8)*d*a - 4*a
	}
	return 0
}
