package kernels

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
)

// Resample makes the launch that resizes an axis of outer·from·inner elements to another length. An element along the axis is the sum of
// up to taps elements of the operand, whose places, -1 behind the last, and weights two tables give. Of several axes, operands of
// 16-bit floats are such for the first one alone, and results for the last: between them they are float32.
func (s *Set) Resample(outer int64, from, to, inner, taps int32, isFirst, isLast bool, x, at, weights, y Operand) (*device.Launch, error) {
	n := outer * int64(to) * int64(inner)
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d elements are resized", n)
	}
	name := "resample"
	switch {
	case s.floats == Float32 || isFirst && isLast:
	case isFirst:
		name = "resample_first"
	case isLast:
		name = "resample_last"
	default:
		s = s.Of(Float32)
	}
	return s.launch(name, elements(n), threads, x, at, weights, written(y), from, to, inner, taps, int32(n))
}
