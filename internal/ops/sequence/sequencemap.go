package sequence

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// SequenceMap applies a body to every member:
// https://onnx.ai/onnx/operators/onnx__SequenceMap.html
//
//	out[i] = body(input_sequence[i], additional…)
//
// where sequences among the additional inputs give their member i and tensors
// are passed whole.
var SequenceMap = ops.Op{
	Name: "SequenceMap", Since: 17, Doc: "out_sequence[i] = body(input_sequence[i], …)",
	MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: -1,
	Attrs: []*ops.AttrSpec{ops.GraphAttr("body").Mandatory()},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, InferBodies: kit.BodyRule(inferSequenceMap), Eval: kit.Kernel(evalSequenceMap),
}

func inferSequenceMap(ctx context.Context, n *ssa.Node) []ops.Inferred {
	body, formals := n.Body("body"), n.Formals()
	if len(body.Params) != len(n.In) || len(body.Results) != len(n.Out) {
		kit.Failf("a body of %d parameters and %d results does not fit %d operands and %d results",
			len(body.Params)-n.Captures, len(body.Results), len(formals), len(n.Out))
	}
	for i := range formals {
		t := ops.InType(n, i)
		if t.Kind == ssa.KindSequence {
			t = elemOf(t)
		}
		body.Params[i].Type, body.Params[i].Content = t, nil
	}
	kit.Check(kit.BindCaptures(n, body))
	kit.Check(ops.InferGraphContext(ctx, body))
	out := make([]ops.Inferred, len(n.Out))
	for i, r := range body.Results {
		out[i].Type = ssa.SequenceOf(r.Type)
	}
	return out
}

func evalSequenceMap(c *ops.Call) {
	first := needSequence(c, 0)
	body, formals := c.Node.Body("body"), len(c.Node.Formals())
	out := make([]*ndarray.Sequence, len(c.Node.Out))
	for k := range out {
		out[k] = &ndarray.Sequence{Elem: body.Results[k].Type.DType}
	}
	for i := range first.Items {
		kit.CheckEnded(c)
		args := slices.Clone(c.In)
		for k := range formals {
			s, ok := c.In[k].(*ndarray.Sequence)
			if !ok {
				continue
			}
			if len(s.Items) != len(first.Items) {
				kit.Failf("operand %d has %d members, operand 0 has %d", k, len(s.Items), len(first.Items))
			}
			args[k] = s.Items[i]
		}
		got := kit.Try(c.Body(0, args))
		for k, v := range got[:len(out)] {
			if a, ok := v.(*ndarray.Array); ok {
				out[k].Elem = a.DType
			}
			out[k].Items = append(out[k].Items, ownedCopy(c, v))
		}
	}
	for k, s := range out {
		kit.Check(c.SetOutput(k, s))
	}
}
