package ops

import "github.com/berth-onnx/berth/ndarray"

// RNN is a simple recurrent layer: https://onnx.ai/onnx/operators/onnx__RNN.html
//
//	H = f(X·Wᵀ + H·Rᵀ + Wb + Rb)
var RNN = Op{
	Name: "RNN", Since: 22, Form: bf16Since22(7), Doc: "H = f(X·Wᵀ + H·Rᵀ + Wb + Rb) over a sequence",
	MinIn: 3, MaxIn: 6, MinOut: 0, MaxOut: 2,
	Attrs: recurrentAttrs, Infer: rule(inferRecurrent(1)),
	Eval:  floatKernel(evalRNN[float32], evalRNN[float64]),
	Facts: Facts{Traits: general, Cost: recurrentCost(1)},
}

func evalRNN[T float32 | float64](c *Call) {
	hidden := hiddenOf(c)
	r := recurrenceOf(c, 1, hidden)
	r.checkWeights(tensor(c, 1), tensor(c, 2), c.Array(3))
	acts := gateFunctions(c.Node, []string{"Tanh"}, r.dirs)
	p := recurrentParts[T]{bias: sumBias(&r, elements[T](c.Array(3)), 1)}
	p.input, p.hidden = floatProducts(&r, elements[T](c.Array(0)), elements[T](c.Array(1)), elements[T](c.Array(2)))
	clip := clipper(c.Node)
	rec := make([]T, r.batch*hidden)
	p.step = func(d int, active []bool, gate func(int) []T, h, _ []T) {
		clear(rec)
		p.hidden(d, 0, 1, h, rec)
		for b, on := range active {
			if !on {
				continue
			}
			for i, x := range gate(b) {
				h[b*hidden+i] = T(acts[d][0](clip(float64(x + rec[b*hidden+i]))))
			}
		}
	}
	runRecurrence(c, &r, p, [2]*ndarray.Array{c.Array(5)}, 1)
}
