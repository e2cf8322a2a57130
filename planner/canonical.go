package planner

import (
	"cmp"
	"math"
	"slices"
)

// The canonical search is the exact search for problems that are more than plain intervals: holes, mixed alignments,
// partial orders. (Plain intervals have the faster skyline.)
//
// A plan is canonical when no item can sink: each lies at 0 or on an item that it conflicts with. Placing items in the
// order of their offsets builds every canonical plan bottom up:
//
//	low[i] = the least offset left to item i by what is placed; placing i at low[i] = o lifts the
//	         unplaced neighbours j to at least o + size(i), rounded up to their alignment
//
//	bytes |   |  low of x, y, z      Next comes an item with low >= o. An item with low >= h, where h is the
//	      | h-+-----z-               least end that any unplaced item could have now, can wait: the one that
//	    o |---x--y---                ends at h would fit under it, so some plan places that one first.
//
// Pruning: in every clique, the highest placed end (or o, or the least low of what is still to come) plus the heights
// still to come must fit the capacity; an item left below o that nothing can lift any more could have been placed
// before. Positions that were searched in vain are remembered.
// Runs are restarted with other heuristics, as in skysearch. What was searched in vain in one order says nothing about another, so
// short runs prove little: half of the budget goes to a single long one.
//
// Source: MiniMalloc (Moffitt, ASPLOS 2023), with cliques in place of sections.
type canonical struct {
	m       *model
	adj     [][]int32
	cliques []clique
	in      [][]share // per item: its part in each of its cliques
	class   []int32   // equal items share a class

	cap   int64
	at    []int64
	low   []int64
	lifts []int32 // unplaced neighbours of each item
	floor []int64 // per clique: highest placed end
	rest  []int64 // per clique: heights to come
	left  int     // unplaced items
	score []int64
	rank  []int32     // by score: of the items at one offset the first in rank is placed first
	hash  fingerprint // of the classes placed, and of the classes and lows to come
	salt  uint64      // ranks differ from run to run, so what one has searched is its own
	undo  []lowered
	order []int32
	meter
	seen searched
	dice dice
}

// lowered is an undo entry: low (item >= 0) or floor (clique = ^item) before a change.
type lowered struct {
	index int32
	value int64
}

// newCanonical prepares the search; it builds the model's conflict lists.
func newCanonical(m *model) *canonical {
	n := len(m.items)
	c := &canonical{m: m, adj: m.conflicts(), cliques: m.cliques(), in: make([][]share, n), class: make([]int32, n),
		at: make([]int64, n), low: make([]int64, n), lifts: make([]int32, n), score: make([]int64, n), rank: make([]int32, n)}
	c.floor, c.rest = make([]int64, len(c.cliques)), make([]int64, len(c.cliques))
	for k := range c.cliques {
		for _, s := range c.cliques[k].members {
			c.in[s.of] = append(c.in[s.of], share{int32(k), s.height})
		}
	}
	c.findClasses()
	return c
}

// findClasses numbers the items so that those with equal size, alignment and neighbours (less each other) share a number: then
// they can be exchanged in any plan. Candidates are found by a sum over neighbours that counts the item as one of its own.
func (c *canonical) findClasses() {
	next := int32(0)
	first := map[uint64][]int32{} // one item of each class by the sum
	for i := range c.class {
		it := &c.m.items[i]
		sum := scramble(uint64(i)) + scramble(uint64(it.align)) + scramble(uint64(it.size))
		for _, j := range c.adj[i] {
			sum += scramble(uint64(j))
		}
		c.class[i] = -1
		for _, j := range first[sum] {
			if c.alike(i, int(j)) {
				c.class[i] = c.class[j]
				break
			}
		}
		if c.class[i] < 0 {
			c.class[i] = next
			first[sum] = append(first[sum], int32(i))
			next++
		}
	}
}

// alike reports whether two neighbours of one size can be exchanged.
func (c *canonical) alike(i, j int) bool {
	a, b := &c.m.items[i], &c.m.items[j]
	if a.size != b.size || a.align != b.align || len(c.adj[i]) != len(c.adj[j]) {
		return false
	}
	x, y := c.adj[i], c.adj[j]
	mutual := false
	for p, q := 0, 0; p < len(x) || q < len(y); p, q = p+1, q+1 {
		if p < len(x) && int(x[p]) == j {
			mutual = true
			p++
		}
		if q < len(y) && int(y[q]) == i {
			q++
		}
		if p == len(x) || q == len(y) {
			return mutual && p == len(x) && q == len(y)
		}
		if x[p] != y[q] {
			return false
		}
	}
	return mutual
}

// run looks for a plan of the given capacity within a budget of positions. See skysearch.run.
func (c *canonical) run(capacity, budget int64, stop func() bool) verdict {
	c.start(budget, stop)
	c.dice = dice{}
	c.seen.clear()
	for k := int64(0); ; k++ {
		if !c.reset(capacity) {
			return refuted
		}
		c.draw()
		c.salt = scramble(uint64(k))
		c.limit = c.nodes + int64(len(c.at)) + patience*(1+k/runsPerStep)
		if c.spent() > c.budget-budget/2 {
			c.limit = math.MaxInt64 // one long run, for a proof
		}
		v := c.search(0, -1)
		if v != cutOff || c.spentOut() {
			return v
		}
	}
}

// descent is about what one run without a dead end costs.
func (c *canonical) descent() int64 {
	n := int64(len(c.at))
	for k := range c.cliques {
		n += int64(len(c.cliques[k].members))
	}
	return 1 + int64(len(c.at))*n/50
}

// reset empties the board; false when the capacity is refuted by a clique alone.
func (c *canonical) reset(capacity int64) bool {
	c.cap, c.hash, c.left = capacity, fingerprint{1, 1}, 0
	c.undo, c.order = c.undo[:0], c.order[:0]
	for k := range c.cliques {
		c.floor[k], c.rest[k] = 0, c.cliques[k].total
		if c.rest[k] > capacity+c.cliques[k].pad {
			return false
		}
	}
	for i := range c.at {
		c.at[i], c.low[i] = unplaced, 0
		c.lifts[i] = int32(len(c.adj[i]))
		if c.m.items[i].size > capacity {
			return false
		}
		if len(c.adj[i]) == 0 {
			c.at[i] = c.low[i] // interferes with no other item
			for _, s := range c.in[i] {
				c.rest[s.of] -= s.height
			}
			continue
		}
		c.left++
		c.hash.add(c.lowKey(int32(i)))
	}
	return true
}

// lowKey is the part of the hash for the unplaced item i.
func (c *canonical) lowKey(i int32) fingerprint {
	return fingerprintOf(uint64(c.low[i]), uint64(c.class[i]))
}

// draw sets the heuristic of a run: size, number of conflicts and the heaviest clique, in random proportions.
func (c *canonical) draw() {
	size, degree, contention := c.dice.draw(1024), c.dice.draw(1024), c.dice.draw(3072)
	noise := 1 + c.dice.draw(1024)*c.dice.draw(740)/1024
	for i := range c.score {
		most := int64(1)
		for _, s := range c.in[i] {
			most = max(most, c.cliques[s.of].total)
		}
		c.score[i] = (size*log2(max(c.m.items[i].size, 1))+degree*log2(int64(len(c.adj[i])+1))+contention*log2(most))/1024 + c.dice.draw(noise)
	}
	byScore := make([]int32, len(c.score))
	for i := range byScore {
		byScore[i] = int32(i)
	}
	slices.SortStableFunc(byScore, func(a, b int32) int { return cmp.Compare(c.score[b], c.score[a]) })
	for r, i := range byScore {
		c.rank[i] = int32(r)
	}
}

// search places the next item at offset o or above; at o itself only items whose rank is above after.
func (c *canonical) search(o int64, after int32) verdict {
	c.nodes++
	if c.left == 0 {
		return found
	}
	if c.nodes >= c.limit || c.spentOut() {
		return cutOff
	}
	hash := c.hash
	hash.a ^= scramble(c.salt + uint64(o)*0xff51afd7ed558ccd + uint64(after))
	hash.b ^= scramble(c.salt ^ uint64(after)*0xff51afd7ed558ccd + uint64(o))
	if _, ok := c.seen.find(hash); ok {
		return refuted
	}
	first := len(c.order)
	if c.gather(o, after) {
		for x := first; x < len(c.order); x++ {
			if i := c.order[x]; !c.twin(i, c.order[first:x]) {
				if r := c.try(i); r != refuted {
					return r
				}
			}
		}
	}
	c.order = c.order[:first]
	c.seen.add(hash, stretch{})
	return refuted
}

// gather appends the candidates to order, most promising first. False means a dead end: an item whose offset has been passed and
// that nothing can lift any more.
func (c *canonical) gather(o int64, after int32) bool {
	h, first := int64(wall), len(c.order)
	c.work += int64(len(c.at))
	for i, at := range c.at {
		if at != unplaced {
			continue
		}
		if c.low[i] < o || (c.low[i] == o && c.rank[i] <= after) {
			if c.lifts[i] == 0 {
				return false
			}
		} else {
			c.order = append(c.order, int32(i))
		}
		h = min(h, c.low[i]+c.m.items[i].size)
	}
	kept := slices.DeleteFunc(c.order[first:], func(i int32) bool { return c.low[i] >= h })
	slices.SortFunc(kept, func(x, y int32) int {
		return cmp.Or(cmp.Compare(c.low[x], c.low[y]), cmp.Compare(c.rank[x], c.rank[y]))
	})
	c.order = c.order[:first+len(kept)]
	c.work += 8 * int64(len(kept))
	return true
}

// twin reports whether an equal item was tried at the same offset already.
func (c *canonical) twin(i int32, tried []int32) bool {
	return slices.ContainsFunc(tried, func(j int32) bool { return c.class[j] == c.class[i] && c.low[j] == c.low[i] })
}

// try places item i at its low and searches on.
func (c *canonical) try(i int32) verdict {
	mark, hash := len(c.undo), c.hash
	o := c.low[i]
	c.at[i] = o
	c.left--
	c.hash.add(fingerprintOf(0, ^uint64(c.class[i])))
	c.hash.remove(c.lowKey(i))
	r := refuted
	if c.lift(i, o) && c.cliquesFit(i, o) {
		r = c.search(o, c.rank[i])
	}
	if r != refuted {
		return r
	}
	c.hash = hash
	c.left++
	c.at[i] = unplaced
	for _, j := range c.adj[i] {
		c.lifts[j]++
	}
	for _, s := range c.in[i] {
		c.rest[s.of] += s.height
	}
	for k := len(c.undo) - 1; k >= mark; k-- {
		if u := c.undo[k]; u.index >= 0 {
			c.low[u.index] = u.value
		} else {
			c.floor[^u.index] = u.value
		}
	}
	c.undo = c.undo[:mark]
	return refuted
}

// lift raises the lows of i's unplaced neighbours; false when one no longer fits.
func (c *canonical) lift(i int32, o int64) bool {
	c.work += 2 * int64(len(c.adj[i]))
	for _, j := range c.adj[i] {
		c.lifts[j]--
	}
	for _, s := range c.in[i] {
		c.rest[s.of] -= s.height
	}
	for _, j := range c.adj[i] {
		if c.at[j] != unplaced {
			continue
		}
		it := &c.m.items[j]
		low := alignUp(o+c.m.items[i].size, it.align)
		if low <= c.low[j] {
			continue
		}
		if low+it.size > c.cap {
			return false
		}
		c.undo = append(c.undo, lowered{j, c.low[j]})
		c.hash.remove(c.lowKey(j))
		c.low[j] = low
		c.hash.add(c.lowKey(j))
	}
	return true
}

// cliquesFit raises the floors of i's cliques and reports whether what is still to come fits over them.
func (c *canonical) cliquesFit(i int32, o int64) bool {
	for _, s := range c.in[i] {
		if end := o + s.height; end > c.floor[s.of] {
			c.undo = append(c.undo, lowered{^s.of, c.floor[s.of]})
			c.floor[s.of] = end
		}
	}
	c.work += int64(len(c.cliques))
	for k := range c.cliques {
		if q := &c.cliques[k]; c.rest[k] > 0 && alignUp(max(c.floor[k], o), q.align)+c.rest[k] > c.cap+q.pad {
			return false
		}
	}
	for _, s := range c.in[i] {
		if !c.fitsAboveLows(s.of) {
			return false
		}
	}
	return true
}

// fitsAboveLows sharpens the test of one clique: what is to come begins at its least low.
func (c *canonical) fitsAboveLows(k int32) bool {
	least := int64(wall)
	c.work += int64(len(c.cliques[k].members))
	for _, s := range c.cliques[k].members {
		if c.at[s.of] == unplaced {
			least = min(least, c.low[s.of])
		}
	}
	return least == wall || least+c.rest[k] <= c.cap+c.cliques[k].pad
}
