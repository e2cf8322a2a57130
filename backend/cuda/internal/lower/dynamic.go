package lower

import (
	"slices"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/backend/cuda/internal/kernels"
	"github.com/berth-onnx/berth/ndarray"
)

// Quantization by the range of the elements, and the LSTM that quantizes X once and its states in every step.

func init() {
	add("", dynamicQuantize, "DynamicQuantizeLinear")
	add(microsoft, dynamicLSTM, "DynamicQuantizeLSTM")
}

// flipOf is what makes elements of 8 bits into int8.
var flipOf = map[ndarray.DType]int32{ndarray.Int8: 0, ndarray.Uint8: kernels.Flip}

func dynamicQuantize(p *prep) (bool, error) {
	if p.in[0].dt != ndarray.Float32 || p.in[0].n == 0 || !p.wants(0) || !p.wants(1) || !p.wants(2) {
		return false, nil
	}
	p.quantizeByRange(func(c *Call) Operand { return c.Out[0] }, func(c *Call) Operand { return c.Out[1] }, func(c *Call) Operand { return c.Out[2] })
	return true, nil
}

// quantizeByRange adds the launches that quantize the first operand.
func (p *prep) quantizeByRange(y, scale, zero func(c *Call) Operand) {
	n := int64(p.in[0].n)
	parts := p.temporary(kernels.RangesBytes(n))
	p.launch(func(c *Call) (*device.Launch, error) { return p.host.Kernels().Ranges(n, c.In[0], parts(c)) }, 0)
	p.launch(func(c *Call) (*device.Launch, error) {
		return p.host.Kernels().Dynamic(n, c.In[0], parts(c), y(c), scale(c), zero(c))
	}, 0)
}

// The operands of a DynamicQuantizeLSTM beside those of an LSTM; a zero point follows its scale.
const (
	opScaleW = 8
	opScaleR = 10
)

// dynamicLSTM multiplies X and W of each direction in integers, and then goes through the steps.
func dynamicLSTM(p *prep) (bool, error) {
	g, ok := p.recurrence(kernels.LSTM, []string{"Sigmoid", "Tanh", "Tanh"}, 1)
	if !ok || p.in[opX].dt != ndarray.Float32 || !p.statesFit(&g) {
		return false, nil
	}
	steps, batch, input := p.in[opX].shape[0], p.in[opX].shape[1], p.in[opX].shape[2]
	rows, width := steps*batch, 4*int(g.Hidden)
	if batch < 1 || steps < 1 || input < 1 || batch*int(g.Hidden) > kernels.MostStates || width*input > most || rows*width > most {
		return false, nil
	}
	perColumnW, okW := p.quantizedWeights(opW, opScaleW, []int{int(g.Dirs), input, width})
	perColumnR, okR := p.quantizedWeights(opR, opScaleR, []int{int(g.Dirs), int(g.Hidden), width})
	if !okW || !okR {
		return false, nil
	}
	bytes, scale, zero := p.temporary(int64(p.in[opX].n)), p.temporary(4), p.temporary(1)
	p.quantizeByRange(bytes, scale, zero)
	size := int64(rows) * int64(width) * 4
	sums := p.temporary(int64(g.Dirs) * size)
	product := kernels.IntGemm{M: int32(rows), N: int32(width), K: int32(input), FlipA: kernels.Flip, FlipB: flipOf[p.in[opW].dt], ZeroColumn: perColumnW}
	for d := range int64(g.Dirs) {
		matrix, zeros := int64(input)*int64(width), int64(1)
		if perColumnW == 1 {
			zeros = int64(width)
		}
		p.launch(func(c *Call) (*device.Launch, error) {
			return p.host.Kernels().IntGemm(product, 1, kernels.IntOperands{A: bytes(c), B: part(c.In[opW], d*matrix, matrix), AZero: zero(c),
				BZero: part(c.In[opScaleW+1], d*zeros, zeros)}, part(sums(c), d*size, size))
		}, opW, opScaleW+1)
	}
	q := kernels.Quantized{PerColumnW: perColumnW, PerColumnR: perColumnR, Flip: flipOf[p.in[opR].dt]}
	p.choice = "dp4a"
	p.launch(func(c *Call) (*device.Launch, error) {
		o := kernels.QuantizedOperands{RecurrentOperands: p.layer(c, sums(c)), XScale: scale(c), WScale: c.In[opScaleW], RScale: c.In[opScaleR], RZero: c.In[opScaleR+1]}
		return p.host.Kernels().QuantizedLSTM(g, q, o, at(c.Out, 0), at(c.Out, 1), at(c.Out, 2))
	}, opR, opBias, opLengths, opH, opC, opPeepholes, opScaleW, opScaleR, opScaleR+1)
	return true, nil
}

// quantizedWeights reads whether a stack of matrices has scales and zero points for columns (1) or for each matrix (0).
func (p *prep) quantizedWeights(weights, scale int, shape []int) (perColumn int32, ok bool) {
	w, dirs, columns := p.in[weights], shape[0], shape[2]
	_, isByte := flipOf[w.dt]
	if !isByte || !slices.Equal(w.shape, shape) || !p.has(scale) || !p.has(scale+1) || p.in[scale].dt != ndarray.Float32 ||
		p.in[scale+1].dt != w.dt || p.in[scale+1].n != p.in[scale].n {
		return 0, false
	}
	switch p.in[scale].n {
	case dirs:
		return 0, true
	case dirs * columns:
		return 1, true
	}
	return 0, false
}
