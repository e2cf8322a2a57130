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
	Attrs: []AttrSpec{{Name: "prob_mod", Graph: true}, {Name: "scale", Kind: ssa.AttrFloat}, {Name: "score_mod", Graph: true},
		{Name: "softmax_precision", Kind: ssa.AttrInt}},
	Infer: inferFlexAttention,
	Eval: func(c *Call) error {
		return byReal(c, 0, evalFlexAttention[float32], evalFlexAttention[float64])
	},
	Facts: Facts{Cost: attentionCost},
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

func inferFlexAttention(n *ssa.Node) ([]Inferred, error) {
	q, k, v := InType(n, 0), InType(n, 1), InType(n, 2)
	for _, t := range []ssa.Type{q, k, v} {
		if t.Ranked && t.Rank() != 4 {
			return nil, fmt.Errorf("operand %s, expected rank 4", t)
		}
	}
	dt, err := FlexPrecision(n)
	if err != nil {
		return nil, err
	}
	scores := ssa.TensorOf(dt, dimOf(q, 0), dimOf(q, 1), dimOf(q, 2), dimOf(k, 2))
	for _, body := range n.Bodies {
		if len(body.Params) != 1+n.Captures || len(body.Results) != 1 {
			return nil, fmt.Errorf("a body has %d parameters and %d results, expected 1 each", len(body.Params)-n.Captures, len(body.Results))
		}
		if err := bindCaptures(n, body); err != nil {
			return nil, err
		}
		body.Params[0].Type = scores
		if err := InferGraph(body); err != nil {
			return nil, err
		}
	}
	return One(ssa.TensorOf(q.DType, dimOf(q, 0), dimOf(q, 1), dimOf(q, 2), dimOf(v, 3))), nil
}

func evalFlexAttention[T float32 | float64](c *Call) error {
	var x [3]heads[T]
	for i, what := range []string{"Q", "K", "V"} {
		if err := wantRank(what, c.Array(i), 4); err != nil {
			return err
		}
		var err error
		if x[i], err = headsOf[T](what, c.Array(i), 0); err != nil {
			return err
		}
	}
	q, k, v := x[0], x[1], x[2]
	if err := checkHeads(q, k, v); err != nil {
		return err
	}
	dt, err := FlexPrecision(c.Node)
	if err != nil {
		return err
	}
	shape := []int{q.batch, q.n, q.seq, k.seq}
	p := attentionScores(q, k, float64(c.Node.Float("scale", float32(1/math.Sqrt(float64(q.size))))))
	if p, err = modify(c, "score_mod", dt, shape, p); err != nil {
		return err
	}
	softmaxRows(p, k.seq)
	if p, err = modify(c, "prob_mod", dt, shape, p); err != nil {
		return err
	}
	y, err := newReal[T](c, 0, c.Array(0).DType, q.batch, q.n, q.seq, v.size)
	if err != nil {
		return err
	}
	attentionApply(p, v, bnsh(y.V, q.batch, q.n, q.seq, v.size))
	return y.store()
}

// modify sends values through a body of the node, if it has that body.
func modify[T realNum](c *Call, name string, dt ndarray.DType, shape []int, v []T) ([]T, error) {
	i := slices.Index(c.Node.BodyAttr, name)
	if i < 0 {
		return v, nil
	}
	a, err := ndarray.New(dt, shape...)
	if err != nil {
		return nil, err
	}
	r := realOut[T]{v, a}
	if dt == ndarray.DTypeOf(T(0)) {
		copy(ndarray.Slice[T](a), v)
	} else if err := r.store(); err != nil {
		return nil, err
	}
	args := append([]ndarray.Value{a}, c.In[len(c.In)-c.Node.Captures:]...)
	out, err := c.Body(i, args)
	if err != nil {
		return nil, err
	}
	b, ok := out[0].(*ndarray.Array)
	if !ok || b.DType != dt {
		return nil, fmt.Errorf("%s does not return a tensor of %s", name, dt)
	}
	if err := wantShape("the result of "+name, b, shape...); err != nil {
		return nil, err
	}
	return reals[T](b), nil
}
