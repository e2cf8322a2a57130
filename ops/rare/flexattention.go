package rare

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// FlexAttention is attention whose scores and probabilities go through optional
// bodies: https://onnx.ai/onnx/operators/onnx_aionnx_preview_FlexAttention.html
//
//	Y = prob_mod(softmax(score_mod(scale * Q·Kᵀ))) · V
//
// Both bodies map a tensor [B,Hq,S,T] to one of the same type, in the element
// type of softmax_precision (float32, or float64 for float64 operands).
var FlexAttention = ops.Op{
	Domain: "ai.onnx.preview", Name: "FlexAttention", Since: 1, Doc: "Y = prob_mod(softmax(score_mod(scale * Q·Kᵀ))) · V",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.GraphAttr("prob_mod"), ops.FloatAttr("scale"), ops.GraphAttr("score_mod"),
		ops.IntAttr("softmax_precision")},
	InferBodies: kit.BodyRule(inferFlexAttention),
	Eval:        kit.FloatKernel(evalFlexAttention[float32], evalFlexAttention[float64]),
	Facts:       ops.Facts{Traits: ops.GeneralTraits, Cost: kit.AttentionCost},
}

func inferFlexAttention(ctx context.Context, n *ssa.Node) []ops.Inferred {
	q, k, v := ops.InType(n, 0), ops.InType(n, 1), ops.InType(n, 2)
	for _, t := range []ssa.Type{q, k, v} {
		if t.Ranked && t.Rank() != 4 {
			kit.Failf("operand %s, expected rank 4", t)
		}
	}
	dt := kit.Try(nn.FlexPrecision(n))
	scores := ssa.TensorOf(dt, kit.DimOf(q, 0), kit.DimOf(q, 1), kit.DimOf(q, 2), kit.DimOf(k, 2))
	for _, body := range n.Bodies {
		if len(body.Params) != 1+n.Captures || len(body.Results) != 1 {
			kit.Failf("a body has %d parameters and %d results, expected 1 each", len(body.Params)-n.Captures, len(body.Results))
		}
		kit.Check(kit.BindCaptures(n, body))
		body.Params[0].Type = scores
		kit.Check(ops.InferGraphContext(ctx, body))
	}
	return ops.One(ssa.TensorOf(q.DType, kit.DimOf(q, 0), kit.DimOf(q, 1), kit.DimOf(q, 2), kit.DimOf(v, 3)))
}

func evalFlexAttention[T float32 | float64](c *ops.Call) {
	var x [3]nn.Heads[T]
	for i, what := range []string{"Q", "K", "V"} {
		kit.WantRank(what, c.Array(i), 4)
		x[i] = nn.HeadsOf[T](c, what, c.Array(i), 0)
	}
	q, k, v := x[0], x[1], x[2]
	nn.CheckHeads(q, k, v)
	dt := kit.Try(nn.FlexPrecision(c.Node))
	shape := []int{q.Batch, q.N, q.Seq, k.Seq}
	p := nn.AttentionScores(c, q, k, nn.ScaleOf(c.Node, q.Size))
	p = modify(c, "score_mod", dt, shape, p)
	kit.SoftmaxRows(c, p, k.Seq)
	p = modify(c, "prob_mod", dt, shape, p)
	nn.StoreAttended(c, c.Array(0).DType, p, q, v, false)
}

// modify sends values through a body of the node, if it has that body.
func modify[T kit.RealNum](c *ops.Call, name string, dt ndarray.DType, shape []int, v []T) []T {
	i := slices.Index(c.Node.BodyAttr, name)
	if i < 0 {
		return v
	}
	a := kit.Try(ndarray.NewContext(c.Ctx, c.Memory, dt, shape...))
	kit.WriteFloats(c, a, v)
	args := append([]ndarray.Value{a}, c.In[len(c.In)-c.Node.Captures:]...)
	out := kit.Try(c.Body(i, args))
	b, ok := out[0].(*ndarray.Array)
	if !ok || b.DType != dt {
		kit.Failf("%s does not return a tensor of %s", name, dt)
	}
	kit.WantShape("the result of "+name, b, shape...)
	return kit.Elements[T](c, b)
}
