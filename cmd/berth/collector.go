package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// firstHeap is the size of the heap at its first collection. Opening and compiling a small model makes some 3 to 10 MB of objects,
// most of which are garbage before its weights are packed. The runtime begins with 4 MB, and the collections on the way to a
// heap of this size take a fifth of the time.
const firstHeap = 16 << 20

// runtimeFirstHeap is the size at which the runtime collects first, at 100 percent.
const runtimeFirstHeap = 4 << 20

// collector sets how far the heap grows from one collection to the next. The memory limit holds all the time, and who sets GOGC
// is obeyed.
type collector struct {
	mu     sync.Mutex
	before int   // the percentage that the process had
	grows  int64 // bytes by which the heap may grow after each collection; 0 goes by the percentage
	on     bool
}

// delay lets the heap grow to firstHeap before it is collected the first time. From then on, or when the function that it
// returns is called, the collector goes by the percentage it had.
func (c *collector) delay() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	c.before, c.on = debug.SetGCPercent(100*firstHeap/runtimeFirstHeap), true
	c.await()
	return c.end
}

// space lets the heap grow by so many bytes from one collection to the next, or by the percentage where that is more, until the
// function that delay returned is called.
func (c *collector) space(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if os.Getenv("GOGC") == "" {
		c.grows = bytes
		c.set(runtimeFirstHeap)
		if !c.on {
			c.on = true
			c.await()
		}
	}
}

// end sets the percentage that the process had.
func (c *collector) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on {
		c.on, c.grows = false, 0
		debug.SetGCPercent(c.before)
	}
}

// await calls collected after the next collection.
func (c *collector) await() {
	type collected struct{ _ *int } // with a pointer, so that it shares no block with others
	runtime.AddCleanup(new(collected), (*collector).collected, c)
}

func (c *collector) collected() {
	c.mu.Lock()
	spaced := c.on && c.grows > 0
	if spaced {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		c.set(int64(live[0].Value.Uint64()))
		c.await()
	}
	c.mu.Unlock()
	if !spaced {
		c.end()
	}
}

// set chooses the percentage by which a heap of so many bytes that are in use grows by c.grows.
func (c *collector) set(live int64) {
	debug.SetGCPercent(int(min(max(int64(c.before), 100*c.grows/max(live, runtimeFirstHeap)), math.MaxInt32)))
}
