package rare

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// CausalConvWithState is a depthwise 1-D convolution over the present and the
// k-1 positions before it: https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
//
//	line = [past_state input]                            past: k-1 positions, 0 if absent
//	output[t] = act(bias + sum over j of weight[j] * line[t+j])
//	present_state = the last k-1 positions of line
var CausalConvWithState = ops.Op{
	Name: "CausalConvWithState", Since: 27, Doc: "output = act(weight * [past_state input] + bias), per channel",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.StrAttr("activation", "none", "silu", "swish")},
	Facts: ops.Facts{Whole: true, Traits: ops.GeneralTraits, Cost: kit.CausalConvCost}, Infer: kit.Rule(inferCausalConv), Eval: kit.Kernel(evalCausalConv),
}

func inferCausalConv(n *ssa.Node) []ops.Inferred {
	x, w := ops.InType(n, 0), ops.InType(n, 1)
	if x.Ranked && x.Rank() != 3 || w.Ranked && w.Rank() != 3 {
		kit.Failf("input %s and weight %s must have rank 3", x, w)
	}
	kit.MatchShapes(n, "B C _", "C 1 _", "C", "B C _")
	k, ok1 := kit.DimOf(w, 2).Const()
	if past, ok2 := kit.DimOf(ops.InType(n, 3), 2).Const(); n.Input(3) != nil && ok1 && ok2 && past != k-1 {
		kit.Failf("past_state has %d columns, a window of %d needs %d", past, k, k-1)
	}
	return []ops.Inferred{{Type: x}, {Type: ssa.TensorOf(x.DType, kit.DimOf(x, 0), kit.DimOf(x, 1), kit.DimOf(w, 2).AddN(-1))}}
}

func evalCausalConv(c *ops.Call) {
	x, w := c.Array(0), c.Array(1)
	checkCausalConv(c)
	batch, ch, length, k := x.Shape[0], x.Shape[1], x.Shape[2], w.Shape[2]
	y := kit.NewResult[float32](c, 0, x.DType, x.Shape...)
	in, weight, bias, past := kit.Elements[float32](c, x), kit.Elements[float32](c, w), kit.Elements[float32](c, c.Array(2)), kit.Elements[float32](c, c.Array(3))
	gated := ops.Str(c.Node, "activation") != "none"
	state := kit.Make[float32](c, batch*ch*(k-1))
	line := kit.Make[float32](c, k-1+length)
	watch := kit.Watching(c)
	for i := range batch * ch {
		watch.Did(k + length)
		clear(line[:k-1])
		if past != nil {
			copy(line, past[i*(k-1):(i+1)*(k-1)])
		}
		kit.CopySlice(c, line[k-1:], in[i*length:(i+1)*length])
		out := y.V[i*length : (i+1)*length]
		for t := range out {
			watch.Did(k)
			out[t] = kit.Dot(weight[i%ch*k:][:k], line[t:t+k])
			if bias != nil {
				out[t] += bias[i%ch]
			}
			if gated {
				out[t] = float32(kit.Silu(float64(out[t])))
			}
		}
		copy(state[i*(k-1):(i+1)*(k-1)], line[length:])
	}
	y.Store()
	kit.SetResult(c, 1, x.DType, []int{batch, ch, k - 1}, state)
}

// checkCausalConv checks operands and attributes.
func checkCausalConv(c *ops.Call) {
	x, w := c.Array(0), c.Array(1)
	kit.WantRank("input", x, 3)
	kit.WantRank("weight", w, 3)
	if !kit.FullPrecisions.Has(x.DType) {
		kit.Check(kit.UnsupportedType(x.DType))
	}
	batch, ch, k := x.Shape[0], x.Shape[1], w.Shape[2]
	kit.WantShape("weight", w, ch, 1, max(k, 1))
	kit.WantShape("bias", c.Array(2), ch)
	kit.WantShape("past_state", c.Array(3), batch, ch, k-1)
}
