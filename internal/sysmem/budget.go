package sysmem

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Sizes come from files and from data: a ConstantOfShape of 2^40 elements or a loop that
// grows a sequence without end must be an error, not the end of the process. So all code that
// allocates memory whose size a file or data decides asks a budget first:
//
//	in use now + what is asked for  ≤  budget
//
// In use is what the Go runtime has taken from the system and not given back, above what
// it had when the process started: garbage and fragments count, since they are resident. Pages
// of mapped files are no reason to refuse anything, since they can be dropped: where they do not
// fit beside what is in use, measurements and looks drop them, those that nobody reads first
// (mapping.go, pagelooks.go). In a command the program itself counts, too ([CountProgram]).
// Before a request is refused, unused memory is collected and returned to the system.
//
// Measuring takes a microsecond, so it is not done for every request. What was granted
// since the last time counts as in use:
//
//	├──────── measured ────────┤── granted since ──┤─ request ─┤          │
//	0                                              at most unmeasured     budget
//
// What does not ask (graphs, plans, headers) is seen at the next measurement, which loops that look at their context cause, too (looks.go). A measured request is granted before its memory is
// taken: until as much has been allocated, or [grantAge] has passed, it counts beside what is in use.

// Budget is how many bytes of memory the process may use beyond what it used when it
// started. 0, and less, is [Default]. A budget is a plain value: it is part of a call
// and does not affect other calls.
type Budget int64

// Error says that an operation would take more memory than it may.
type Error struct {
	What  string // what the memory is for
	Bytes int64  // how much of it; 0 if the use grew beyond the limit without a request
	Live  int64  // bytes in use already
	Limit int64
}

// Error says what is too large, the limit, and how to raise it.
func (e *Error) Error() string {
	const remedy = "if the size is right, raise the limit (WithMaxMemory, --max-memory of the command)"
	if e.Bytes == 0 {
		return fmt.Sprintf("%s: %d bytes are in use, beyond the limit of %d; %s", e.What, e.Live, e.Limit, remedy)
	}
	return fmt.Sprintf("%s of %d bytes, with %d in use, is beyond the limit of %d; %s", e.What, e.Bytes, e.Live, e.Limit, remedy)
}

// Default is the budget where none is set: three quarters of the machine's or control group's
// memory, or 64 GiB where the system does not say how much that is; no more than GOMEMLIMIT,
// near which the collector takes the time of all else; and no more
// than three quarters of what an int counts, which on 32 bits is less.
var Default = sync.OnceValue(func() int64 {
	budget := share(Memory(), math.MaxInt)
	if goLimit > 0 { // 0 has the collector run all the time, and limits nothing
		budget = min(budget, goLimit)
	}
	return budget
})

// goLimit is GOMEMLIMIT. What is set while the process runs may be for one operation alone.
var goLimit = debug.SetMemoryLimit(-1)

// share is the default budget for a memory, 0 if not known, and the largest int.
func share(memory, largest int64) int64 {
	budget := int64(64 << 30)
	if memory > 0 {
		budget = memory / 4 * 3
	}
	return min(budget, largest/4*3)
}

// unmeasured is how many bytes are granted at most between two measurements.
const unmeasured = 16 << 20

// collections are tried before a request is refused. What becomes garbage during one, of requests granted before, is freed by the next.
const collections = 3

var (
	atStart   = resident()
	used      atomic.Int64             // when it was last measured
	granted   atomic.Int64             // since then
	measuring = make(chan struct{}, 1) // full while someone measures: while a collection frees memory, nothing else is granted
	open      []grant                  // measured requests whose memory is not taken yet, oldest first; this and the next two under measuring
	untaken   int64                    // their bytes
	allocated int64                    // by the process since it started, when it was last measured
)

// grant is memory that may be taken.
type grant struct {
	bytes int64
	at    time.Time
}

// grantAge is how long a grant whose memory is not taken counts: it may never be.
const grantAge = 100 * time.Millisecond

func init() { granted.Store(unmeasured) } // the first request measures

// CountProgram makes budgets bounds of the whole process: what it has at most had resident until now, beside what the Go runtime has
// taken, counts as in use from now on. That is the code and the tables of the program, of which much is resident while it works. It is for
// commands, whose users look at the process; main calls it, before anything asks. Where the system does not tell, nothing changes.
func CountProgram() {
	if peak := PeakResident(); peak > 0 {
		atStart = min(atStart, resident()-peak)
	}
}

// Heap is what the Go runtime may take of the budget, beside the program where that counts ([CountProgram]).
func (b Budget) Heap() int64 { return max(1, b.Bytes()+min(atStart, 0)) }

// Bytes is the limit. It can be added to others of its kind.
func (b Budget) Bytes() int64 {
	if b <= 0 {
		return Default()
	}
	return min(int64(b), math.MaxInt64/4)
}

// Ask asks for bytes more memory. A nil error grants it, else it is an [*Error].
func (b Budget) Ask(what string, bytes int64) error { return b.AskContext(nil, what, bytes) }

// AskContext is Ask until a context ends, whose error it then returns; nil never ends. A request that is measured may have to
// wait for others, and for memory that was granted to them.
func (b Budget) AskContext(ctx context.Context, what string, bytes int64) error {
	limit := b.Bytes()
	switch {
	case bytes <= 0:
		return nil
	case bytes > limit:
		return &Error{what, bytes, resident() - atStart, limit}
	}
	if n := granted.Add(bytes); n <= unmeasured && used.Load()+n <= limit {
		return nil
	}
	return measure(ctx, what, bytes, limit)
}

// Check measures whether what is in use is within the budget: for work whose memory is
// not asked for piece by piece.
func (b Budget) Check(what string) error { return b.CheckContext(nil, what) }

// CheckContext is Check until a context ends, as [Budget.AskContext] is Ask.
func (b Budget) CheckContext(ctx context.Context, what string) error {
	return measure(ctx, what, 0, b.Bytes())
}

// measure grants bytes if they fit beside what is in use, after collections if need be. If they fit but for grants whose memory
// is not taken, it waits for those, while nothing else is granted: for grantAge at most, and no longer than the context lasts.
func measure(ctx context.Context, what string, bytes, limit int64) (err error) {
	defer rescue.Into(&err)
	if ctx == nil {
		ctx = context.Background()
	}
	select {
	case measuring <- struct{}{}:
		defer func() { <-measuring }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return measured(ctx, what, bytes, limit)
}

// measured is measure for who holds measuring.
func measured(ctx context.Context, what string, bytes, limit int64) error {
	now := inUse()
	discardBeyond(limit, bytes+untaken)
	for try := 0; now+untaken > limit-bytes && try < collections; now = inUse() {
		granted.Store(unmeasured)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if try > 0 && now <= limit-bytes {
			time.Sleep(time.Millisecond)
			continue
		}
		debug.FreeOSMemory()
		try++
	}
	used.Store(now + untaken)
	if now+untaken > limit-bytes {
		granted.Store(0)
		return &Error{what, bytes, now + untaken, limit}
	}
	granted.Store(bytes)
	if bytes > 0 {
		open, untaken = append(open, grant{bytes, time.Now()}), untaken+bytes
	}
	return nil
}

// inUse is how much memory is in use. What was allocated since the last time is taken from the open grants.
func inUse() int64 {
	s := [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s[:])
	total := int64(s[0].Value.Uint64())
	grown := total - allocated
	allocated = total
	for len(open) > 0 {
		first, old := &open[0], time.Since(open[0].at) > grantAge
		if grown == 0 && !old {
			break
		}
		taken := min(grown, first.bytes)
		first.bytes, untaken, grown = first.bytes-taken, untaken-taken, grown-taken
		if first.bytes == 0 || old {
			untaken -= first.bytes
			open = open[1:]
		}
	}
	return resident() - atStart
}

// samples are what resident reads, kept: contexts of runs, which allocate nothing, measure too.
var samples = struct {
	sync.Mutex
	of [2]metrics.Sample
}{of: [2]metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}}

// resident is how many bytes the Go runtime has taken from the system and not given back.
func resident() int64 {
	samples.Lock()
	defer samples.Unlock()
	s := samples.of[:]
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

type budgetKey struct{}

// In returns a context that carries the budget to where memory is taken on behalf of an
// operation: like its deadline, it is a limit of the operation as a whole. Its Err is an [*Error] from when the operation is found
// beyond the budget, while Done stays open: who waits takes no memory. The error stays, so that another attempt, or the next operation,
// needs another context; one made within that of an operation has its own error alone.
func (b Budget) In(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	if around, ok := ctx.(*bounded); ok { // what it carries and looks at is replaced
		ctx = around.within
	}
	return &bounded{Context: context.WithValue(ctx, budgetKey{}, b), within: ctx, limit: b.Bytes()}
}

// BudgetOf is the budget that a context carries; the default one if it carries none.
func BudgetOf(ctx context.Context) Budget {
	if ctx == nil {
		return 0
	}
	b, _ := ctx.Value(budgetKey{}).(Budget)
	return b
}
