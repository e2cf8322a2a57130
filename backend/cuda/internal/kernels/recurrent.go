package kernels

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

// MostUnits bounds the hidden size of recurrent layers: their states lie in shared memory.
const MostUnits = 2048

// Cells of recurrent layers.
const (
	RNN int32 = iota
	GRU
	LSTM
)

// Activations are the numbers that kernels know the activations of gates by, with ONNX's names in lower case.
var Activations = map[string]int32{
	"relu": 0, "tanh": 1, "sigmoid": 2, "softsign": 3, "softplus": 4, "affine": 5, "scaledtanh": 6, "hardsigmoid": 7, "leakyrelu": 8,
	"thresholdedrelu": 9, "elu": 10,
}

// Recurrent is a recurrent layer: its cell, the steps, sequences, units and directions it has, whether the batch comes first in operands
// and results, and by bit which directions are reversed. Linear is GRU's linear_before_reset, Coupled LSTM's input_forget. There are three
// activations for each of two directions; arguments of activations are limited to Clip, unless it is 0.
type Recurrent struct {
	Cell, Steps, Batch, Hidden, Dirs      int32
	BatchFirst, Reversed, Linear, Coupled int32
	Activations                           [6]Activation
	Clip                                  float32
}

// Activation is the function of a gate, by its number in [Activations].
type Activation struct {
	Kind        int32
	Alpha, Beta float32
}

// Gates is how many gates a cell has.
func (p *Recurrent) Gates() int32 { return [...]int32{RNN: 1, GRU: 3, LSTM: 4}[p.Cell] }

// RecurrentOperands are a layer's: X·Wᵀ of each direction, with the rows of X; R [Dirs, Gates·Hidden, Hidden]; and what may be absent.
type RecurrentOperands struct{ Gates, R, Bias, Lengths, H, C, Peepholes Operand }

// Recurrent makes the launch of a layer of at most [MostUnits] units. Results that are not wanted are absent. Lengths are not above Steps.
func (s *Set) Recurrent(p Recurrent, o RecurrentOperands, y, lastH, lastC Operand) (*device.Launch, error) {
	return s.launch("recurrent", [3]int64{int64(p.Batch), int64(p.Dirs), 1}, threads, o.Gates, o.R, o.Bias, o.Lengths, o.H, o.C, o.Peepholes,
		written(y), written(lastH), written(lastC), p)
}
