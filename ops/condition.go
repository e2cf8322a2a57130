package ops

import "github.com/berth-onnx/berth/ssa"

// Whether the condition of a loop stays true once it is, by induction over the iterations. The condition and the carried
// booleans that are true at first are taken to be true; those that the body then does not surely make true again are
// dropped, until none is:
//
//	cond, a, b true at first      assumed {cond, a, b}    b ◀ Less(…) is not known
//	cond ◀ And(a, cond)                   {cond, a}       a ◀ a, cond ◀ And(true, true)
//	a ◀ a   b ◀ Less(…)
//
// The body is followed through constants, captured constants, and the operators of logic.

// staysTrue reports that the condition of loop n is true after an iteration that began with a true one.
func (s LoopShape) staysTrue(n *ssa.Node) bool {
	p := proof{known: map[*ssa.Value]int{}}
	captured := n.Captured()
	for i, v := range captured {
		if c := ConstBool(v); c >= 0 {
			p.known[s.Body.Params[len(s.Body.Params)-len(captured)+i]] = c
		}
	}
	p.known[s.Body.Params[1]] = 1
	for i := range s.Carried {
		if ConstBool(n.In[2+i]) == 1 {
			p.known[s.Body.Params[2+i]] = 1
		}
	}
	for dropped := true; dropped; {
		dropped = false
		p.found = map[*ssa.Value]int{}
		if p.of(s.Body.Results[0]) != 1 {
			return false
		}
		for i := range s.Carried {
			if prm := s.Body.Params[2+i]; p.known[prm] == 1 && p.of(s.Body.Results[1+i]) != 1 {
				delete(p.known, prm)
				dropped = true
			}
		}
	}
	return true
}

// proof is what is known of booleans of one body: 1, 0, or -1.
type proof struct {
	known map[*ssa.Value]int // parameters
	found map[*ssa.Value]int // all others asked for
}

func (p proof) of(v *ssa.Value) int {
	if v == nil {
		return -1
	}
	if c := ConstBool(v); c >= 0 {
		return c
	}
	if v.Def == nil {
		if c, ok := p.known[v]; ok {
			return c
		}
		return -1
	}
	if c, ok := p.found[v]; ok {
		return c
	}
	c := p.logic(v.Def)
	p.found[v] = c
	return c
}

// logic is the result of a node where its operands determine it.
func (p proof) logic(n *ssa.Node) int {
	if n.Opaque || n.Domain != "" || len(n.In) == 0 {
		return -1
	}
	a, b := p.of(n.In[0]), -1
	if len(n.In) > 1 {
		b = p.of(n.In[1])
	}
	switch {
	case n.Op == "Identity":
		return a
	case n.Op == "Not" && a >= 0:
		return 1 - a
	case n.Op == "Xor" && a >= 0 && b >= 0:
		return a ^ b
	case n.Op == "And" && (a == 0 || b == 0), n.Op == "Or" && a == 0 && b == 0:
		return 0
	case n.Op == "And" && a == 1 && b == 1, n.Op == "Or" && (a == 1 || b == 1):
		return 1
	}
	return -1
}
