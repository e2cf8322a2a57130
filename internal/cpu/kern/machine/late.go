package machine

import (
	"sync/atomic"
	"time"
)

// Workers that come late. Where other processes want the processors, too, the system takes a
// worker's away for milliseconds, and a caller that has done its part waits for the task that
// the worker holds. Whether that happens can not be known, but it shows: the wait is longer
// than all that the caller did.
//
//	caller   ▕ own tasks ▏····· wait ·····▏       late: wait > own tasks, and > minLate
//	worker   ▕ task ▏  suspended  ▏ task ▏
//
// A long call gains more by a worker than that costs, a short one does not. So after a late
// call the next ones begin alone, and share what is left after aloneTime:
//
//	short call   ▕ caller ▏
//	long call    ▕ caller   │ caller ▏
//	                        │ worker ▏
//	             └ aloneTime ┘
//
// Each late call makes twice as many of them begin alone as the one before, each call that
// ends in time half as many. Results do not depend on it: no sum does on who computes a task.

// minLate is the shortest wait that counts: less is no loss to speak of, and the end of tasks
// of unequal length. aloneTime is how long calls run alone, a part of what a system takes a
// processor away for.
const (
	minLate   = 200 * time.Microsecond
	aloneTime = time.Millisecond
)

// The calls that begin alone after the first late one, and at most.
const (
	firstAlone = 8
	mostAlone  = 1024
)

// lateness is the state of a pool.
type lateness struct {
	alone atomic.Int32 // calls that are still to begin alone
	next  atomic.Int32 // how many of them the next late call costs; 0: workers have come in time
}

// isLate reports whether calls begin alone at present.
func (l *lateness) isLate() bool { return l.alone.Load() > 0 }

// runAlone runs tasks of t until aloneTime is over, and returns the first that is left of n.
func (l *lateness) runAlone(n int, t Task) int {
	l.alone.Add(-1)
	start := time.Now()
	for i := range n {
		if time.Since(start) > aloneTime {
			return i
		}
		t.Run(i, 0)
	}
	return n
}

// note takes down how a call on several threads has ended.
func (l *lateness) note(late bool) {
	now := l.next.Load()
	switch {
	case late:
		now = max(now, firstAlone)
		l.alone.Store(now)
		l.next.Store(min(2*now, mostAlone))
	case now > firstAlone:
		l.next.Store(now / 2)
	case now != 0:
		l.next.Store(0)
	}
}
