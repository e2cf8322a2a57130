// Package livebytes measures how much memory of the Go heap is in use: what the garbage
// collector finds reachable, whatever the process holds beyond that.
package livebytes

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// Now collects garbage until nothing more is found, and returns the bytes that are reachable.
// One collection is not enough: a [sync.Pool] gives up what it keeps in the second one, and
// what finalizers and cleanups refer to goes in the one after they have run.
func Now() int64 {
	least := collected()
	for range 10 {
		runtime.Gosched() // to finalizers
		n := collected()
		if n >= least {
			break
		}
		least = n
	}
	return least
}

// collected is what one collection leaves.
func collected() int64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// Peak calls run again and again for a time, once at least, while another goroutine collects
// garbage without a pause and looks at what is left. It returns the most bytes reachable at
// such a moment, which an allocation that is gone between two collections is not part of, and
// the error that ended the calls early.
func Peak(long time.Duration, run func() error) (most int64, err error) {
	var done atomic.Bool
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for !done.Load() {
			most = max(most, collected())
		}
	})
	for begin := time.Now(); err == nil; {
		if err = run(); time.Since(begin) >= long {
			break
		}
	}
	done.Store(true)
	sampler.Wait()
	return max(most, Now()), err
}
