//go:build linux

package rescue

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestShare has several goroutines work; what goes wrong in the last to begin comes back as an error.
func TestShare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<16), 0o600))
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, 1<<16, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mapped)) }()
	require.NoError(t, f.Truncate(0))
	failed := errors.New("failed")
	for _, c := range []struct {
		name string
		last func() error
		want string
	}{
		{"nothing", func() error { return nil }, ""},
		{"an error", func() error { return failed }, "failed"},
		{"a panic", func() error { panic("at the end") }, "internal error: at the end"},
		{"a file that was cut short", func() error { return errors.New(string(mapped[1<<15])) }, "internal error: runtime error: invalid memory address or nil pointer dereference"},
	} {
		for _, goroutines := range []int{1, 4} {
			var begun atomic.Int64
			err := Share(goroutines, func() error {
				if begun.Add(1) == int64(goroutines) {
					return c.last()
				}
				return nil
			})
			assert.EqualValues(t, goroutines, begun.Load(), c.name)
			if c.want == "" {
				assert.NoError(t, err, c.name)
			} else {
				assert.EqualError(t, err, c.want, c.name)
			}
		}
	}
}
