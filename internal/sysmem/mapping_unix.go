//go:build unix

package sysmem

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// MapFile maps the first bytes of a file for reading, until [UnmapFile].
func MapFile(f *os.File, size int) ([]byte, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	if err == nil {
		note(data)
	}
	return data, err
}

// UnmapFile ends a mapping.
func UnmapFile(data []byte) error {
	forget(data)
	return unix.Munmap(data)
}

// stamp is what tells that a file was written to.
type stamp struct{ size, seconds, nanos int64 }

func stampOf(fd uintptr) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return stamp{}, err
	}
	return stamp{st.Size, int64(st.Mtim.Sec), int64(st.Mtim.Nsec)}, nil
}

// HardLinks is how many names a file has.
func HardLinks(info os.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Nlink)
	}
	return 1
}
