package kernels

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

// ranges is how many parts n elements are cut into, each of which has a range.
func ranges(n int64) int64 { return min(256, pieces(n, 1024)) }

// RangesBytes is the size of the ranges of n elements.
func RangesBytes(n int64) int64 { return 8 * ranges(n) }

// Ranges makes the launch that writes the ranges of n elements.
func (s *Set) Ranges(n int64, x, parts Operand) (*device.Launch, error) {
	return s.launch("ranges", [3]int64{ranges(n), 1, 1}, threads, x, written(parts), int32(n))
}

// Dynamic makes the launch that quantizes n elements to uint8 by their ranges.
func (s *Set) Dynamic(n int64, x, parts, y, scale, zero Operand) (*device.Launch, error) {
	return s.launch("dynamic", [3]int64{pieces(n, 1024), 1, 1}, threads, x, parts, written(y), written(scale), written(zero), int32(ranges(n)), int32(n))
}

// MostStates bounds the units of all sequences of an LSTM with quantized weights.
const MostStates = 1024

// Quantized says of which kind the weights of an LSTM are: whether scales and zero points are those of columns, and what makes elements of R int8.
type Quantized struct{ PerColumnW, PerColumnR, Flip int32 }

// QuantizedOperands are those of an LSTM with quantized weights: X·W of each direction in integers, with the scale of X, and R, which are
// [Dirs, Hidden, 4·Hidden]; Gates of [RecurrentOperands] has the former.
type QuantizedOperands struct {
	RecurrentOperands
	XScale, WScale, RScale, RZero Operand
}

// QuantizedLSTM makes the launch of an LSTM with quantized weights, of at most [MostStates] units.
func (s *Set) QuantizedLSTM(p Recurrent, q Quantized, o QuantizedOperands, y, lastH, lastC Operand) (*device.Launch, error) {
	return s.launch("quantized_lstm", [3]int64{int64(p.Dirs), 1, 1}, threads, o.Gates, o.XScale, o.WScale, o.R, o.RScale, o.RZero, o.Bias, o.Lengths,
		o.H, o.C, o.Peepholes, written(y), written(lastH), written(lastC), p, q)
}
