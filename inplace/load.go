package inplace

import "github.com/berth-onnx/berth/liveness"

// load is how many bytes are held at every time point: a segment tree with
// additions over runs of points, so that folding two classes costs the logarithm
// of the program's length and the most held at any point is at hand.
//
//	       most 9                each node: the most below it, and what was
//	    ┌────┴────┐              added to all points below it at once
//	  7 +2       5 +0
//	┌──┴──┐    ┌──┴──┐
//	5     7    5     3
type load struct {
	n    int     // points, a power of two
	most []int64 // by node: the most below it, its own addition included
	tops []int32 // by node: at how many points below it that is
	add  []int64 // by node: added to all points below
}

func newLoad(points int) *load {
	n := 1
	for n < points {
		n *= 2
	}
	l := &load{n, make([]int64, 2*n), make([]int32, 2*n), make([]int64, 2*n)}
	for i := 2*n - 1; i > 0; i-- {
		l.tops[i] = 1
		if i < n {
			l.tops[i] = 2 * l.tops[2*i]
		}
	}
	return l
}

// put adds the size of a class, or takes it off, wherever the class lives. Without a
// load it does nothing.
func (l *load) put(c *Class, sign int64) {
	if l != nil {
		l.hold(c.life.points, sign*c.size())
	}
}

// takeBoth takes off the size of two classes of one size, once, wherever both live.
func (l *load) takeBoth(x, y *Class) {
	if size := x.size(); l != nil && size != 0 {
		x.life.points.EachShared(y.life.points, func(r liveness.Range) { l.run(1, 0, l.n, r.Lo, r.Hi, -size) })
	}
}

// hold adds bytes at every point of a set.
func (l *load) hold(s liveness.Set, bytes int64) {
	if bytes == 0 {
		return
	}
	for _, r := range s {
		l.run(1, 0, l.n, r.Lo, r.Hi, bytes)
	}
}

func (l *load) run(node, lo, hi, from, to int, bytes int64) {
	if from <= lo && hi <= to {
		l.most[node] += bytes
		l.add[node] += bytes
		return
	}
	mid := (lo + hi) / 2
	if from < mid {
		l.run(2*node, lo, mid, from, min(to, mid), bytes)
	}
	if to > mid {
		l.run(2*node+1, mid, hi, max(from, mid), to, bytes)
	}
	a, b := 2*node, 2*node+1
	l.most[node], l.tops[node] = l.most[a]+l.add[node], l.tops[a]
	switch {
	case l.most[b] > l.most[a]:
		l.most[node], l.tops[node] = l.most[b]+l.add[node], l.tops[b]
	case l.most[b] == l.most[a]:
		l.tops[node] += l.tops[b]
	}
}

// need is what a folding costs: the most bytes held at one point, and at how
// many points that is. A plan with less of either is better; a fold that lowers
// one of several equal peaks is the way to lowering all of them.
type need struct {
	peak int64
	tops int32
}

func (l *load) need() need { return need{l.most[1], l.tops[1]} }

func (a need) less(b need) bool { return a.peak < b.peak || a.peak == b.peak && a.tops < b.tops }

// over is the most bytes held at a point of a set.
func (l *load) over(s liveness.Set) int64 {
	var most int64
	for _, r := range s {
		most = max(most, l.query(1, 0, l.n, r.Lo, r.Hi))
	}
	return most
}

func (l *load) query(node, lo, hi, from, to int) int64 {
	if from <= lo && hi <= to {
		return l.most[node]
	}
	mid := (lo + hi) / 2
	var most int64
	if from < mid {
		most = l.query(2*node, lo, mid, from, min(to, mid))
	}
	if to > mid {
		most = max(most, l.query(2*node+1, mid, hi, max(from, mid), to))
	}
	return most + l.add[node]
}
