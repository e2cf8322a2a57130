package sysmem

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// discard gives back the whole pages of a read-only file mapping: the kernel drops
// them and reads them from the file when they are touched again (madvise(2)).
func discard(b []byte) {
	if b = wholePages(b); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_DONTNEED) // advice: nothing is lost without it
	}
}

// prefault brings the whole pages in for writing, in large pages where the system has them and their addresses hold nothing yet.
func prefault(b []byte) {
	if b = wholePages(b); len(b) == 0 {
		return
	}
	s := span(b)
	from, past := s.from&^(hugePage-1), (s.past+hugePage-1)&^(hugePage-1)
	bring(b, from, past, false)
}

// largePages brings b in, and makes large pages of small ones that were there before (from Linux 6.1 on). One at an end, of which others
// have at most half, becomes large too.
func largePages(b []byte) {
	s := span(b)
	from, past := (s.from+hugePage/2-1)&^(hugePage-1), (s.past+hugePage/2)&^(hugePage-1)
	if from >= past {
		return
	}
	bring(b, from, past, true)
}

// populates reports that the kernel brings pages in for writing, as those from 5.14 on do. A call without a length tells (madvise(2)).
var populates = sync.OnceValue(func() bool {
	_, _, refused := unix.Syscall(unix.SYS_MADVISE, 0, 0, unix.MADV_POPULATE_WRITE)
	return refused == 0
})

// bring brings b in for writing, in large pages between two addresses; with collapse they take the place of small ones. Where the kernel
// does not, all stays as it is: its own choice of large pages, too.
func bring(b []byte, from, past uintptr, collapse bool) {
	if !populates() {
		return
	}
	advise := func(advice uintptr) { _, _, _ = unix.Syscall(unix.SYS_MADVISE, from, past-from, advice) }
	advise(unix.MADV_HUGEPAGE)
	_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	if collapse {
		advise(unix.MADV_COLLAPSE)
	}
	advise(unix.MADV_NOHUGEPAGE) // what comes later, of others, has small pages as by default (where the system makes large ones always, it keeps small ones there)
}

// wholePages is the part of b that consists of whole pages.
func wholePages(b []byte) []byte {
	page := uintptr(os.Getpagesize())
	s := span(b)
	from, past := (s.from+page-1)&^(page-1), s.past&^(page-1)
	if from >= past {
		return nil
	}
	return b[from-s.from : past-s.from]
}
