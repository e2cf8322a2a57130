package sysmem

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Reading a mapped file makes its pages resident without that anything is allocated: a product with a weight of a gigabyte adds a gigabyte
// to the process. Where that does not fit, who reads drops the pages at the limit, and goes on reading:
//
//	resident   limit ──────╱│──╱│──╱│──╱│─
//	                    ╱   │╱  │╱  │╱  │   by │ the pages are dropped: the file has them
//	heap       ────────────────────────────
//
// Contexts that carry a budget do so when they are looked at. Kernels mostly look at a channel, and at no budget: while a run goes on whose
// budget is small beside the mapped files ([Begin]), they call [LookAtPages]. In all other processes that reads one counter.

const (
	pageInterval = 200 * time.Microsecond // at least, between two looks at the resident size, which takes one or two
	pageSlack    = 8 << 20                // what is left free of a limit, an eighth at most: so much may be read until the next look
	farLooks     = 2                      // jumps in a file between two looks: each may bring in a large page
)

// hugePage is the size of the larger pages of amd64 and of arm64 with pages of 4 KB.
const hugePage = 2 << 20

var (
	mappedSum atomic.Int64 // bytes of all mapped files
	nextPages atomic.Int64 // when to look, in nanoseconds since began
	farReads  atomic.Uint32
	pageLimit atomic.Int64 // the least limit of the runs that [Begin] counts; 0 if there are none
	runs      struct {
		sync.Mutex
		limits []int64
	}
)

// pagesMatter reports whether mapped files may take a process beyond a limit of which the heap has most.
func pagesMatter(limit int64) bool { return mappedSum.Load() > limit/8 }

// Begin counts a run within a budget where its pages matter, and reports whether it does: then [End] must follow.
func Begin(b Budget) bool {
	limit := b.Bytes()
	if !pagesMatter(limit) {
		return false
	}
	runs.Lock()
	defer runs.Unlock()
	runs.limits = append(runs.limits, limit)
	pageLimit.Store(slices.Min(runs.limits))
	return true
}

// End takes one back that [Begin] has counted.
func End(b Budget) {
	runs.Lock()
	defer runs.Unlock()
	at := slices.Index(runs.limits, b.Bytes())
	runs.limits = slices.Delete(runs.limits, at, at+1)
	least := int64(0)
	if len(runs.limits) > 0 {
		least = slices.Min(runs.limits)
	}
	pageLimit.Store(least)
}

// LookAtPages drops pages of mapped files where the process has more than fit into the budget of a run in progress. It is not inlined: hundreds of loops call it.
//
//go:noinline
func LookAtPages() {
	if limit := pageLimit.Load(); limit > 0 {
		lookAtPages(limit)
	}
}

// Jumps is the reading at scattered places of an operand: the system brings in as much as a large page around each.
type Jumps struct {
	mapped bool // and a run in progress has a limit
	page   int  // of hugePage bytes, where it was read last
}

// NewJumps begins the reading of an operand.
func NewJumps(operand []byte) Jumps {
	return Jumps{mapped: pageLimit.Load() > 0 && IsMapped(operand), page: -1}
}

// Look is [LookAtPages] after a read at a place of the operand. Places in one large page, and those of memory, cost nothing.
func (j *Jumps) Look(at int) {
	if j.mapped && at/hugePage != j.page {
		j.page = at / hugePage
		lookAfterJump()
	}
}

// lookAfterJump drops pages of mapped files as [LookAtPages] does, at each of so many jumps instead of after a time.
func lookAfterJump() {
	if limit := pageLimit.Load(); limit > 0 && farReads.Add(1)%farLooks == 0 {
		discardBeyond(limit, min(pageSlack, limit/8))
	}
}

// lookAtPages drops pages of mapped files beyond a limit, unless somebody has just looked.
func lookAtPages(limit int64) {
	now, next := int64(time.Since(began)), nextPages.Load()
	if now >= next && nextPages.CompareAndSwap(next, now+int64(pageInterval)) {
		discardBeyond(limit, min(pageSlack, limit/8))
	}
}
