//go:build unix

package sysmem

import (
	"os"

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
