package alias

import (
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Bases returns the values of v's own graph whose bytes v may be: its own, or
// through views and control flow those of operands that are passed on.
func Bases(v *ssa.Value) []*ssa.Value { return bases{}.of(v) }

// bases remembers the answers for values of nested bodies: each is asked for by every
// value that control flow may make of it.
type bases map[*ssa.Value][]*ssa.Value

func (m bases) of(v *ssa.Value) []*ssa.Value {
	if out, ok := m[v]; ok {
		return out
	}
	var out []*ssa.Value
	seen := map[*ssa.Value]bool{}
	var visit func(v *ssa.Value)
	visit = func(v *ssa.Value) {
		if v == nil || seen[v] {
			return
		}
		seen[v] = true
		if w, ok := WindowOf(v); ok {
			visit(w.Of)
			if w.Whole {
				return
			}
		} else if v.Def != nil && ops.IsControl(v.Def) {
			for _, src := range m.passedOn(v) {
				visit(src)
			}
		}
		out = append(out, v)
	}
	visit(v)
	m[v] = out
	return out
}

// passedOn lists the operands of a control-flow node that result v may be.
func (m bases) passedOn(v *ssa.Value) []*ssa.Value {
	if v.Def.Op == "If" {
		var out []*ssa.Value
		for _, body := range v.Def.Bodies {
			if v.DefIndex < len(body.Results) {
				out = append(out, m.outside(v.Def, body, body.Results[v.DefIndex])...)
			}
		}
		return out
	}
	return m.passedThrough(v)
}

// outside lists the captured operands that a value of a body may be.
func (m bases) outside(n *ssa.Node, body *ssa.Graph, v *ssa.Value) []*ssa.Value {
	var out []*ssa.Value
	captured := body.Params[len(body.Params)-n.Captures:]
	for _, b := range m.of(v) {
		if i := slices.Index(captured, b); i >= 0 {
			out = append(out, n.Captured()[i])
		}
	}
	return out
}

// passedThrough lists the operands that a loop's result may be: its own initial
// value (no trips), captured values, and the initial values of parameters that
// become its next value.
func (m bases) passedThrough(v *ssa.Value) []*ssa.Value {
	n := v.Def
	body, carries, err := Carries(n)
	if err != nil {
		return n.In
	}
	first := slices.IndexFunc(carries, func(c Carry) bool { return c.Out == v })
	if first < 0 {
		return nil // a stacked output has memory of its own
	}
	var out []*ssa.Value
	work, seen := []int{first}, map[int]bool{first: true}
	for len(work) > 0 {
		c := carries[work[0]]
		work = work[1:]
		out = append(out, c.Init)
		out = append(out, m.outside(n, body, c.Result)...)
		for _, b := range m.of(c.Result) {
			for j, d := range carries {
				if d.Param == b && !seen[j] {
					seen[j] = true
					work = append(work, j)
				}
			}
		}
	}
	return out
}

// Carry is one value that moves from iteration to iteration of a Loop or Scan.
type Carry struct {
	Param  *ssa.Value // parameter of the body
	Init   *ssa.Value // operand of the node; nil: true (an absent Loop condition)
	Result *ssa.Value // result of the body that Param becomes
	Out    *ssa.Value // result of the node, nil if unused or none
}

// Carries lists the carried values of a Loop or Scan node, the condition of a Loop first.
func Carries(n *ssa.Node) (body *ssa.Graph, carries []Carry, err error) {
	defer rescue.Into(&err)
	if n.Op == "Scan" {
		s, err := ops.ScanOf(n)
		if err != nil {
			return nil, nil, err
		}
		for i := range s.States {
			carries = append(carries, Carry{s.Body.Params[i], n.In[i], s.Body.Results[i], n.Output(i)})
		}
		return s.Body, carries, nil
	}
	s, err := ops.LoopOf(n)
	if err != nil {
		return nil, nil, err
	}
	p := s.Body.Params
	carries = append(carries, Carry{Param: p[1], Init: n.In[1], Result: s.Body.Results[0]})
	for i := range s.Carried {
		carries = append(carries, Carry{p[2+i], n.In[2+i], s.Body.Results[1+i], n.Output(i)})
	}
	return s.Body, carries, nil
}
