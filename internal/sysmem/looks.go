package sysmem

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// What does not ask is measured at some steps of an operation. Between two of them graphs, plans and garbage grow, by more than a
// tenth of the budget where a graph has many nodes. But long loops look at their context, so that a context that carries a
// budget looks at the memory on that occasion:
//
//	in use   limit ──────────╱╲──────────────╱─  collected: goes on; still beyond: Err is an *Error from then on
//	              ╱╲╱╲╱╲╱╲╱╲╱  ╲╱╲╱╲╱╲╱╲╱╲╱╲╱
//	looks     |     |     |   |    |    |    |
//
// The loops of the operation that look wait for the collection, so that nothing grows meanwhile but what others take. An error stays, as that of any
// context does: what a loop has left unfinished is of no use, and who called it finds out by looking, too.

const (
	looksPerClock = 16                   // a look reads the clock this seldom: that takes longer than the look
	lookInterval  = 5 * time.Millisecond // at least, between two measurements
	lookSlack     = 64                   // the part of the limit that may be in use beyond it before a look collects
)

// bounded is a context whose Err looks at the memory, too.
type bounded struct {
	context.Context
	within  context.Context // the one that it was made in
	limit   int64
	looks   atomic.Uint32
	next    atomic.Int64 // when to measure, in nanoseconds since began
	looking atomic.Bool
	pause   sync.Mutex // held while memory is collected
	paused  atomic.Bool
	full    atomic.Pointer[Error]
}

var began = time.Now()

func (c *bounded) Err() error {
	if full := c.full.Load(); full != nil {
		return full
	}
	if pagesMatter(c.limit) {
		lookAtPages(c.limit)
	}
	if c.looks.Add(1)%looksPerClock == 0 {
		if c.paused.Load() {
			c.pause.Lock()
			c.pause.Unlock()
		}
		if now := int64(time.Since(began)); now >= c.next.Load() && c.looking.CompareAndSwap(false, true) {
			c.look(now)
			c.looking.Store(false)
			if full := c.full.Load(); full != nil {
				return full
			}
		}
	}
	err := c.within.Err()
	if _, isFull := err.(*Error); isFull { // of an operation around this one, whose budget is not this one's
		select {
		case <-c.Done():
		default:
			return nil
		}
	}
	return err
}

// look collects where more than the limit is in use, and as long again nothing is measured after it.
func (c *bounded) look(now int64) {
	if resident()-atStart > c.limit+c.limit/lookSlack {
		select {
		case measuring <- struct{}{}:
			c.pause.Lock()
			c.paused.Store(true)
			if full := (*Error)(nil); errors.As(measured(context.Background(), "the work so far", 0, c.limit), &full) {
				c.full.Store(full)
			}
			c.paused.Store(false)
			c.pause.Unlock()
			<-measuring
		default: // it may be this goroutine that measures
		}
	}
	end := int64(time.Since(began))
	c.next.Store(end + max(int64(lookInterval), end-now))
}
