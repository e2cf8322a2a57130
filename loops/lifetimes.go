package loops

import (
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// When, inside one iteration, a parameter is read for the last time and the value
// that replaces it is first written. Between the two nothing may lie over the other:
//
//	body            0     1     2     3
//	p read          ■─────■                   last use 1
//	q written             │     ■             first write 2: q may go where p was
//	q' written      ■     │                   first write 0: q' needs another slot
//
// Reading through a view is reading, writing into what a view refers to is writing. A
// node that reads p last may itself write q over it, if its operator allows that.

// lifetimes answers positions inside one body: a node's position is its index,
// the end of the body is one past the last.
type lifetimes struct {
	body     *ssa.Graph
	pos      []int              // by node id
	first    map[*ssa.Value]int // memo of firstWrite
	views    alias.Views
	anyOrder bool // answers must hold for every order
}

// newLifetimes takes the nodes of a body in one of its orders.
func newLifetimes(body *ssa.Graph, order []*ssa.Node) *lifetimes {
	l := &lifetimes{body: body, pos: make([]int, body.NumNodeIDs()), first: map[*ssa.Value]int{}}
	for i, n := range order {
		l.pos[n.ID] = i
	}
	return l
}

// ofValue are the lifetimes by which the slots of q are counted.
func (l *lifetimes) ofValue(q *ssa.Value) *lifetimes {
	if l.anyOrder && q.Def != nil {
		return newLifetimes(l.body, earliest(l.body, q.Def))
	}
	return l
}

// periodFor is the smallest number of slots for q such that the q of one
// iteration is intact when p, which holds it depth iterations later, is last read.
func (l *lifetimes) periodFor(p, q *ssa.Value, depth int) int {
	last, at := l.lastUse(p, map[*ssa.Value]bool{})
	def := -1 // a parameter that is filled before the body runs
	if q.Def != nil {
		def = l.firstWrite(q)
	}
	switch {
	case last < def:
		return depth
	case last == def && at != nil && !l.views.IsPointer(q) && q.Def == at &&
		!slices.ContainsFunc(alias.Unpaired(at, q.DefIndex, ops.InPlacePairs(at)), func(i int) bool { return at.In[i] == p }):
		return depth
	}
	return depth + 1
}

// lastUse is the position of the last reader of v's bytes, through views and
// control flow that pass the bytes on; node is that reader when it reads v itself.
func (l *lifetimes) lastUse(v *ssa.Value, seen map[*ssa.Value]bool) (pos int, node *ssa.Node) {
	if l.body.IsResult(v) {
		return len(l.body.Nodes), nil
	}
	pos = -1
	for _, u := range v.Uses() {
		p, n := l.pos[u.Node.ID], u.Node
		for _, o := range u.Node.Out {
			if o == nil || seen[o] || !l.views.IsPointer(o) {
				continue
			}
			seen[o] = true
			if q, _ := l.lastUse(o, seen); q > p {
				p, n = q, nil
			}
		}
		if p > pos {
			pos, node = p, n
		} else if p == pos && node != n {
			node = nil
		}
	}
	return pos, node
}

// firstWrite is the earliest position at which bytes that v may point to are written.
func (l *lifetimes) firstWrite(v *ssa.Value) int {
	if v.Def == nil {
		return len(l.body.Nodes)
	}
	if p, ok := l.first[v]; ok {
		return p
	}
	pos := l.pos[v.Def.ID]
	if l.views.IsPointer(v) {
		for _, src := range v.Def.In {
			if src != nil && src.Def != nil {
				pos = min(pos, l.firstWrite(src))
			}
		}
	}
	l.first[v] = pos
	return pos
}
