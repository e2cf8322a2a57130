package inplace

import (
	"sort"

	"github.com/berth-onnx/berth/liveness"
)

// Classes. Blocks whose slots are tied to each other are one class, planned as one
// buffer. Two classes may become one although both are live at some point, as long as
// no byte would have to hold two contents then; so a class remembers what lies in it,
// where and when:
//
//	bytes 64 ┌───────┬─────────────┐    content   bytes     points
//	         │  q    │             │    q         32 to 64  3 to 5
//	      32 ├───────┤  r          │    p          0 to 32  2 to 5
//	         │  p    │             │    r          0 to 64  5 to 9
//	       0 └───────┴─────────────┘    at 5, where concat(p, q) = r is made, p and q
//	         2       5             9    are windows of r: the same bytes, no clash

// Class is a set of blocks with fixed offsets relative to each other.
type Class struct {
	Vars  []int // blocks of the layout, in order of folding
	Bytes int64 // from the first byte of any to the last of any

	life life
	held []content // what may lie here, and when
	// inTurn is how many of held, from the first on, begin and end in order of time.
	inTurn int
}

// content is a value and when bytes [at, at+n) of the class hold it for a reader. A
// block's own content is named by the block, a merged value's by its variable.
type content struct {
	value int
	block int // the block it lies in
	at, n int64
	life  *life // of the value, the same wherever it may lie
}

// move shifts everything in the class by n bytes.
func (c *Class) move(n int64) {
	c.Bytes += n
	shiftAll(c.held, n)
}

// absorb takes over the blocks of another class whose origin lies shift bytes
// after its own, shift >= 0; life is the live range of both. The longer list of contents stays where it is, in whatever
// order classes are joined: swapped says that it is the other's.
func (c *Class) absorb(o *Class, shift int64, life life) (swapped bool) {
	c.Vars = append(c.Vars, o.Vars...)
	c.Bytes = max(c.Bytes, o.Bytes+shift)
	c.life = life
	if len(o.held) > len(c.held) {
		shiftAll(o.held, shift)
		c.held, c.inTurn = append(o.held, c.held...), o.inTurn
		c.countInTurn()
		return true
	}
	from := len(c.held)
	c.held = append(c.held, o.held...)
	shiftAll(c.held[from:], shift)
	c.countInTurn()
	return false
}

// countInTurn counts contents that follow those in turn.
func (c *Class) countInTurn() {
	for n := c.inTurn; n < len(c.held); n++ {
		if p := c.held[n].life.points; len(p) == 0 || n > 0 && !inOrder(c.held[n-1].life.points, p) {
			return
		}
		c.inTurn = n + 1
	}
}

// inOrder reports that neither the first nor the last point of q is before that of p.
func inOrder(p, q liveness.Set) bool {
	return p[0].Lo <= q[0].Lo && p[len(p)-1].Hi <= q[len(q)-1].Hi
}

// fewContents are looked at one by one.
const fewContents = 16

// around returns which of the contents in turn may be needed at once with a live range: first up to end.
func (c *Class) around(l life) (first, end int) {
	if c.inTurn <= fewContents || len(l.points) == 0 {
		return 0, c.inTurn
	}
	lo, hi := l.points[0].Lo, l.points[len(l.points)-1].Hi
	first = sort.Search(c.inTurn, func(i int) bool { p := c.held[i].life.points; return p[len(p)-1].Hi > lo })
	return first, first + sort.Search(c.inTurn-first, func(i int) bool { return c.held[first+i].life.points[0].Lo >= hi })
}

// skip returns the content to look at in place of content i: those in turn from end on are not.
func (c *Class) skip(i, end int) int {
	if i == end {
		return c.inTurn
	}
	return i
}

func shiftAll(held []content, by int64) {
	for i := range held {
		held[i].at += by
	}
}

// size is what a class takes of the arena.
func (c *Class) size() int64 { return Round(c.Bytes) }

// clash reports whether two classes, y's origin shift bytes after x's, would
// hold different contents in the same bytes at once, but for the excepted steps.
func (f *Folding) clash(x, y *Class, shift int64, except liveness.Set) bool {
	if !f.times.meet(x.life, y.life, except) {
		return false
	}
	first, end := x.around(y.life)
	for i := x.skip(first, end); i < len(x.held); i = x.skip(i+1, end) {
		a := &x.held[i]
		if a.at >= shift+y.Bytes || a.at+a.n <= shift || !f.times.meet(*a.life, y.life, except) {
			continue
		}
		if f.clashWith(a, y, shift, except) {
			return true
		}
	}
	return false
}

// clashWith reports whether a content of another class and one of y, whose origin lies shift bytes after the other's, would.
func (f *Folding) clashWith(a *content, y *Class, shift int64, except liveness.Set) bool {
	first, end := y.around(*a.life)
	for i := y.skip(first, end); i < len(y.held); i = y.skip(i+1, end) {
		b := &y.held[i]
		at := b.at + shift
		if at >= a.at+a.n || a.at >= at+b.n || f.same.agree(a.value, a.at, b.value, at) || f.times.exclusive(a.block, b.block) {
			continue
		}
		if f.times.meet(*a.life, *b.life, except) {
			return true
		}
	}
	return false
}

// contents knows which values are windows of which: a union-find whose links
// carry an offset.
//
//	concat(p, q) = r        p ──0──▶ r        bytes of p are bytes of r at 0
//	                        q ──64─▶ r        bytes of q are bytes of r at 64
type contents struct {
	up []int
	by []int64
}

func newContents(n int) *contents {
	c := &contents{make([]int, n), make([]int64, n)}
	for i := range c.up {
		c.up[i] = i
	}
	return c
}

// root returns the value v is a window of, and where in it v begins.
func (c *contents) root(v int) (r int, at int64) {
	for c.up[v] != v {
		at += c.by[v]
		v = c.up[v]
	}
	return v, at
}

// agree reports whether value a lying at byte atA and value b lying at byte atB
// hold the same bytes where they overlap.
func (c *contents) agree(a int, atA int64, b int, atB int64) bool {
	ra, da := c.root(a)
	rb, db := c.root(b)
	return ra == rb && atA-da == atB-db
}

// window notes that value a is the window of value r that begins at by. It
// fails if a is a window of another value already: that value and r have only a
// in common. fresh says that nothing was known of a before; then forget takes it
// back.
func (c *contents) window(a, r int, by int64) (fresh, ok bool) {
	if ra, da := c.root(a); ra != a {
		rr, dr := c.root(r)
		return false, ra == rr && da == dr+by
	}
	rr, dr := c.root(r)
	if rr == a {
		return false, false
	}
	c.up[a], c.by[a] = rr, dr+by
	return true, true
}

func (c *contents) forget(a int) { c.up[a], c.by[a] = a, 0 }
