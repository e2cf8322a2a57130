package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-onnx/berth/internal/plannertest"
)

// chunk is how many problems a worker takes at a time.
const chunk = 64

// run verifies the problems 0 to n-1 of the sequence. Workers take runs of problems from a counter and keep a tally each.
func run(ctx context.Context, s *settings) *tally {
	var next, done atomic.Uint64
	tallies := make([]*tally, s.workers)
	var group sync.WaitGroup
	for w := range tallies {
		t := newTally()
		tallies[w] = t
		group.Add(1)
		go func() {
			defer group.Done()
			for ctx.Err() == nil {
				first := next.Add(chunk) - chunk
				if first >= s.n {
					return
				}
				for index := first; index < min(first+chunk, s.n) && ctx.Err() == nil; index++ {
					c, err := plannertest.Draw(s.seed, index, s.kind)
					if err != nil {
						return // the kind has been looked up before
					}
					t.add(index, plannertest.Verify(context.Background(), &c))
					done.Add(1)
				}
			}
		}()
	}
	finished := make(chan struct{})
	go func() {
		group.Wait()
		close(finished)
	}()
	tell(s, &done, finished)
	total := newTally()
	for _, t := range tallies {
		total.merge(t)
	}
	return total
}

// tell reports progress every few seconds until the work is finished.
func tell(s *settings, done *atomic.Uint64, finished <-chan struct{}) {
	begin := time.Now()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-finished:
			return
		case <-tick.C:
			n := done.Load()
			rate := float64(n) / time.Since(begin).Seconds()
			left := time.Duration(float64(s.n-n) / max(rate, 1e-9) * float64(time.Second))
			fmt.Fprintf(s.progress, "%d of %d problems, %.0f a second, about %v left\n", n, s.n, rate, left.Round(time.Second))
		}
	}
}
