package ops

import "math"

// tap is one operand index and its weight.
type tap struct {
	index  int
	weight float64
}

func cubicKernel(a, d float64) float64 {
	switch d = math.Abs(d); {
	case d <= 1:
		return ((a+2)*d-(a+3))*d*d + 1
	case d < 2:
		return ((d-5)*d+8)*d*a - 4*a
	}
	return 0
}
