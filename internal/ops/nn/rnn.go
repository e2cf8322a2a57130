package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// RNN is a simple recurrent layer: https://onnx.ai/onnx/operators/onnx__RNN.html
//
//	H = f(X·Wᵀ + H·Rᵀ + Wb + Rb)
var RNN = ops.Op{
	Name: "RNN", Since: 22, Form: bf16Since22(7), Doc: "H = f(X·Wᵀ + H·Rᵀ + Wb + Rb) over a sequence",
	MinIn: 3, MaxIn: 6, MinOut: 0, MaxOut: 2,
	Attrs: recurrentAttrs, Infer: kit.Rule(InferRecurrent(1)),
	Eval:  kit.FloatKernel(evalRNN[float32], evalRNN[float64]),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: RecurrentCost},
}

func evalRNN[T float32 | float64](c *ops.Call) {
	r, p := floatRecurrence[T](c, 1, 1)
	acts, clip := kit.GateFunctions(c.Node, []string{"Tanh"}, r.Dirs), clipper(c.Node)
	rec := kit.Make[T](c, r.batch*r.Hidden)
	p.step = func(d int, active []bool, gate func(int) []T, h, _ []T) {
		clear(rec)
		p.Hidden(d, 0, 1, h, rec)
		for b, on := range active {
			if !on {
				continue
			}
			for i, x := range gate(b) {
				at := b*r.Hidden + i
				h[at] = T(acts[d][0](clip(float64(x + rec[at]))))
			}
		}
	}
	runRecurrence(c, r, p, [2]*ndarray.Array{c.Array(5)}, 1)
}
