package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// NegativeLogLikelihoodLoss picks each label's log probability:
// https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html
//
//	loss[n,d] = -input[n, target[n,d], d] * weight[target[n,d]], then reduced
var NegativeLogLikelihoodLoss = ops.Op{
	Name: "NegativeLogLikelihoodLoss", Since: 22, Form: bf16Since22(13), Doc: "loss = -input[target] * weight[target], reduced",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: lossAttrs,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		kit.MatchShapes(n, "N C ...", "N ...", "C")
		return ops.One(inferLoss(n))
	}),
	Eval: kit.Kernel(func(c *ops.Call) { classLoss(c, kit.Elements[float64](c, lossScores(c))) }),
}

// SoftmaxCrossEntropyLoss is the same of the scores' log softmax:
// https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
//
//	log_prob = log(softmax(scores)) over the classes
//	loss[n,d] = -log_prob[n, labels[n,d], d] * weights[labels[n,d]], then reduced
var SoftmaxCrossEntropyLoss = ops.Op{
	Name: "SoftmaxCrossEntropyLoss", Since: 13, Doc: "loss = -log softmax(scores)[labels] * weights[labels], reduced",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 2,
	Attrs: lossAttrs,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return []ops.Inferred{{Type: inferLoss(n)}, {Type: ops.InType(n, 0)}}
	}),
	Eval: kit.Kernel(evalCrossEntropy),
}

func evalCrossEntropy(c *ops.Call) {
	x := lossScores(c)
	if x.Rank() < 2 {
		kit.Failf("scores have shape %v, expected [N,C,...]", x.Shape)
	}
	logp := kit.Copy(c, kit.Elements[float64](c, x))
	kit.EachLine(c, logp, x.Shape, 1, kit.LogSoftmaxLine)
	kit.SetResult(c, 1, x.DType, x.Shape, logp)
	classLoss(c, logp)
}
