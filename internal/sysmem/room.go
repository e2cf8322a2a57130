package sysmem

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
)

// Sizes come from files and from data: a ConstantOfShape of 2^40 elements or a
// loop that grows a sequence for ever must be an error, not the end of the
// process. So everything that is allocated while a model runs asks for room first:
//
//	what is alive now + what is asked for  ≤  limit
//
// What is alive is the Go heap of the process, weights in mapped files not
// counted. Memory no longer used is collected before the answer is no.

// Error says that running a model would take more memory than it may.
type Error struct {
	What  string // what the memory is for
	Bytes int64  // how much of it, 0 for a run that has grown too large bit by bit
	Live  int64  // bytes alive already
	Limit int64
}

// Error says what is too large, the limit, and how to move it.
func (e *Error) Error() string {
	const remedy = "if the size is right, raise the limit (--max-memory, WithMaxMemory)"
	if e.Bytes == 0 {
		return fmt.Sprintf("%s holds %d bytes, beyond the limit of %d; %s", e.What, e.Live, e.Limit, remedy)
	}
	return fmt.Sprintf("%s of %d bytes, with %d in use, is beyond the limit of %d; %s", e.What, e.Bytes, e.Live, e.Limit, remedy)
}

// Default is the limit where none is set: three quarters of the machine's
// memory, or 64 GiB where the system does not say how much that is.
var Default = sync.OnceValue(func() int64 {
	if m := Memory(); m > 0 {
		return m / 4 * 3
	}
	return 64 << 30
})

// smallRoom is what is given without counting what is alive.
const smallRoom = 1 << 20

// Room asks for bytes more memory under a limit (0: the default one). A nil error
// grants it.
func Room(what string, bytes, limit int64) error {
	if limit <= 0 {
		limit = Default()
	}
	switch {
	case bytes > limit:
		return &Error{what, bytes, heapBytes(), limit}
	case bytes < smallRoom:
		return nil
	}
	return within(what, bytes, limit)
}

// Within compares what is alive with a limit (0: the default one).
func Within(what string, limit int64) error {
	if limit <= 0 {
		limit = Default()
	}
	return within(what, 0, limit)
}

// within grants bytes if they fit beside what is alive, after a collection if need be.
func within(what string, bytes, limit int64) error {
	if heapBytes() <= limit-bytes {
		return nil
	}
	runtime.GC()
	if live := heapBytes(); live > limit-bytes {
		return &Error{what, bytes, live, limit}
	}
	return nil
}

// heapBytes is how many bytes of the Go heap are alive or not collected yet.
func heapBytes() int64 {
	sample := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(sample[0].Value.Uint64())
}
