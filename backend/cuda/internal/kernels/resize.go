package kernels

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
)

// Resample makes the launch that resizes an axis of outer·from·inner elements to another length. An element along the axis is the sum of
// up to taps elements of the operand, whose places, -1 behind the last, and weights two tables give.
func (s *Set) Resample(outer int64, from, to, inner, taps int32, x, at, weights, y Operand) (*device.Launch, error) {
	n := outer * int64(to) * int64(inner)
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d elements are resized", n)
	}
	return s.launch("resample", elements(n), threads, x, at, weights, written(y), from, to, inner, taps, int32(n))
}
