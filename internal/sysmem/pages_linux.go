package sysmem

import (
	"os"

	"golang.org/x/sys/unix"
)

// discard gives back the whole pages of a read-only file mapping: the kernel drops
// them and reads them from the file when they are touched again (madvise(2)).
func discard(b []byte) {
	if b = wholePages(b); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_DONTNEED) // advice: nothing is lost without it
	}
}

// prefault brings the whole pages in for writing. Kernels before 5.14 refuse.
func prefault(b []byte) {
	if b = wholePages(b); len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	}
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
