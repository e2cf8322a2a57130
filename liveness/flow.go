package liveness

import (
	"context"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/internal/slab"
)

// Liveness in structured control flow: the points from each definition of a variable to each use it reaches.
//
// Control flow is a tree. An arm is a run of steps, each one time point, with one way in and one way out; forks inside it
// are branches of which one is taken, or a loop:
//
//	        ┌──────────┐
//	        │ 0 … 4    │ the outermost arm
//	        └────┬─────┘
//	    ┌────────▼───────┐
//	┌──▶│ 5 … 8   body   │──┐   a fork of one arm that runs again: what the
//	│   └────────┬───────┘  │   next iteration reads is live over the edge back
//	└────────────┘          │
//	        ┌──────────┐◀───┘
//	        │ 9 …      │ the outermost arm again
//	        └──────────┘
//
// The classic equations of dataflow
//
//	out[b] = ∪ in[s] over successors s
//	in[b]  = use[b] ∪ (out[b] − def[b])
//
// are solved for one variable after the other. The last equation composes: also for a fork, whether a variable is live
// before it is a function of whether it is live after it (transfer), found from the inside out with the fixed point over
// the edge back of a loop. A fork in which the variable does not occur changes nothing, so it is not looked at: a
// variable costs as much as it has definitions and uses, times the depth of the forks around them.
//
// Source: A. Appel, Modern Compiler Implementation, chapter 10; the memory optimization transpiler's design uses the same
// equations. Functions of regions in place of a walk of the graph: M. Sharir, Structural Analysis, 1980.

// Arm is the run of steps [Lo, Hi), with the forks inside it in their order.
type Arm struct {
	Lo, Hi int
	Forks  []*Fork
}

// Fork is a choice between arms, or a loop over them; they lie one after the other.
type Fork struct {
	Arms []*Arm
	// Loop says that arm 0 comes first and that after each arm comes the next, or what is behind the fork; after the last
	// arm comes arm Again, if not that.
	Loop  bool
	Again int
	// Skip says that a loop may run no arm at all.
	Skip bool
}

func (f *Fork) lo() int { return f.Arms[0].Lo }
func (f *Fork) hi() int { return f.Arms[len(f.Arms)-1].Hi }

// next is the arm of a loop that can follow an arm.
func (f *Fork) next(k int) int {
	if k+1 == len(f.Arms) {
		return f.Again
	}
	return k + 1
}

// behind is the number of the first fork that ends behind a step.
func (a *Arm) behind(step int) int {
	return sort.Search(len(a.Forks), func(i int) bool { return a.Forks[i].hi() > step })
}

// forkAt is the fork that a step lies in, nil if it lies in none.
func (a *Arm) forkAt(step int) *Fork {
	if i := a.behind(step); i < len(a.Forks) && a.Forks[i].lo() <= step {
		return a.Forks[i]
	}
	return nil
}

// straight is the end of the run of steps around one outside of forks.
func (a *Arm) straight(step int) int {
	if i := a.behind(step); i < len(a.Forks) {
		return a.Forks[i].lo()
	}
	return a.Hi
}

// Flow is control flow and what its steps read and write.
type Flow struct {
	Main *Arm
	Uses [][]int // by step: the variables it reads
	Defs [][]int // by step: the variables it writes
	Vars int     // number of variables
}

// Solve computes where every variable is live: the points from each definition
// to each use it reaches, both included. A variable that is written and never
// read is live at the point that writes it and the one after, so that it is seen
// to interfere with everything that outlives the step.
func (f *Flow) Solve() []Set { return f.solve(context.Background()) }

// solve is Solve until the context ends; then the answer is of no use.
func (f *Flow) solve(ctx context.Context) []Set {
	live := make([]Set, f.Vars)
	var e emitter
	var runs slab.Of[Range]
	for v, at := range f.occurrences(ctx) {
		if v%1024 == 0 && ctx.Err() != nil {
			break
		}
		e.out = e.out[:0]
		e.arm(f.Main, at, false)
		live[v] = runs.Copy(normalize(e.out))
	}
	return live
}

// occurrence is a step that reads or writes a variable.
type occurrence struct {
	at       int32
	use, def bool
}

// step is its place among the steps.
func (o occurrence) step() int { return int(o.at) }

// occurrences lists them by variable, in order of the steps, until the context ends.
func (f *Flow) occurrences(ctx context.Context) [][]occurrence {
	count := make([]int32, f.Vars)
	for _, lists := range [][][]int{f.Uses, f.Defs} {
		for s, vars := range lists {
			if s%1024 == 1023 && ctx.Err() != nil {
				return nil
			}
			for _, v := range vars {
				count[v]++
			}
		}
	}
	total := 0
	for _, n := range count {
		total += int(n)
	}
	all, out := make([]occurrence, total), make([][]occurrence, f.Vars)
	for v, n := range count {
		out[v], all = all[:0:n], all[n:]
	}
	at := func(v, step int) *occurrence {
		if k := len(out[v]); k > 0 && out[v][k-1].step() == step {
			return &out[v][k-1]
		}
		out[v] = append(out[v], occurrence{at: int32(step)})
		return &out[v][len(out[v])-1]
	}
	for s := range f.Uses {
		if s%1024 == 1023 && ctx.Err() != nil {
			return nil
		}
		for _, v := range f.Uses[s] {
			at(v, s).use = true
		}
		for _, v := range f.Defs[s] {
			at(v, s).def = true
		}
	}
	return out
}

// transfer says when a variable is live before a run of steps: always (gen), or if it is live after (pass).
type transfer struct{ gen, pass bool }

func (t transfer) before(after bool) bool { return t.gen || t.pass && after }

// ahead is the transfer of t and then u.
func (t transfer) ahead(u transfer) transfer { return transfer{t.before(u.gen), t.pass && u.pass} }

func (o occurrence) transfer() transfer { return transfer{gen: o.use, pass: !o.def} }

// backward calls f for the occurrences of a variable in an arm from the last to the first, for those in one fork together.
func (a *Arm) backward(at []occurrence, f func(in *Fork, at []occurrence)) {
	for i := len(at); i > 0; {
		j := i - 1
		fork := a.forkAt(at[j].step())
		if fork != nil {
			j = before(at, fork.lo())
		}
		f(fork, at[j:i])
		i = j
	}
}

// before is how many occurrences come before a step.
func before(at []occurrence, step int) int {
	return sort.Search(len(at), func(i int) bool { return at[i].step() >= step })
}

func (a *Arm) transfer(at []occurrence) transfer {
	out := transfer{pass: true}
	a.backward(at, func(in *Fork, at []occurrence) {
		if in == nil {
			out = at[0].transfer().ahead(out)
		} else {
			t, _ := in.transfer(at)
			out = t.ahead(out)
		}
	})
	return out
}

// transfer is that of the fork and of its arms.
func (f *Fork) transfer(at []occurrence) (whole transfer, arms []transfer) {
	arms = make([]transfer, len(f.Arms))
	for k, a := range f.Arms {
		n := before(at, a.Hi)
		arms[k], at = a.transfer(at[:n]), at[n:]
	}
	if f.Loop {
		return transfer{f.entries(arms, false)[0], f.Skip || arms[0].before(true)}, arms
	}
	for _, t := range arms {
		whole.gen, whole.pass = whole.gen || t.gen, whole.pass || t.pass
	}
	return whole, arms
}

// entries says for the arms of a loop whether the variable is live before them, if it is or is not live behind the loop.
// Two rounds reach the fixed point, since all that comes round comes through one edge.
func (f *Fork) entries(arms []transfer, behind bool) []bool {
	in := make([]bool, len(arms))
	for range 2 {
		for k, t := range slices.Backward(arms) {
			in[k] = t.before(behind || in[f.next(k)])
		}
	}
	return in
}

// emitter collects the runs in which a variable is live.
type emitter struct{ out Set }

func (e *emitter) add(lo, hi int) { e.out = append(e.out, Range{lo, hi}) }

// arm adds the runs in an arm behind which the variable is live or not.
func (e *emitter) arm(a *Arm, at []occurrence, live bool) {
	end := a.Hi // of the run that is open if live
	a.backward(at, func(in *Fork, at []occurrence) {
		if in != nil {
			if live {
				e.add(in.hi(), end)
			}
			live, end = e.fork(in, at, live), in.lo()
			return
		}
		o := at[0]
		if o.def {
			if !live {
				end = min(o.step()+2, a.straight(o.step()))
			}
			e.add(o.step(), end)
			live = false
		}
		if o.use && !live {
			live, end = true, o.step()+1
		}
	})
	if live {
		e.add(a.Lo, end)
	}
}

// fork adds the runs in a fork and reports whether the variable is live before it.
func (e *emitter) fork(f *Fork, at []occurrence, behind bool) (live bool) {
	whole, arms := f.transfer(at)
	var in []bool
	if f.Loop {
		in = f.entries(arms, behind)
	}
	for k, a := range f.Arms {
		n := before(at, a.Hi)
		e.arm(a, at[:n], behind || f.Loop && in[f.next(k)])
		at = at[n:]
	}
	return whole.before(behind)
}

// normalize sorts runs and merges those that touch.
func normalize(s Set) Set {
	if !slices.IsSortedFunc(s, func(a, b Range) int { return a.Lo - b.Lo }) {
		sort.Slice(s, func(i, j int) bool { return s[i].Lo < s[j].Lo }) // programs have its code already
	}
	out := s[:0]
	for _, r := range s {
		if k := len(out) - 1; k >= 0 && r.Lo <= out[k].Hi {
			out[k].Hi = max(out[k].Hi, r.Hi)
		} else if r.Lo < r.Hi {
			out = append(out, r)
		}
	}
	return out
}
