package ptx

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind is what a check found.
type Kind uint8

// The kinds of reports.
const (
	OutOfBounds   Kind = iota // an access outside the windows of the launch, or of shared, local, constant or parameter memory
	ReadOnly                  // a store into a window that may only be read, a load from one that may only be written, or a store to what ld.global.nc reads
	Uninitialized             // memory or a register is read that nobody has written
	Race                      // two threads touch the same shared or global memory, one of them writing, without a barrier between
	Misaligned                // an address is no multiple of the size of the access
	Divergence                // some lanes of a warp come to a barrier, or to an operation among lanes, without the others
	Deadlock                  // a barrier is waited for that others never come to
	Trapped                   // the kernel executed trap
	Runaway                   // a block executed more instructions than the launch allows
)

var kindNames = [...]string{"access out of bounds", "access against the window's mode", "read of uninitialized memory", "race", "misaligned access",
	"divergence", "deadlock", "trap", "too many instructions"}

// String names the kind.
func (k Kind) String() string { return kindNames[k] }

// Report is one finding: the first of its kind at its line, in the order of blocks.
type Report struct {
	Kind   Kind
	Kernel string
	Line   int    // of the module's text
	Op     string // the instruction
	Block  [3]int
	Thread [3]int
	Lane   int // of the warp
	Detail string
	Count  int // how many lanes of how many blocks found the same at this line
}

// Error describes the finding on one line.
func (r *Report) Error() string {
	return fmt.Sprintf("%s: line %d (%s), block (%d,%d,%d), thread (%d,%d,%d), lane %d: %s: %s", r.Kernel, r.Line, r.Op,
		r.Block[0], r.Block[1], r.Block[2], r.Thread[0], r.Thread[1], r.Thread[2], r.Lane, r.Kind, r.Detail)
}

// place is where reports are counted together.
type place struct {
	kind Kind
	line int
}

// report notes a finding of a lane.
func (w *warp) report(kind Kind, lane int, format string, args ...any) {
	b := w.block
	at := place{kind, w.step.line}
	if r := b.reports[at]; r != nil {
		r.Count++
		return
	}
	if b.reports == nil {
		b.reports = map[place]*Report{}
	}
	b.reports[at] = &Report{
		Kind: kind, Kernel: b.kernel.name, Line: w.step.line, Op: w.step.name, Block: b.id, Thread: w.thread(lane), Lane: lane,
		Detail: fmt.Sprintf(format, args...), Count: 1,
	}
}

// merge adds the reports of a later block to those of the blocks before it.
func merge(into map[place]*Report, from map[place]*Report) {
	for at, r := range from {
		if first := into[at]; first != nil {
			first.Count += r.Count
		} else {
			into[at] = r
		}
	}
}

// sorted lists reports by line and kind.
func sorted(reports map[place]*Report) (out []*Report) {
	for _, r := range reports {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Report) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Kind, b.Kind)) })
	return out
}
