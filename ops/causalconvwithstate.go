package ops

import (
	"github.com/berth-onnx/berth/ssa"
)

// CausalConvWithState is a depthwise 1-D convolution over the present and the
// k-1 positions before it: https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
//
//	line = [past_state input]                            past: k-1 positions, 0 if absent
//	output[t] = act(bias + sum over j of weight[j] * line[t+j])
//	present_state = the last k-1 positions of line
var CausalConvWithState = Op{
	Name: "CausalConvWithState", Since: 27, Doc: "output = act(weight * [past_state input] + bias), per channel",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 2,
	Attrs: []AttrSpec{strAttr("activation", "none", "silu", "swish")},
	Facts: Facts{Traits: general, Cost: causalConvCost}, Infer: rule(inferCausalConv), Eval: kernel(evalCausalConv),
}

func inferCausalConv(n *ssa.Node) []Inferred {
	x, w := InType(n, 0), InType(n, 1)
	if x.Ranked && x.Rank() != 3 || w.Ranked && w.Rank() != 3 {
		failf("input %s and weight %s must have rank 3", x, w)
	}
	return []Inferred{{Type: x}, {Type: ssa.TensorOf(x.DType, dimOf(x, 0), dimOf(x, 1), dimOf(w, 2).AddN(-1))}}
}

func evalCausalConv(c *Call) {
	x, w := c.Array(0), c.Array(1)
	checkCausalConv(c)
	batch, ch, length, k := x.Shape[0], x.Shape[1], x.Shape[2], w.Shape[2]
	y := newResult[float32](c, 0, x.DType, x.Shape...)
	in, weight, bias, past := elements[float32](x), elements[float32](w), elements[float32](c.Array(2)), elements[float32](c.Array(3))
	gated := Str(c.Node, "activation") != "none"
	state := make([]float32, batch*ch*(k-1))
	line := make([]float32, k-1+length)
	for i := range batch * ch {
		clear(line[:k-1])
		if past != nil {
			copy(line, past[i*(k-1):(i+1)*(k-1)])
		}
		copy(line[k-1:], in[i*length:(i+1)*length])
		out := y.V[i*length : (i+1)*length]
		for t := range out {
			out[t] = dot(weight[i%ch*k:][:k], line[t:t+k])
			if bias != nil {
				out[t] += bias[i%ch]
			}
			if gated {
				out[t] = float32(silu(float64(out[t])))
			}
		}
		copy(state[i*(k-1):(i+1)*(k-1)], line[length:])
	}
	y.store()
	setResult(c, 1, x.DType, []int{batch, ch, k - 1}, state)
}

// checkCausalConv checks operands and attributes.
func checkCausalConv(c *Call) {
	x, w := c.Array(0), c.Array(1)
	wantRank("input", x, 3)
	wantRank("weight", w, 3)
	if !fullPrecisions.has(x.DType) {
		check(unsupportedType(x.DType))
	}
	batch, ch, k := x.Shape[0], x.Shape[1], w.Shape[2]
	wantShape("weight", w, ch, 1, max(k, 1))
	wantShape("bias", c.Array(2), ch)
	wantShape("past_state", c.Array(3), batch, ch, k-1)
}
