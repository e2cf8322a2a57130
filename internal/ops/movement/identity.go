package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Identity passes its operand on: https://onnx.ai/onnx/operators/onnx__Identity.html
var Identity = ops.Op{
	Name: "Identity", Since: 25, Form: identityForm, Doc: "Y = X",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(inferIdentity), Eval: kit.Kernel(evalIdentity),
	Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.Idempotent, ops.ZeroSignPassed), Alias: kit.WholeView, Cost: kit.FreeCost},
}

func identityForm(n *ssa.Node) int {
	need := 1
	switch ops.InType(n, 0).Kind {
	case ssa.KindSequence:
		need = 14
	case ssa.KindOptional:
		need = 16
	}
	return max(need, kit.TypeForm(need, kit.ViewVersions...)(n))
}

func inferIdentity(n *ssa.Node) []ops.Inferred {
	return []ops.Inferred{{Type: ops.InType(n, 0), Content: kit.Known(n, 0)}}
}

func evalIdentity(c *ops.Call) {
	if !c.Has(0) {
		kit.Failf("operand 0 is required and absent")
	}
	kit.GiveOut(c, 0, c.In[0])
}
