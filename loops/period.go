package loops

import (
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/ssa"
)

// The period of a carried value: for how many iterations it must stay where it was
// written, and so how many slots are used in turn.
//
//	x0 <= x1 <= y,  y = f(x0)          iteration    0    1    2    3
//	                                   y written    A    B    C    A
//	depth of y: 1 as x1, 2 as x0       as x1        ·    A    B    C
//	x0 is read as y is written:        as x0        ·    ·    A    B
//	period 2 + 1 = 3
//
// A value is followed from parameter to parameter (flow); the last reader of the
// last parameter that may hold it decides (lifetimes.go). The ring is the least
// number of copies of the body after which all periods begin anew together, the
// prefix how many iterations at first still see initial values.
//
// Source: NNC tensor allocation, when to unroll and how often; there all values of a
// loop have the longest period, here each has its own.

// setPeriods finds the period of every carried value made in the body, the
// prefix, and the ring that all of them divide.
func (r *Rotation) setPeriods(anyOrder bool) {
	r.period, r.sticky = map[*ssa.Value]int{}, map[*ssa.Value]bool{}
	life := newLifetimes(r.Body, r.Body.Nodes)
	life.anyOrder = anyOrder
	flow := r.flows()
	if len(r.Carries) > 0 {
		r.Prefix = 1
	}
	var made []*ssa.Value // values of the body that parameters may hold, in order
	for _, c := range r.Carries {
		for _, v := range append(alias.Bases(c.Result), alias.Shown(c.Result)) {
			if r.followValue(v, flow, life) {
				made = append(made, v)
			}
		}
	}
	for i := range r.Carries {
		if depth, bounded := flow.depths([]int{i}); bounded {
			for _, d := range depth {
				r.Prefix = max(r.Prefix, d)
			}
		}
	}
	r.Ring = 1
	most := 1
	for _, v := range made {
		most = max(most, r.period[v])
		r.Ring = min(lcm(r.Ring, r.period[v]), MaxRing+1)
	}
	if r.Ring > MaxRing {
		r.Ring = most
		for v := range r.period {
			r.period[v] = most
		}
	}
	for v := range r.period {
		if alias.IsPointer(v) {
			delete(r.period, v) // its memory belongs to values that take the whole ring
		}
	}
}

// flow says which parameters' values may become which parameters' next values:
// next[j] lists the carries whose result may be the parameter of carry j.
//
//	x4<=x3, x3<=x2       x2 ─▶ x3 ─▶ x4
//	h <= if c then y else h      h ─▶ h (a cycle: a value may stay for ever)
type flow struct{ next [][]int }

func (r *Rotation) flows() flow {
	f := flow{make([][]int, len(r.Carries))}
	for i, c := range r.Carries {
		for _, b := range alias.Bases(c.Result) {
			if j, ok := r.index[b]; ok {
				f.next[j] = append(f.next[j], i)
			}
		}
	}
	return f
}

// depths follows values that the given carries receive: by carry, the largest
// number of iterations after which its parameter may hold such a value (0 =
// never). bounded is false if a value may go round in a cycle.
func (f flow) depths(start []int) (depth []int, bounded bool) {
	depth = make([]int, len(f.next))
	at := start
	for d := 1; len(at) > 0; d++ {
		if d > len(f.next)+1 {
			return depth, false
		}
		var then []int
		for _, i := range at {
			depth[i] = d
			for _, j := range f.next[i] {
				if !slices.Contains(then, j) {
					then = append(then, j)
				}
			}
		}
		at = then
	}
	return depth, true
}

// followValue finds the period of a value made in the body that parameters
// receive: it must survive until the last use of the last parameter that may
// hold it. Where a value may go round for ever, through a branch that keeps the
// old one, no fixed rotation is right: the value gets one slot more than there
// are parameters to hold it, and the program picks a free one each time.
func (r *Rotation) followValue(v *ssa.Value, flow flow, life *lifetimes) (found bool) {
	if _, isParam := r.index[v]; isParam || v.Def == nil && !r.writtenAtStart(v) || !v.Type.IsStatic() || r.StackOf(v) != nil {
		return false // passed on; a constant or captured value; memory of its own; a slice that stays
	}
	if _, done := r.period[v]; done {
		return false
	}
	var start []int
	for i, c := range r.Carries {
		if alias.Shown(c.Result) == v || slices.Contains(alias.Bases(c.Result), v) {
			start = append(start, i)
		}
	}
	depth, bounded := flow.depths(start)
	holders, period := 0, 1
	for i, d := range depth {
		if d > 0 {
			holders++
			period = max(period, life.periodFor(r.Carries[i].Param, v, d))
		}
	}
	if !bounded {
		r.sticky[v] = true
		period = holders + 1
	}
	r.period[v] = period
	return true
}

// writtenAtStart reports whether v is a parameter with memory of its own, filled
// before each iteration: the iteration counter, or a slice that must be copied.
func (r *Rotation) writtenAtStart(v *ssa.Value) bool {
	return v == r.Iter || slices.ContainsFunc(r.ScanIns, func(s ScanIn) bool { return s.Param == v && s.Axis != 0 })
}

// Sticky reports whether a carry's value may stay for any number of iterations;
// see followValue.
func (r *Rotation) Sticky(c alias.Carry) bool {
	return slices.ContainsFunc(append(alias.Bases(c.Result), alias.Shown(c.Result)), func(v *ssa.Value) bool { return r.sticky[v] })
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func lcm(a, b int) int { return a / gcd(a, b) * b }
