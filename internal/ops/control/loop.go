package control

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Loop repeats its body: https://onnx.ai/onnx/operators/onnx__Loop.html
//
//	for i = 0; i < M && cond; i++ {
//	    cond, carried..., slices... = body(i, cond, carried..., captures...)
//	    scans = append(scans, slices)
//	}
//
// M and the initial condition may be absent (no limit, true).
var Loop = ops.Op{
	Name: "Loop", Since: 25, Form: kit.Since(13), Doc: "repeat body while i < M and cond",
	MinIn: 2, MaxIn: -1, OptionalIn: 2, MinOut: 0, MaxOut: -1,
	Attrs: []*ops.AttrSpec{ops.GraphAttr("body").Mandatory()},
	Facts: ops.Facts{Traits: ops.GeneralTraits.But(ops.Iterates)}, InferBodies: kit.BodyRule(inferLoop), Eval: kit.Kernel(evalLoop),

	Downgrades: tensorsOnly,
}

func inferLoop(ctx context.Context, n *ssa.Node) []ops.Inferred {
	s := kit.Try(ops.LoopOf(n))
	p := s.Body.Params
	p[0].Type = ssa.StaticTensor(ndarray.Int64)
	p[1].Type = ssa.StaticTensor(ndarray.Bool)
	carried := make([]ssa.Type, s.Carried)
	for i := range carried {
		carried[i] = ops.InType(n, 2+i)
	}
	kit.Check(InferCarried(ctx, n, s.Body, p[2:2+s.Carried], s.Body.Results[1:1+s.Carried], carried))
	trips := s.Trips(n)
	var out []ops.Inferred
	for i := range s.Carried {
		if i%lookEvery == lookEvery-1 {
			kit.Check(ctx.Err())
		}
		before, after := ops.InType(n, 2+i), s.Body.Results[1+i].Type
		t := kit.UnionType(before, after)
		if k, ok := trips.Const(); ok && k == 0 {
			t = before
		} else if ok {
			t = after
		}
		out = append(out, ops.Inferred{Type: t})
	}
	for _, r := range s.Body.Results[1+s.Carried:] {
		t := r.Type
		if t.Kind == ssa.KindTensor && t.Ranked {
			t.Shape = append([]ssa.Dim{trips}, t.Shape...)
		}
		out = append(out, ops.Inferred{Type: t})
	}
	return out[:len(n.Out)]
}

// lookEvery is how many carried values or results a loop passes between two looks at the context.
const lookEvery = 1024

// InferCarried infers a loop body until the carried types are stable: params
// start with the initial types and lose what an iteration does not keep. Types
// only ever get wider, so this ends.
func InferCarried(ctx context.Context, n *ssa.Node, body *ssa.Graph, params, results []*ssa.Value, types []ssa.Type) error {
	if err := kit.BindCaptures(n, body); err != nil {
		return err
	}
	for {
		for i, p := range params {
			p.Type, p.Content = types[i], nil
		}
		if err := ops.InferGraphContext(ctx, body); err != nil {
			return err
		}
		stable := true
		for i, r := range results {
			if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
				return ctx.Err()
			}
			if types[i].Kind == ssa.KindTensor && r.Type.Kind == ssa.KindTensor && r.Type.DType != types[i].DType &&
				types[i].DType != ndarray.Undefined && r.Type.DType != ndarray.Undefined {
				return fmt.Errorf("carried value %d starts as %s and is %s after an iteration", i, types[i], r.Type)
			}
			if t := kit.UnionType(types[i], r.Type); !t.Equal(types[i]) {
				types[i], stable = t, false
			}
		}
		if stable {
			return nil
		}
	}
}

func evalLoop(c *ops.Call) {
	s := kit.Try(ops.LoopOf(c.Node))
	limit := int64(math.MaxInt64)
	if m := c.Array(0); m != nil {
		limit = m.Int(0)
	}
	cond := ndarray.Scalar(true)
	if a := c.Array(1); a != nil {
		cond = a
	}
	if endless, _ := s.Endless(c.Node); endless && cond.Data[0] != 0 {
		kit.Check(ops.EndlessError{})
	}
	carried := slices.Clone(c.In[2 : 2+s.Carried])
	captures := c.In[2+s.Carried:]
	stacks := make([][]ndarray.Value, s.Scans)
	for i := int64(0); i < limit && cond.Data[0] != 0; i++ {
		kit.CheckEnded(c)
		args := append([]ndarray.Value{ndarray.Scalar(i), cond}, carried...)
		out := kit.Try(c.Body(0, append(args, captures...)))
		next, ok := out[0].(*ndarray.Array)
		if !ok || next.DType != ndarray.Bool || next.Len() != 1 {
			kit.Failf("the body's condition is not one boolean")
		}
		cond = next
		copy(carried, out[1:1+s.Carried])
		for k, v := range out[1+s.Carried:] {
			stacks[k] = append(stacks[k], v)
		}
	}
	for i, v := range carried {
		if i < len(c.Node.Out) {
			kit.Check(c.SetOutput(i, v))
		}
	}
	for k, items := range stacks {
		if i := s.Carried + k; i < len(c.Node.Out) {
			kit.Check(stackOutput(c, i, items, s.Body.Results[1+i].Type))
		}
	}
}

// stackOutput stores slices stacked along a new first axis. With no slices the
// declared slice type gives the other dimensions (unknown ones count as 0).
func stackOutput(c *ops.Call, i int, items []ndarray.Value, slice ssa.Type) error {
	shape := []int{len(items)}
	dt := slice.DType
	if len(items) > 0 {
		first, ok := items[0].(*ndarray.Array)
		if !ok {
			return fmt.Errorf("scan output %d is no tensor", i)
		}
		dt = first.DType
		shape = append(shape, first.Shape...)
	} else {
		for _, d := range slice.Shape {
			k, _ := d.Const()
			shape = append(shape, int(k))
		}
	}
	out, err := c.Output(i, dt, shape...)
	if err != nil {
		return err
	}
	pos, spos := 0, 0
	for _, it := range items {
		a := it.(*ndarray.Array)
		if len(a.Shape)+1 != len(shape) || a.Len()*len(items) != out.Len() {
			return fmt.Errorf("scan output %d changes its shape from %v to %v between iterations", i, shape[1:], a.Shape)
		}
		pos += copy(out.Data[pos:], a.Data)
		spos += copy(out.Str[spos:], a.Str)
	}
	return nil
}
