package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// The sign of zero. x + 0.0 is x but for one value: -0.0 becomes 0.0. The two are
// equal to every comparison, and most readers lose the difference at once:
//
//	x ─▶ Add 0.0 ─▶ Sigmoid            1/(1+e^0), whatever the sign
//	x ─▶ Add 0.0 ─▶ Mul ─▶ Conv        a product keeps the sign, a sum of products
//	                                   that begins with 0.0 does not
//	x ─▶ Add 0.0 ─▶ Reciprocal         -Inf or Inf: the Add stays
//
// So the addition goes where no way leads from it to a reader that could tell, nor
// out of the graph.

// losesZeroSign are operators whose results are the same for either zero.
var losesZeroSign = []string{"Sigmoid", "HardSigmoid", "Exp", "Cos", "Cosh", "Softplus", "Softmax", "LogSoftmax", "Conv", "ConvTranspose",
	"MatMul", "Gemm", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "Abs", "Equal", "Less", "Greater",
	"LessOrEqual", "GreaterOrEqual", "ArgMax", "ArgMin", "QuantizeLinear", "DynamicQuantizeLinear"}

// keepsZeroSign are operators that hand a zero on, of whatever sign, and do
// nothing else with it.
var keepsZeroSign = []string{"Add", "Sub", "Mul", "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Gelu", "Tanh", "Clip", "HardSwish", "Neg",
	"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Split", "Slice", "Gather", "Expand", "Tile", "Pad",
	"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "Resize", "TopK",
	"BatchNormalization", "Sum", "Mean", "Max", "Min", "Where", "DepthToSpace", "SpaceToDepth"}

// zeroSignReach bounds the readers looked at.
const zeroSignReach = 64

// hidesZeroSign reports that nobody who reads v, directly or through operators
// that hand zeros on, can tell -0.0 from 0.0.
func (c *Context) hidesZeroSign(v *ssa.Value) bool {
	todo, seen := []*ssa.Value{v}, map[*ssa.Value]bool{v: true}
	for budget := zeroSignReach; len(todo) > 0; {
		v, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if c.graph.IsResult(v) || v.Type.DType.IsComplex() {
			return false
		}
		for _, u := range v.Uses() {
			n := u.Node
			if budget--; budget < 0 || n.Opaque || n.Domain != "" || len(n.Bodies) > 0 {
				return false
			}
			if slices.Contains(losesZeroSign, n.Op) {
				continue
			}
			if !slices.Contains(keepsZeroSign, n.Op) {
				return false
			}
			for _, o := range n.Out {
				if o != nil && !seen[o] {
					seen[o] = true
					todo = append(todo, o)
				}
			}
		}
	}
	return true
}
