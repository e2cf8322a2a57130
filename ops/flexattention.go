package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// FlexAttention is attention whose scores and probabilities go through optional
// bodies: https://onnx.ai/onnx/operators/onnx_aionnx_preview_FlexAttention.html
//
//	Y = prob_mod(softmax(score_mod(scale * Q·Kᵀ))) · V
//
// Both bodies map a tensor [B,Hq,S,T] to one of the same type, in the element
// type of softmax_precision (float32, or float64 for float64 operands).
var FlexAttention = Op{
	Domain: "ai.onnx.preview", Name: "FlexAttention", Since: 1, Doc: "Y = prob_mod(softmax(score_mod(scale * Q·Kᵀ))) · V",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{graphAttr("prob_mod"), floatAttr("scale"), graphAttr("score_mod"),
		intAttr("softmax_precision")},
	Infer: rule(inferFlexAttention),
	Eval:  floatKernel(evalFlexAttention[float32], evalFlexAttention[float64]),
	Facts: Facts{Traits: general, Cost: attentionCost},
}

// FlexPrecision is the element type in which a FlexAttention gives scores to the
// softmax and to its bodies.
func FlexPrecision(n *ssa.Node) (ndarray.DType, error) {
	def := ndarray.Float32
	if InType(n, 0).DType == ndarray.Float64 {
		def = ndarray.Float64
	}
	dt, err := dtypeAttr(n, "softmax_precision", def)
	if err == nil && !(fullPrecisions | typesOf(ndarray.Float64)).has(dt) {
		err = fmt.Errorf("softmax_precision %s: %w", dt, ErrUnsupported)
	}
	return dt, err
}

func inferFlexAttention(n *ssa.Node) []Inferred {
	q, k, v := InType(n, 0), InType(n, 1), InType(n, 2)
	for _, t := range []ssa.Type{q, k, v} {
		if t.Ranked && t.Rank() != 4 {
			failf("operand %s, expected rank 4", t)
		}
	}
	dt := try(FlexPrecision(n))
	scores := ssa.TensorOf(dt, dimOf(q, 0), dimOf(q, 1), dimOf(q, 2), dimOf(k, 2))
	for _, body := range n.Bodies {
		if len(body.Params) != 1+n.Captures || len(body.Results) != 1 {
			failf("a body has %d parameters and %d results, expected 1 each", len(body.Params)-n.Captures, len(body.Results))
		}
		check(bindCaptures(n, body))
		body.Params[0].Type = scores
		check(InferGraph(body))
	}
	return One(ssa.TensorOf(q.DType, dimOf(q, 0), dimOf(q, 1), dimOf(q, 2), dimOf(v, 3)))
}

func evalFlexAttention[T float32 | float64](c *Call) {
	var x [3]heads[T]
	for i, what := range []string{"Q", "K", "V"} {
		wantRank(what, c.Array(i), 4)
		x[i] = headsOf[T](what, c.Array(i), 0)
	}
	q, k, v := x[0], x[1], x[2]
	checkHeads(q, k, v)
	dt := try(FlexPrecision(c.Node))
	shape := []int{q.batch, q.n, q.seq, k.seq}
	p := attentionScores(q, k, float64(FloatOr(c.Node, "scale", float32(1/math.Sqrt(float64(q.size))))))
	p = modify(c, "score_mod", dt, shape, p)
	softmaxRows(p, k.seq)
	p = modify(c, "prob_mod", dt, shape, p)
	y := newResult[T](c, 0, c.Array(0).DType, q.batch, q.n, q.seq, v.size)
	attentionApply(p, v, bnsh(y.V, q.batch, q.n, q.seq, v.size))
	y.store()
}

// modify sends values through a body of the node, if it has that body.
func modify[T realNum](c *Call, name string, dt ndarray.DType, shape []int, v []T) []T {
	i := slices.Index(c.Node.BodyAttr, name)
	if i < 0 {
		return v
	}
	a := try(ndarray.New(dt, shape...))
	r := resultOf[T]{v, a}
	if dt == ndarray.DTypeOf(T(0)) {
		copy(ndarray.Slice[T](a), v)
	} else {
		r.store()
	}
	args := append([]ndarray.Value{a}, c.In[len(c.In)-c.Node.Captures:]...)
	out := try(c.Body(i, args))
	b, ok := out[0].(*ndarray.Array)
	if !ok || b.DType != dt {
		failf("%s does not return a tensor of %s", name, dt)
	}
	wantShape("the result of "+name, b, shape...)
	return elements[T](b)
}
