package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Identity passes its operand on: https://onnx.ai/onnx/operators/onnx__Identity.html
var Identity = Op{
	Name: "Identity", Since: 25, Form: identityForm, Doc: "Y = X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: rule(inferIdentity), Eval: kernel(evalIdentity),
	Facts: Facts{Traits: elementwise.but(Idempotent, ZeroSignPassed), Alias: wholeView, Cost: freeCost},
}

func identityForm(n *ssa.Node) int {
	need := 1
	switch InType(n, 0).Kind {
	case ssa.KindSequence:
		need = 14
	case ssa.KindOptional:
		need = 16
	}
	return max(need, typeForm(need, viewVersions...)(n))
}

func inferIdentity(n *ssa.Node) []Inferred {
	return []Inferred{{InType(n, 0), known(n, 0)}}
}

func evalIdentity(c *Call) {
	if !c.Has(0) {
		failf("operand 0 is required and absent")
	}
	a, ok := c.In[0].(*ndarray.Array)
	if !ok {
		check(c.SetOutput(0, c.In[0]))
		return
	}
	copyReshaped(c, a, a.Shape)
}

// copyReshaped stores a's elements as result 0 under another shape of as many
// elements. Where the result is planned as a view of the operand both are the
// same memory and nothing moves.
func copyReshaped(c *Call, a *ndarray.Array, shape []int) {
	out := result(c, 0, a.DType, shape...)
	copyWhole(out, a)
}
