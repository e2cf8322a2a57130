package safefile

import (
	"os"
	"path/filepath"
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

// TestMountPoint: a file that is mounted by itself is refused before work starts.
func TestMountPoint(t *testing.T) {
	dir := t.TempDir()
	path, source := filepath.Join(dir, "f"), filepath.Join(t.TempDir(), "source")
	for _, name := range []string{path, source} {
		require.NoError(t, os.WriteFile(name, []byte("old"), 0o644))
	}
	require.NoError(t, Check(path))
	if err := syscall.Mount(source, path, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("no file can be mounted here: %v", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(path, 0)) }()
	require.Error(t, os.Rename(source, path))
	require.ErrorContains(t, Check(path), "is mounted by itself")
	require.NoError(t, Check(path+"2"))
	t.Chdir(dir)
	require.ErrorContains(t, Check("f"), "is mounted by itself")
}
