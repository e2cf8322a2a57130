//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package safefile

import (
	"context"
	"os"
	"syscall"
	"time"
)

// renamesOpen says that a file can be renamed and removed while it is open, and so keeps its lock.
const renamesOpen = true

// lockFolder excludes other writers of a folder until unlock is called. It fails where a folder can not be read or locked
// (NFS), or another program keeps it locked; the writer has less time left to wait then.
func lockFolder(ctx context.Context, left *time.Duration, dir string) (unlock func(), locked bool) {
	d, err := os.Open(dir)
	if err != nil {
		return func() {}, false
	}
	begin := time.Now()
	for err = flock(d); err == syscall.EWOULDBLOCK && time.Since(begin) < *left && ctx.Err() == nil; err = flock(d) {
		time.Sleep(time.Millisecond)
	}
	*left -= time.Since(begin)
	if err != nil {
		d.Close()
		return func() {}, false
	}
	return func() { d.Close() }, true
}

// lockFile says that a temporary file is in use until it is closed, also by the end of the process.
func lockFile(f *os.File) { _ = flock(f) }

// isLeftOver reports that the process that made a temporary file has ended: no process has it locked.
func isLeftOver(path string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return flock(f) == nil
}

// flock takes a lock that belongs to the open file, or fails at once.
func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EINTR {
			return err
		}
	}
}
