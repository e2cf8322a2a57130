package sysmem

import (
	"os"

	"golang.org/x/sys/unix"
)

// discard gives back the whole pages of a read-only file mapping: the kernel drops
// them and reads them from the file when they are touched again (madvise(2)).
func discard(b []byte) {
	page := uintptr(os.Getpagesize())
	s := span(b)
	from, past := (s.from+page-1)&^(page-1), s.past&^(page-1)
	if from < past {
		_ = unix.Madvise(b[from-s.from:past-s.from], unix.MADV_DONTNEED) // advice: nothing is lost without it
	}
}
