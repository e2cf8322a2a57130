package rules

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The verifier of a plan runs through a graph and keeps, for every byte of its arena,
// which value was written there last. A node must find all its operands, captured ones
// included; then its bodies, and after them its results, overwrite what lies at their
// places. Only an operand that a result goes over, element by element, may lie there
// while the node runs.

// stretch is a run of bytes that hold one content.
type stretch struct {
	lo, hi int64
	of     *ssa.Value
}

// memory is the arena: runs that do not overlap, in no order.
type memory struct{ runs []stretch }

// write puts a content over whatever is there.
func (m *memory) write(lo, hi int64, of *ssa.Value) {
	var kept []stretch
	for _, r := range m.runs {
		if r.hi <= lo || hi <= r.lo {
			kept = append(kept, r)
			continue
		}
		if r.lo < lo {
			kept = append(kept, stretch{r.lo, lo, r.of})
		}
		if hi < r.hi {
			kept = append(kept, stretch{hi, r.hi, r.of})
		}
	}
	m.runs = append(kept, stretch{lo, hi, of})
}

// holds reports whether all bytes of a run have one content.
func (m *memory) holds(lo, hi int64, of *ssa.Value) bool {
	var found int64
	for _, r := range m.runs {
		if r.of == of {
			found += max(0, min(hi, r.hi)-max(lo, r.lo))
		}
	}
	return found == hi-lo
}

// replay says what is overwritten too early, or "".
func (p *Plan) replay() string {
	var m memory
	shows := map[*ssa.Value]*ssa.Value{} // views: the value whose bytes they are
	content := func(v *ssa.Value) *ssa.Value {
		if c, ok := shows[v]; ok {
			return c
		}
		return v
	}
	for _, v := range p.own {
		if lo, hi, ok := p.at(v); ok {
			m.write(lo, hi, v)
		}
	}
	lost := func(v *ssa.Value) bool {
		lo, hi, ok := p.at(v)
		return ok && !m.holds(lo, hi, content(v))
	}
	for _, n := range p.share.g.Nodes {
		if k := slices.IndexFunc(n.In, lost); k >= 0 {
			return fmt.Sprintf("%s finds %q overwritten", n, n.In[k].Name)
		}
		if bad := p.clobbers(n); bad != "" {
			return bad
		}
		for _, b := range p.held(n) {
			m.write(p.offsets[b], p.offsets[b]+p.share.buffers[b].size, nil)
		}
		for k, v := range n.Out {
			lo, hi, ok := p.at(v)
			if !ok {
				continue
			}
			if of := p.viewOf(n, k); of != nil {
				shows[v] = content(of)
				continue
			}
			m.write(lo, hi, v)
		}
	}
	if k := slices.IndexFunc(p.share.g.Results, lost); k >= 0 {
		return fmt.Sprintf("the result %q is overwritten", p.share.g.Results[k].Name)
	}
	return ""
}

// at is where a value lies; false if it takes no memory here.
func (p *Plan) at(v *ssa.Value) (lo, hi int64, ok bool) {
	b, ok := p.share.of[v]
	if !ok {
		return 0, 0, false
	}
	return p.offsets[b], p.offsets[b] + bytesOf(v), true
}

// held lists the buffers that a node holds for its bodies.
func (p *Plan) held(n *ssa.Node) (out []int) {
	if len(n.Bodies) == 0 {
		return nil
	}
	for i, b := range p.share.buffers {
		if b.inner == n {
			out = append(out, i)
		}
	}
	return out
}

// viewOf is the operand whose bytes result k is, in its place; nil if there is none.
func (p *Plan) viewOf(n *ssa.Node, k int) *ssa.Value {
	for _, a := range ops.Aliases(n) {
		if a.Out != k || a.Concat || a.Offset != 0 {
			continue
		}
		in := n.Input(a.In)
		b, ok := p.share.of[in]
		if c, also := p.share.of[n.Out[k]]; ok && also && b == c && bytesOf(in) == bytesOf(n.Out[k]) {
			return in
		}
	}
	return nil
}

// clobbers says which operand a node would write over while it reads it, or "".
func (p *Plan) clobbers(n *ssa.Node) string {
	for _, v := range n.In {
		lo, hi, ok := p.at(v)
		if !ok {
			continue
		}
		for _, b := range p.held(n) {
			if at := p.offsets[b]; lo < at+p.share.buffers[b].size && at < hi {
				return fmt.Sprintf("%s runs its bodies over its operand %q", n, v.Name)
			}
		}
		for k, o := range n.Out {
			from, to, ok := p.at(o)
			if !ok || to <= lo || hi <= from || p.viewOf(n, k) == v {
				continue
			}
			i := slices.Index(n.In, v)
			if from != lo || !slices.Contains(ops.InPlacePairs(n), ops.Pair{In: i, Out: k}) {
				return fmt.Sprintf("%s writes over its operand %q", n, v.Name)
			}
		}
	}
	return ""
}
