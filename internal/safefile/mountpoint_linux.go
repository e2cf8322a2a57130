package safefile

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// isMountPoint reports that a file is mounted by itself, as containers do with single files: no other file can be renamed
// over it.
func isMountPoint(path string) bool {
	file, ok1 := mountOf(path)
	folder, ok2 := mountOf(path[:len(path)-len(filepath.Base(path))] + ".")
	return ok1 && ok2 && file != folder
}

// mountOf is the number of the mount that a path lies in, as far as the kernel says it (Linux 5.8).
func mountOf(path string) (mount uint64, known bool) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID != 0
}
