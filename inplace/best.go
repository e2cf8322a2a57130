package inplace

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/liveness"
)

// Folding decides one result after the other and can not look ahead: an operand
// that is free to take now may be the one a concatenation would have taken later.
//
//	r = concat(a, z)          the last use of a and b is the addition. c over a would tie c to
//	c = add(a, b)             r's place, so r is left apart from a; c over b lets a
//	d = concat(c, …)          lie in r and c in d, and nothing is copied.
//
// So where more is held than some step needs in any case, the choices around the
// peak are changed one at a time, everything is folded again,
// and what lowers the need is kept. The number of trials is bounded by the size
// of the program, so the time is, too.

const (
	mostTrials = 32
	trialWork  = 16000 // variables times trials
)

// Tried reports whether other choices are tried for a program at all. For a larger one [Lay] answers the same whatever bound is
// known.
func Tried(t *liveness.Timeline) bool { return trialWork/max(1, len(t.Vars)) > 0 }

// improve folds with other choices while that lowers the need.
func improve(ctx context.Context, t *liveness.Timeline, o options, best *Folding) *Folding {
	trials := min(mostTrials, trialWork/max(1, len(t.Vars)))
	if trials == 0 || best.Peak() <= best.least {
		return best
	}
	var taken []choice
	for found := true; found && best.Peak() > best.least; {
		found = false
		for _, c := range best.alternatives(o, taken) {
			if trials--; trials < 0 || ctx.Err() != nil {
				return best
			}
			with := append(slices.Clone(taken), c)
			if f := foldWith(ctx, t, o, with); f.load.need().less(best.load.need()) {
				f.least = best.least
				best, taken, found = f, with, true
				break
			}
		}
	}
	return best
}

// alternatives lists choices not tried yet for blocks whose slot is held at the
// peak: another operand or none, an operand left out of a concatenation.
func (f *Folding) alternatives(o options, taken []choice) []choice {
	peak := f.load.need().peak
	var out []choice
	add := func(c choice) {
		if !slices.ContainsFunc(taken, func(t choice) bool { return t.out == c.out && (!c.joined || t.in == c.in) }) &&
			f.load.over(f.Classes[f.Of[c.out]].life.points) == peak {
			out = append(out, c)
		}
	}
	for i, p := range o.overs {
		switch together := f.Of[p.in] == f.Of[p.out]; {
		case p.smaller:
		case !together:
			add(choice{out: p.out, in: p.in})
		case i == 0 || o.overs[i-1].out != p.out:
			add(choice{out: p.out, in: p.in, none: true})
		}
	}
	for _, c := range o.concats {
		for _, u := range c.uses {
			if f.Of[u.operand] == f.Of[u.result] {
				add(choice{out: u.result, in: u.operand, none: true, joined: true})
			}
		}
	}
	return out
}

// leastHeld is a bound for the peak of any folding of these blocks: what is held
// at each point, less what can be found made in the result of a concatenation and
// what the step could write over operands.
func (f *Folding) leastHeld(ctx context.Context, t *liveness.Timeline, o options) int64 {
	l := newLoad(len(t.Steps) + 2)
	for i := range f.Classes {
		if ctx.Err() != nil {
			return 0
		}
		l.put(&f.Classes[i], 1)
	}
	end := len(t.Steps) + 2
	joinedAt := make([]int, len(t.Vars))
	for _, c := range o.concats {
		for _, u := range c.uses {
			joinedAt[u.operand] = max(joinedAt[u.operand], end-birth(t, u.result))
		}
	}
	for v, since := range joinedAt {
		if ctx.Err() != nil {
			return 0
		}
		if since > 0 {
			l.hold(t.Live[v].Intersect(liveness.Set{{Lo: end - since, Hi: end}}), -Round(t.Vars[v].Bytes))
		}
	}
	seen := make([]int, len(t.Vars))
	for _, p := range o.overs {
		if ctx.Err() != nil {
			return 0
		}
		for _, r := range p.points {
			for at := r.Lo; at < r.Hi; at++ {
				if seen[p.out] != at+1 {
					l.hold(liveness.Set{{Lo: at, Hi: at + 1}}, -Round(t.Vars[p.out].Bytes))
					seen[p.out] = at + 1
				}
			}
		}
	}
	return l.need().peak
}
