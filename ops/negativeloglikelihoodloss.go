package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// NegativeLogLikelihoodLoss picks each label's log probability:
// https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html
//
//	loss[n,d] = -input[n, target[n,d], d] * weight[target[n,d]], then reduced
var NegativeLogLikelihoodLoss = Op{
	Name: "NegativeLogLikelihoodLoss", Since: 22, Form: bf16Since22(13), Doc: "loss = -input[target] * weight[target], reduced",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: lossAttrs,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferLoss(n)
		return One(t)
	}),
	Eval: kernel(func(c *Call) { classLoss(c, elements[float64](lossScores(c))) }),
}

// SoftmaxCrossEntropyLoss is the same of the scores' log softmax:
// https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
//
//	log_prob = log(softmax(scores)) over the classes
//	loss[n,d] = -log_prob[n, labels[n,d], d] * weights[labels[n,d]], then reduced
var SoftmaxCrossEntropyLoss = Op{
	Name: "SoftmaxCrossEntropyLoss", Since: 13, Doc: "loss = -log softmax(scores)[labels] * weights[labels], reduced",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 2,
	Attrs: lossAttrs,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferLoss(n)
		return []Inferred{{Type: t}, {Type: InType(n, 0)}}
	}),
	Eval: kernel(evalCrossEntropy),
}

func evalCrossEntropy(c *Call) {
	x := lossScores(c)
	if x.Rank() < 2 {
		failf("scores have shape %v, expected [N,C,...]", x.Shape)
	}
	logp := slices.Clone(elements[float64](x))
	eachLine(logp, x.Shape, 1, logSoftmaxLine)
	setResult(c, 1, x.DType, x.Shape, logp)
	classLoss(c, logp)
}
