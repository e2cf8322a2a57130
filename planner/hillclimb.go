package planner

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
)

// HillClimb changes the order in which items are placed, one exchange at a time, and keeps what does not make the
// arena higher.
//
//	order  a b c d e f      placed first fit       |  dd |  d is topmost; it rests on b, which rests on a.
//	                                               | bbb |  The next order exchanges one of d, b, a, or a neighbour
//	                                               |aaaa |  of theirs, with something earlier in the order.
//
// Every plan comes from some order by first fit, and moving the culprits of the height to the front is the move that can lower it.
// An order that is a little worse is accepted now and then, less as time goes on, so that the climb leaves small hills; the best plan
// seen is the answer.
//
// Source: the hill climb allocator of TVM's unified static memory planner, with a threshold in place of a temperature.
type HillClimb struct {
	// Budget is the work allowed, in the unit of Exact. 0 means 150,000.
	Budget int64
}

// Name is "hill-climb".
func (HillClimb) Name() string { return "hill-climb" }

// Plan climbs until the bound, the budget or the end of ctx.
func (h HillClimb) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	m, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	low, _ := m.bound()
	c := newClimber(m, m.greedySize(anyHeight))
	c.climb(low, h.Budget)
	s := finish(h.Name(), m, c.best)
	s.Stats.Nodes = c.orders
	s.Stats.Cut = ctx.Err() != nil && c.height > low
	return s, nil
}

// climber is the state of a climb.
type climber struct {
	m      *model
	order  []int // items in the order of placing
	index  []int // item -> place in order
	board  *board
	best   []int64
	height int64 // of best
	spent  int64
	cost   int64 // of one order, with conflict lists
	orders int64 // tried
	dice   dice
}

// newClimber starts from a known plan, with its items by size.
func newClimber(m *model, at []int64) *climber {
	c := &climber{m: m, index: make([]int, len(m.items)), best: at, height: m.height(at)}
	for _, i := range m.bySize() {
		c.index[i] = len(c.order)
		c.order = append(c.order, i)
	}
	return c
}

// climb runs until height low is reached, the budget is spent (0: the default) or the time is over.
func (c *climber) climb(low, budget int64) {
	if budget == 0 {
		budget = 150_000
	}
	if len(c.order) < 2 || c.height <= low || c.m.stop() {
		return
	}
	c.board = newBoard(c.m)
	for _, i := range c.order {
		if c.board.rows != nil {
			c.cost += 1 + int64(c.board.rows[i].Len())/16
		} else if c.m.adj != nil {
			c.cost += 1 + int64(len(c.m.adj[i]))/16
		}
	}
	current := c.place()
	for c.spent < budget && c.height > low && !c.m.stop() {
		x, y := c.exchange()
		h := c.place()
		// what may be lost: falls linearly to nothing over the budget
		slack := (c.height - low) / 8 * (budget - min(c.spent, budget)) / budget
		if h <= current || h <= c.height+c.dice.draw(slack+1) {
			current = h
			continue
		}
		c.swap(x, y)
	}
}

// place fills a board in the current order, first fit, and returns its height; a new best plan is kept.
func (c *climber) place() int64 {
	c.board.clear()
	c.board.fill(anyHeight, c.order, c.board.lowest)
	if s := c.board.strips; s != nil {
		c.spent += int64(len(c.order)) + s.made/200
	} else {
		c.spent += c.cost
	}
	c.orders++
	h := c.m.height(c.board.at)
	if h < c.height {
		c.height = h
		c.best = slices.Clone(c.board.at)
	}
	return h
}

// exchange swaps a culprit of the present height with an item before it in the order and returns the two places.
func (c *climber) exchange() (int, int) {
	i := c.culprit()
	x := c.index[i]
	if x < 1 {
		x = 1 + int(c.dice.draw(int64(len(c.order)-1)))
	}
	y := int(c.dice.draw(int64(x)))
	c.swap(x, y)
	return x, y
}

func (c *climber) swap(x, y int) {
	c.order[x], c.order[y] = c.order[y], c.order[x]
	c.index[c.order[x]], c.index[c.order[y]] = x, y
}

// culprit walks down from a topmost item to what it rests on, a random number of steps.
func (c *climber) culprit() int {
	at := c.board.at
	h := c.m.height(at)
	top := -1
	for i := range at {
		if at[i]+c.m.items[i].size == h && (top < 0 || c.dice.draw(2) == 0) {
			top = i
		}
	}
	for c.dice.draw(4) != 0 {
		below := c.support(top)
		if below < 0 {
			break
		}
		top = below
	}
	return top
}

// support is a random item directly under i, or -1.
func (c *climber) support(i int) int {
	if c.m.adj == nil {
		return -1
	}
	pick, n := -1, int64(0)
	for _, j := range c.m.adj[i] {
		if c.board.at[j]+c.m.items[j].size == c.board.at[i] {
			if n++; c.dice.draw(n) == 0 {
				pick = int(j)
			}
		}
	}
	return pick
}
