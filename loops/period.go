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
	r.Prefix = max(flow.longest(), min(1, len(r.Carries)))
	var made []*ssa.Value // values of the body that parameters may hold, in order
	for i := range r.Carries {
		for _, v := range r.becomes[i] {
			if r.followValue(v, flow, life) {
				made = append(made, v)
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
// next[j] lists the carries whose result may be the parameter of carry j. made lists, by value, the carries whose result it
// may be.
//
//	x4<=x3, x3<=x2       x2 ─▶ x3 ─▶ x4
//	h <= if c then y else h      h ─▶ h (a cycle: a value may stay for ever)
type flow struct {
	next [][]int
	made map[*ssa.Value][]int
}

func (r *Rotation) flows() flow {
	f := flow{make([][]int, len(r.Carries)), make(map[*ssa.Value][]int, len(r.Carries))}
	r.becomes = make([][]*ssa.Value, len(r.Carries))
	for i, c := range r.Carries {
		bases, shown := alias.Bases(c.Result), alias.Shown(c.Result)
		for _, b := range bases {
			if j, ok := r.index[b]; ok {
				f.next[j] = append(f.next[j], i)
			}
		}
		if !slices.Contains(bases, shown) {
			bases = append(bases, shown)
		}
		for _, v := range bases {
			f.made[v] = append(f.made[v], i)
		}
		r.becomes[i] = bases
	}
	return f
}

// arrival is a carry, and the largest number of iterations after which its parameter may hold a value.
type arrival struct{ carry, depth int }

// arrivals follows values that the given carries receive to all carries that they reach. bounded is false if a
// value may go round in a cycle; depths mean nothing then.
func (f flow) arrivals(start []int) (all []arrival, bounded bool) {
	order, bounded := f.reached(start)
	depth := make(map[int]int, len(order))
	for _, i := range start {
		depth[i] = 1
	}
	for _, i := range slices.Backward(order) { // before those that its value becomes
		all = append(all, arrival{i, depth[i]})
		for _, j := range f.next[i] {
			depth[j] = max(depth[j], depth[i]+1)
		}
	}
	return all, bounded
}

// reached lists the carries that values of the given ones reach, each after those that its own value reaches; acyclic is false
// if there is no such order.
func (f flow) reached(start []int) (order []int, acyclic bool) {
	type visit struct{ carry, next int }
	const open, done = 1, 2
	state := make(map[int]int, len(start))
	acyclic = true
	for _, i := range start {
		if state[i] != 0 {
			continue
		}
		state[i] = open
		for stack := []visit{{carry: i}}; len(stack) > 0; {
			at := &stack[len(stack)-1]
			if at.next == len(f.next[at.carry]) {
				state[at.carry] = done
				order = append(order, at.carry)
				stack = stack[:len(stack)-1]
				continue
			}
			j := f.next[at.carry][at.next]
			at.next++
			acyclic = acyclic && state[j] != open
			if state[j] == 0 {
				state[j] = open
				stack = append(stack, visit{carry: j})
			}
		}
	}
	return order, acyclic
}

// longest is for how many iterations a value is passed on at most, from any carry whose value goes round in no cycle.
func (f flow) longest() (most int) {
	all := make([]int, len(f.next))
	for i := range all {
		all[i] = i
	}
	order, _ := f.reached(all)
	lengths := make([]int, len(f.next)) // 0 if the value may go round, or is not known to end
	for _, i := range order {
		n := 1
		for _, j := range f.next[i] {
			if lengths[j] == 0 {
				n = 0
				break
			}
			n = max(n, lengths[j]+1)
		}
		lengths[i] = n
		most = max(most, n)
	}
	return most
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
	holders, bounded := flow.arrivals(flow.made[v])
	if !bounded {
		r.sticky[v] = true
		r.period[v] = len(holders) + 1
		return true
	}
	period, life := 1, life.ofValue(v)
	for _, h := range holders {
		period = max(period, life.periodFor(r.Carries[h.carry].Param, v, h.depth))
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
	return slices.ContainsFunc(r.becomes[r.index[c.Param]], func(v *ssa.Value) bool { return r.sticky[v] })
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func lcm(a, b int) int { return a / gcd(a, b) * b }
