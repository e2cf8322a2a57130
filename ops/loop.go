package ops

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
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
var Loop = Op{
	Name: "Loop", Since: 25, Form: since(13), Doc: "repeat body while i < M and cond",
	MinIn: 2, MaxIn: -1, MinOut: 0, MaxOut: -1,
	Attrs: []AttrSpec{graphAttr("body").required()},
	Facts: Facts{Traits: general}, Infer: rule(inferLoop), Eval: kernel(evalLoop),
}

// LoopShape names the parts of a Loop node.
type LoopShape struct {
	Body     *ssa.Graph
	Carried  int // carried values
	Scans    int // stacked outputs
	Captures int
}

// LoopOf checks a Loop node's counts and names its parts.
func LoopOf(n *ssa.Node) (LoopShape, error) {
	body := n.Body("body")
	if body == nil {
		return LoopShape{}, fmt.Errorf("Loop has no body")
	}
	s := LoopShape{Body: body, Captures: n.Captures, Carried: len(n.In) - 2 - n.Captures}
	if s.Carried < 0 {
		return s, fmt.Errorf("Loop has %d operands, needs M and cond", len(n.In)-n.Captures)
	}
	s.Scans = len(body.Results) - 1 - s.Carried
	if len(body.Params) != 2+s.Carried+s.Captures || s.Scans < 0 {
		return s, fmt.Errorf("body has %d parameters and %d results for %d carried values", len(body.Params)-s.Captures, len(body.Results), s.Carried)
	}
	if len(n.Out) > s.Carried+s.Scans {
		return s, fmt.Errorf("node has %d results, the body gives %d", len(n.Out), s.Carried+s.Scans)
	}
	return s, nil
}

// Trips returns the exact number of iterations where it is known before the run:
// M, if nothing in the loop can end it early; unknown otherwise.
func (s LoopShape) Trips(n *ssa.Node) ssa.Dim {
	if c := constBool(n.In[1]); n.In[1] != nil && c == 0 {
		return ssa.D(0)
	} else if n.In[1] != nil && c != 1 {
		return ssa.Dim{}
	}
	next := s.Body.Results[0]
	for next.Def != nil && next.Def.Op == "Identity" && next.Def.Domain == "" {
		next = next.Def.In[0]
	}
	if next != s.Body.Params[1] && constBool(next) != 1 {
		return ssa.Dim{}
	}
	if n.In[0] == nil || len(n.In[0].Content) != 1 {
		return ssa.Dim{}
	}
	m := n.In[0].Content[0]
	if k, ok := m.Const(); ok && k < 0 {
		return ssa.D(0)
	}
	return m
}

func inferLoop(n *ssa.Node) []Inferred {
	s := try(LoopOf(n))
	p := s.Body.Params
	p[0].Type = ssa.StaticTensor(ndarray.Int64)
	p[1].Type = ssa.StaticTensor(ndarray.Bool)
	carried := make([]ssa.Type, s.Carried)
	for i := range carried {
		carried[i] = InType(n, 2+i)
	}
	check(InferCarried(n, s.Body, p[2:2+s.Carried], s.Body.Results[1:1+s.Carried], carried))
	trips := s.Trips(n)
	var out []Inferred
	for i := range s.Carried {
		t := UnionType(InType(n, 2+i), s.Body.Results[1+i].Type)
		if k, ok := trips.Const(); ok && k == 0 {
			t = InType(n, 2+i)
		} else if ok {
			t = s.Body.Results[1+i].Type
		}
		out = append(out, Inferred{Type: t})
	}
	for _, r := range s.Body.Results[1+s.Carried:] {
		t := r.Type
		if t.Kind == ssa.KindTensor && t.Ranked {
			t.Shape = append([]ssa.Dim{trips}, t.Shape...)
		}
		out = append(out, Inferred{Type: t})
	}
	return out[:max(len(n.Out), 0)]
}

// InferCarried infers a loop body until the carried types are stable: params
// start with the initial types and lose what an iteration does not keep. Types
// only ever get wider, so this ends.
func InferCarried(n *ssa.Node, body *ssa.Graph, params, results []*ssa.Value, types []ssa.Type) error {
	if err := bindCaptures(n, body); err != nil {
		return err
	}
	for {
		for i, p := range params {
			p.Type, p.Content = types[i], nil
		}
		if err := InferGraph(body); err != nil {
			return err
		}
		stable := true
		for i, r := range results {
			if types[i].Kind == ssa.KindTensor && r.Type.Kind == ssa.KindTensor && r.Type.DType != types[i].DType &&
				types[i].DType != ndarray.Undefined && r.Type.DType != ndarray.Undefined {
				return fmt.Errorf("carried value %d starts as %s and is %s after an iteration", i, types[i], r.Type)
			}
			if t := UnionType(types[i], r.Type); !t.Equal(types[i]) {
				types[i], stable = t, false
			}
		}
		if stable {
			return nil
		}
	}
}

func evalLoop(c *Call) {
	s := try(LoopOf(c.Node))
	limit := int64(math.MaxInt64)
	if m := c.Array(0); m != nil {
		limit = m.Int(0)
	}
	cond := ndarray.Scalar(true)
	if a := c.Array(1); a != nil {
		cond = a
	}
	bodyIndex := 0
	carried := append([]ndarray.Value(nil), c.In[2:2+s.Carried]...)
	captures := c.In[2+s.Carried:]
	stacks := make([][]ndarray.Value, s.Scans)
	for i := int64(0); i < limit && cond.Data[0] != 0; i++ {
		if c.Ctx != nil && c.Ctx.Err() != nil {
			check(c.Ctx.Err())
		}
		args := append([]ndarray.Value{ndarray.Scalar(i), cond}, carried...)
		out := try(c.Body(bodyIndex, append(args, captures...)))
		next, ok := out[0].(*ndarray.Array)
		if !ok || next.DType != ndarray.Bool || next.Len() != 1 {
			failf("the body's condition is not one boolean")
		}
		cond = next
		copy(carried, out[1:1+s.Carried])
		for k, v := range out[1+s.Carried:] {
			stacks[k] = append(stacks[k], v)
		}
	}
	for i, v := range carried {
		if i < len(c.Node.Out) {
			check(c.SetOutput(i, v))
		}
	}
	for k, items := range stacks {
		if i := s.Carried + k; i < len(c.Node.Out) {
			check(stackOutput(c, i, items, s.Body.Results[1+i].Type))
		}
	}
}

// stackOutput stores slices stacked along a new first axis. With no slices the
// declared slice type gives the other dimensions (unknown ones count as 0).
func stackOutput(c *Call, i int, items []ndarray.Value, slice ssa.Type) error {
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
