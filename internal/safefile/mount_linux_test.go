package safefile

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const syscallRemountReadOnly = syscall.MS_REMOUNT | syscall.MS_RDONLY

// mount puts a file system in memory over a folder for the time of a test, which is skipped where that is not allowed.
func mount(t *testing.T, dir, options string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	if flags == 0 {
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	}
}
