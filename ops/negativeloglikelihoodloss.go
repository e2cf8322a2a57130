package ops

import (
	"math"

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
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferLoss(n)
		return One(t)
	}),
	Eval: kernel(func(c *Call) { byReal(c, 0, evalNLL[float32], evalNLL[float64]) }),
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
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferLoss(n)
		return []Inferred{{Type: t}, {Type: InType(n, 0)}}
	}),
	Eval: kernel(func(c *Call) { byReal(c, 0, evalCrossEntropy[float32], evalCrossEntropy[float64]) }),
}

func evalNLL[T float32 | float64](c *Call) {
	lossArrays(c)
	classLoss(c, reals[T](c.Array(0)))
}

func evalCrossEntropy[T float32 | float64](c *Call) {
	lossArrays(c)
	x := c.Array(0)
	if x.Rank() < 2 {
		failf("scores have shape %v, expected [N,C,...]", x.Shape)
	}
	v := reals[T](x)
	logp := make([]T, len(v))
	classes, inner := x.Shape[1], sizeOf(x.Shape[2:])
	for i := 0; classes > 0 && i < x.Shape[0]*inner; i++ {
		logSoftmaxStrided(logp[i/inner*classes*inner+i%inner:], v[i/inner*classes*inner+i%inner:], classes, inner)
	}
	if c.Wants(1) {
		out := newReal[T](c, 1, x.DType, x.Shape...)
		copy(out.V, logp)
		out.store()
	}
	classLoss(c, logp)
}

// logSoftmaxStrided computes x - log(sum e^x) over n elements stride apart.
func logSoftmaxStrided[T realNum](y, x []T, n, stride int) {
	most := math.Inf(-1)
	for k := range n {
		most = math.Max(most, float64(x[k*stride]))
	}
	var sum float64
	for k := range n {
		sum += math.Exp(float64(x[k*stride]) - most)
	}
	logSum := most + math.Log(sum)
	for k := range n {
		y[k*stride] = T(float64(x[k*stride]) - logSum)
	}
}
