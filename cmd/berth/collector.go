package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// firstHeap is the size of the heap at its first collection. Opening and compiling a small model makes some 10 to 30 MB of
// objects. The runtime begins with 4 MB, and four or five collections on the way to a heap of that size take a third of the
// time.
const firstHeap = 32 << 20

// runtimeFirstHeap is the size at which the runtime collects first, at 100 percent.
const runtimeFirstHeap = 4 << 20

// delayCollector lets the heap grow to firstHeap before it is collected the first time. From then on, or when the function
// that it returns is called, the collector goes by the percentage it had. The memory limit holds all the time, and who sets
// GOGC is obeyed.
func delayCollector() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(100 * firstHeap / runtimeFirstHeap)
	end = sync.OnceFunc(func() { debug.SetGCPercent(before) })
	type collected struct{ _ *int } // with a pointer, so that it shares no block with others
	runtime.AddCleanup(new(collected), func(end func()) { end() }, end)
	return end
}
